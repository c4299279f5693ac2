"""`/bus` (HERMES-5.11)."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes.hermes_ctx import Ctx
from fakes.hermes_process import Station
from wakebus.broker import Client, Delivery
from wakebus.plugin.hermes.tools import slash_command

MakeStation = Callable[[], Station]


def command(station: Station) -> Callable[[str], str]:
    """Return `/bus` as cli.py:9229 of hermes-agent 0.19.0 calls it: a coroutine is awaited."""
    ctx = Ctx()
    slash_command.register(ctx, station.runtime)

    def call(words: str) -> str:
        result = ctx.commands["bus"](words)
        assert inspect.iscoroutine(result)  # gateway/run.py:11197: else it would hold its loop up
        text: str = asyncio.run(result)
        return text

    return call


def test_alone_it_shows_how_the_session_stands(
    bus: Client, station: MakeStation, name: str
) -> None:
    """HERMES-5.11: endpoint, mode, broker, rules, in a few lines."""
    page = command(station().join("cli"))("")
    assert page.splitlines()[0] == f"endpoint: {name} (cli)"
    assert "broker: running, pid" in page and "rules: default rules" in page
    assert len(page.splitlines()) <= 6


def test_who_lists_the_endpoints(bus: Client, station: MakeStation, name: str) -> None:
    """HERMES-5.11: /bus who."""
    assert f"{name}  live" in command(station().join("cli"))("who").splitlines()


def test_send_sends_what_a_person_types(bus: Client, station: MakeStation, name: str) -> None:
    """HERMES-5.11: /bus send NAME TEXT: a directive, caused by nothing, to be answered here."""
    got: list[Delivery] = []
    bus.register(f"to-{name}", lambda delivery: got.append(delivery))
    one = station().join("cli")
    one.runtime.host.chat = "feishu:oc_1"
    call = command(one)
    said = call(f"send to-{name}  run the  tests ")
    assert said.startswith(("queued: ", "delivered: ", "handled: "))
    assert "outcome" not in said  # none is shown
    assert call("send") == call("send x") == "Write: /bus send NAME TEXT"
    unknown = call(f"send to-{name}x hello")
    assert "did you mean" in unknown and unknown.endswith("/bus who lists them.")
    bus.wait(said.splitlines()[0].rpartition("(")[2].rstrip(")"), 15)
    message = got[0].message
    assert (message.text, message.type, message.sender) == ("run the  tests", "directive", name)
    assert (message.channel, message.cause, message.hops) == ("feishu:oc_1", None, 0)


def test_help_and_anything_else() -> None:
    """HERMES-5.11: what there is to type."""
    call = command(Station())
    assert call("help") == slash_command.HELP
    assert call("sned x") == f"unknown: sned\n{slash_command.HELP}"


def test_without_a_bus_it_says_the_next_step(bus_root: Path, station: MakeStation) -> None:
    """HERMES-5.11: in words, never a traceback."""
    call = command(station())
    assert call("who").endswith("Start it: hermes-busd start") and "not running" in call("")


def test_a_slip_is_one_line(
    bus: Client, station: MakeStation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-5.11: nothing is raised into the gateway."""

    def bad(*_: object) -> None:
        raise KeyError("oh")

    monkeypatch.setattr(slash_command, "tool_connection", bad)
    assert command(station())("who") == "/bus failed: KeyError: 'oh'"
