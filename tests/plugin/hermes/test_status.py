"""How a process stands with the bus, as bus_info and /bus tell it (HERMES-5.9, HERMES-5.11)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker
from fakes.hermes_process import Station
from wakebus.broker import Client
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.shared.turn_grant import how_to_grant
from wakebus.plugin.hermes.status import (
    MAX_SESSIONS,
    broker_facts,
    endpoints_page,
    status,
    status_page,
)
from wakebus.plugin.prompt.label import PromptItem

MakeStation = Callable[[], Station]

QUIET: dict[str, Any] = {
    "endpoint": "hermes-bus",
    "mode": "cli",
    "receiving": True,
    "broker": {"running": True, "pid": 7},
}


def test_a_quiet_session_is_two_lines() -> None:
    """HERMES-5.11: nothing is said of what there is not."""
    assert status_page(QUIET) == "endpoint: hermes-bus (cli)\nbroker: running, pid 7"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"receiving": False}, "endpoint: hermes-bus (cli), receives nothing"),
        ({"endpoint": "", "mode": ""}, "endpoint: not on the bus"),
        (
            {"broker": {"running": False, "next": "hermes-busd start"}},
            "broker: not running; start it: hermes-busd start",
        ),
        ({"gateway_turns": {"on": True}}, "turns in chats: on"),
        (
            {"gateway_turns": {"on": False, "turn_on": "write it"}},
            "turns in chats: off; write it",
        ),
        ({"waiting_context": {"a": 2, "b": 1}}, "context that waits: 3 texts"),
        ({"waiting_context": "cannot be read: x"}, "context that waits: cannot be read: x"),
        ({"in_hand": 2, "turns_open": 1}, "in hand: 2 messages, 1 turns"),
        ({"error": "what went wrong"}, "error: what went wrong"),
        ({"rules": {"source": "r.yaml", "warnings": ["odd"]}}, "  warning: odd"),
        ({"rules": {"source": "r.yaml", "error": "bad", "note": "old"}}, "  error: bad; old"),
    ],
)
def test_each_fact_has_its_line(more: dict[str, Any], line: str) -> None:
    """HERMES-5.11: what is wrong with its next step."""
    assert line in status_page({**QUIET, **more}).splitlines()


def test_sessions_have_a_line_each() -> None:
    """HERMES-8.8: by the key that one names; not all of many."""
    sessions = [{"session": f"s{n}", "state": "idle"} for n in range(MAX_SESSIONS + 2)]
    facts = {**QUIET, "mode": "tui", "gateway_turns": {"on": True}, "sessions": sessions}
    lines = status_page(facts).splitlines()
    assert "turns in the TUI: on" in lines and "session s0: idle" in lines
    assert lines[-1] == "and 2 more sessions"


def test_a_gateway_says_whether_it_may_start_turns(
    bus: Client, home: Path, station: MakeStation
) -> None:
    """HERMES-5.9: and the line that lets it."""
    told = status(station().join("gateway").runtime)
    assert told["gateway_turns"] == {"on": False, "turn_on": how_to_grant(home)}


def test_what_waits_is_counted_by_session(
    bus: Client, station: MakeStation, make: Callable[..., Message]
) -> None:
    """HERMES-5.9: the fullest sessions one by one, the rest together."""
    one = station().join("cli")
    context = one.runtime.context
    assert context is not None
    for number in range(MAX_SESSIONS + 3):
        context.add(f"s{number}", PromptItem(make(id=f"m{number}"), "t"))
    context.add("s5", PromptItem(make(id="more"), "t"))
    context.add("", PromptItem(make(id="none"), "t"))
    waiting = status(one.runtime)["waiting_context"]
    assert len(waiting) == MAX_SESSIONS + 1
    assert next(iter(waiting.items())) == ("s5", 2) and waiting["(others)"] == 4


def test_a_broker_that_was_stopped_by_hand_is_told_so(broker: Broker) -> None:
    """HERMES-5.9: with the command that starts it."""
    assert broker_facts()["pid"] == broker.pid
    broker.command("stop")
    told = broker_facts()
    assert told["running"] is False and told["next"] == "hermes-busd start"
    line = status_page({**QUIET, "broker": told}).splitlines()[1]
    assert line == "broker: not running (it was stopped by hand); start it: hermes-busd start"


def test_rules_that_turned_bad_are_told(bus: Client, station: MakeStation, home: Path) -> None:
    """HERMES-2.9: the last good ones are in force."""
    one = station().join("cli")
    rules = home / "bus-rules.yaml"
    rules.write_text("nonsense: 1\n")
    rules.chmod(0o600)
    told = status(one.runtime)["rules"]
    assert "nonsense" in told["error"] and told["note"] == "the last good rules are in force"
    assert told["source"] == "default rules"


def test_endpoints_are_listed_one_a_line() -> None:
    """HERMES-5.11: name, state, what waits."""
    rows = [
        {"name": "a", "state": "live", "queued": 0},
        {"name": "b", "state": "away", "queued": 2},
    ]
    assert endpoints_page(rows) == "a  live\nb  away  2 queued"
    assert endpoints_page([]) == "no endpoint yet"
