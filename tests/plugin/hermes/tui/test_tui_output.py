"""Prints in sessions of the TUI and the desktop (HERMES-8.6)."""

import sys

import pytest

from fakes.hermes_tui import DEAD, TuiServer
from wakebus.plugin.hermes.host_api.private_tui import MUTED, UNSEEN, PrivateTui
from wakebus.plugin.hermes.tui.tui_output import NO_SESSION, TuiOutput


def server() -> TuiServer:
    return TuiServer(lambda name, **fields: [])


def output(found: TuiServer) -> TuiOutput:
    return TuiOutput(PrivateTui(found, found.inject))


def test_a_line_in_the_session_that_is_named() -> None:
    """HERMES-8.6: there and nowhere else; without a name, in all."""
    found = server()
    a, b = found.open("a"), found.open("b")
    assert output(found).of_session("a").show("\x1b[31mred\x1b[0m") == ""
    assert found.shown == [(a, "red")]
    assert output(found).show("to all") == ""
    assert sorted(found.shown[1:]) == [(a, "to all"), (b, "to all")]


def test_what_nobody_sees_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """HERMES-8.6: no client, muted, no session: an error; never a word on the server's wire."""
    found = server()
    assert output(found).show("x") == NO_SESSION
    found.open("a", transport=DEAD)
    assert output(found).of_session("a").show("x") == UNSEEN
    found.open("b")
    assert output(found).show("seen by one") == ""
    found.muted = True
    assert output(found).of_session("b").show("x") == MUTED
    sys.stdout.flush()
    assert capsys.readouterr().out == ""
