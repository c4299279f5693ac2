"""The TUI's server by looking inside (HERMES-2.15, HERMES-8): any name may be missing."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.broker import until
from fakes.hermes_newer import Without
from fakes.hermes_tui import DEAD, TuiServer
from wakebus.plugin.hermes.host_api import private_tui
from wakebus.plugin.hermes.host_api.private_tui import (
    CLOSED,
    ELSEWHERE,
    UNSEEN,
    PrivateTui,
    away,
    live_sessions,
)
from wakebus.plugin.hermes.host_api.protocol import CannotBegin, Unreachable


@pytest.fixture
def server() -> Iterator[TuiServer]:
    found = TuiServer(lambda name, **fields: [])
    yield found
    found.end()


def api(server: TuiServer, home: str = "") -> PrivateTui:
    return PrivateTui(server, server.inject, Path(home) if home else None)


def hold(server: TuiServer, id: str) -> None:
    """Have a person's turn run until `agent.go`."""
    server.person(id, "HOLD the person's own")
    assert server.agent(id).holding.wait(30)


def test_live_sessions(server: TuiServer) -> None:
    """HERMES-8.1: those that run, of this profile, the last active first."""
    server.open("a", last_active=1.0)
    server.open("b", last_active=2.0, transport=DEAD)
    server.open("watching", lazy=True)
    server.open("closing", _closing=True)
    server.open("room", room_plumbing=True)
    server.open("member", source="bot_room")
    server.open("other", profile_home="/homes/work")
    found = api(server, "/homes/own").sessions()
    assert [(one.key, one.away) for one in found] == [("b", UNSEEN), ("a", "")]
    assert [one.key for one in api(server, "/homes/work").sessions()] == ["other"]
    assert len(api(server).sessions()) == 3


@pytest.mark.parametrize(
    "other", [None, object(), SimpleNamespace(_sessions=None), SimpleNamespace(_sessions={"a": 1})]
)
def test_another_hermes_has_none(other: Any) -> None:
    """HERMES-2.15: what is not there, or of another shape, is none."""
    assert live_sessions(other) == []
    tui = PrivateTui(other, lambda content, **_: False)
    assert tui.sessions() == [] and tui.show("a", "x") == CLOSED
    assert tui.conversation("a").gone == CLOSED and not tui.conversation("a").idle


@pytest.mark.parametrize(
    "name", ["_emit", "_transport_is_dead", "_session_pending_kind", "_hermes_home"]
)
def test_a_name_of_the_server_that_is_gone(server: TuiServer, name: str) -> None:
    """HERMES-3.20: turns begin all the same; a print that cannot be shown says so."""
    server._hermes_home = str(Path.cwd())
    id = server.open("a")
    tui = PrivateTui(Without(server, name), server.inject, Path.cwd())
    assert not tui.sessions()[0].away and tui.conversation("a").enqueue("ours")
    until(lambda: server.prompts == [(id, "ours")])
    assert tui.show("a", "x") == (UNSEEN if name == "_emit" else "")


@pytest.mark.parametrize(
    "name", ["queued_prompt", "transport", "last_active", "running", "agent", "history_lock"]
)
def test_a_field_of_a_session_that_is_gone(server: TuiServer, name: str) -> None:
    """HERMES-3.20: what shows no turn any more is no session; of the rest a default will do."""
    session = server._sessions[server.open("a")]
    tui = api(server)
    kept = {key: value for key, value in session.items() if key != name}
    server._sessions["ui-a"] = kept
    if name in ("running", "agent", "history_lock"):
        assert tui.sessions() == [] and tui.conversation("a").gone
    else:
        assert [one.key for one in tui.sessions()] == ["a"] and tui.conversation("a").idle
        assert tui.show("a", "x") == ""
    server._sessions["ui-a"] = session


def test_what_takes_no_turn(server: TuiServer) -> None:
    """HERMES-8.1, HERMES-8.10: being opened, failed to open, run elsewhere."""
    server.open("a", agent=None)
    server.open("b", agent=None, agent_error="no provider is set up")
    server.open("c", _compute_host_active=True)
    sessions = dict(live_sessions(server))
    assert "opened" in away(server, sessions["ui-a"])
    assert away(server, sessions["ui-b"]) == "no provider is set up"
    assert away(server, sessions["ui-c"]) == ELSEWHERE
    assert all(one.away and one.busy for one in api(server).sessions())
    del server._sessions["ui-a"], server._sessions["ui-b"]


def test_idle(server: TuiServer) -> None:
    """HERMES-8.3: no turn, nothing queued, no question, no turn that is about to go on."""
    id = server.open("a")
    found = api(server).conversation("a")
    assert found.idle and not found.running and not found.gone and not found.leaving
    server.asks.add(id)
    assert not found.idle
    server.asks.clear()
    for name, value in (("queued_prompt", {"text": "x"}), ("_auto_continue_scheduled", True)):
        server._sessions[id][name] = value
        assert not found.idle
        server._sessions[id][name] = None
    hold(server, id)
    assert found.running and not found.idle


def test_a_prompt_is_a_turn_of_its_own(server: TuiServer) -> None:
    """HERMES-8.3: in the session that is named, and no other."""
    server.open("a")
    id = server.open("b")
    assert api(server).conversation("b").enqueue("ours")
    until(lambda: server.prompts == [(id, "ours")])


def test_behind_a_person_it_is_taken_back(server: TuiServer) -> None:
    """HERMES-8.3: what a person typed before and after it stays, and is not joined with it."""
    id = server.open("a")
    hold(server, id)
    found = api(server).conversation("a")
    assert not found.enqueue("ours") and not found.is_queued("ours")
    server.person(id, "typed one")
    server.inject("ours", session_key="a")
    server.person(id, "typed two")
    assert found.is_queued("ours") and found.withdraw("ours") and not found.withdraw("ours")
    server.agent(id).go.set()
    until(lambda: len(server.prompts) == 2)
    assert server.prompts[1] == (id, "typed one\n\ntyped two")


@pytest.mark.parametrize(
    ("queue", "left"),
    [
        (["ours"], []),
        (["ours", "image"], ["image"]),
        (["image", "ours\n\nlater", "last"], ["image", "later", "last"]),
        (["before\n\nours"], ["before"]),
    ],
)
def test_what_is_taken_back(server: TuiServer, queue: list[str], left: list[str]) -> None:
    """HERMES-8.3: only ours; the rest is in the order in which it was."""
    session = server._sessions[server.open("a")]
    session["queued_prompt"], *rest = [{"text": text, "n": n} for n, text in enumerate(queue)]
    session["queued_prompts"] = rest
    assert api(server).conversation("a").withdraw("ours")
    head = session["queued_prompt"]
    found = [*([head] if head else []), *session.get("queued_prompts", [])]
    assert [one["text"] for one in found] == left


def test_what_refuses_a_turn(server: TuiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-8.4: no grant; a session that was closed; a process that takes none any more."""
    id = server.open("a")
    found = api(server).conversation("a")
    server.granted = False
    with pytest.raises(CannotBegin, match="inject_message"):
        found.enqueue("x")
    server.granted, server.retiring = True, True
    monkeypatch.setattr(private_tui, "TAKE_S", 0.2)
    assert not found.enqueue("x") and not found.is_queued("x")
    server.close(id)
    with pytest.raises(Unreachable, match=CLOSED):
        found.enqueue("x")


def test_an_interrupt_is_for_our_turn_alone(server: TuiServer) -> None:
    """HERMES-8.7: what a person queued stays; a turn into which one wrote goes on."""
    id = server.open("a")
    hold(server, id)
    server.person(id, "typed meanwhile")
    found, over = api(server).conversation("a"), threading.Event()
    server._sessions[id]["inflight_turn"] = {"user": "ours", "corrections": ["and mine"]}
    found.interrupt(over.is_set)
    assert found.running and not server.agent(id)._interrupt_requested
    server._sessions[id]["inflight_turn"] = {"user": "ours"}
    found.interrupt(lambda: len(server.prompts) == 2)
    until(lambda: server.prompts[-1] == (id, "typed meanwhile"))


def test_a_session_keeps_its_names(server: TuiServer) -> None:
    """HERMES-8.5: compressed, it has another key, and is found by the old one too."""
    id = server.open("a")
    tui = api(server)
    assert tui.sessions()[0].names == ("a",)
    server.compress(id, "a2")
    assert tui.sessions()[0].names == ("a2", "a")
    assert tui.conversation("a").enqueue("ours")
    until(lambda: server.prompts == [(id, "ours")])
