"""What `status` prints: each number that is not good, with the next command."""

from typing import Any

import pytest

from wakebus.broker.server.status_page import status_page

GOOD: dict[str, Any] = {
    "pid": 1,
    "version": "0.1.0",
    "protocol": 1,
    "uptime_s": 500.0,
    "router": "ipc:///x",
    "folder": "/b",
    "messages": 3,
    "store_bytes": 1024,
    "store_limit": 1 << 30,
    "dead_letters": 0,
    "accepted": 3,
    "events": {"in": 0, "bytes_in": 0, "missed": 0, "dropped": 0},
    "set_aside": [],
    "endpoints": [],
}


def endpoint(name: str, state: str, queued: int = 0, **more: Any) -> dict[str, Any]:
    """Return an endpoint as `status` tells it."""
    return {"name": name, "state": state, "epoch": 1, "queued": queued, "in_hand": 0, **more}


def marks(data: dict[str, Any]) -> list[str]:
    """Return the lines that begin with a word in capitals, but for the table's."""
    lines = [line.split("  ")[0] for line in status_page(data).split("\n")]
    return [word for word in lines if word.endswith(":") and word.isupper()]


def test_what_is_good_is_no_mark() -> None:
    """Neither is a receiver that is away and has nothing, nor one that works on much."""
    calm = [endpoint("a", "away"), endpoint("b", "live", 9, pid=2, beat_age_s=1.0)]
    assert marks({**GOOD, "endpoints": calm}) == []
    assert "wakebus listen NAME" in status_page(GOOD)


def test_a_courier_that_is_being_started() -> None:
    """For the broker's first seconds it is away and nothing is wrong."""
    assert marks({**GOOD, "uptime_s": 1.0, "endpoints": [endpoint("courier", "away")]}) == []


@pytest.mark.parametrize(
    ("bad", "mark", "command"),
    [
        ({"dead_letters": 2}, "DEAD:", "2 given up: wakebus dead list"),
        ({"purged_early": 7}, "FULL:", "7 ended ones deleted early; a larger store_bytes: wakebus"),
        ({"store_bytes": 1 << 30}, "FULL:", "wakebus dead purge --all"),
        ({"notices_lost": 1}, "LOST:", "wakebus inbox NAME"),
        ({"set_aside": ["bus.db.corrupt-1"]}, "DAMAGED:", "wakebus restore FILE"),
        (
            {"endpoints": [endpoint("a", "away", 3)]},
            "AWAY:",
            "a, 3 waiting: wakebus listen a, or start its Hermes",
        ),
        ({"endpoints": [endpoint("courier", "away")]}, "AWAY:", "/b/courier.log; to go on: hermes"),
        (
            {"endpoints": [endpoint("a", "silent", pid=42, beat_age_s=14.2)]},
            "SILENT:",
            "a, not heard for 14 s; if it is stopped: kill -CONT 42",
        ),
        (
            {"paused": [{"from": "a", "to": "b", "reason": "r", "until": 1.0}]},
            "PAUSED:",
            "wakebus resume a b",
        ),
    ],
    ids=str,
)
def test_what_is_not(bad: dict[str, Any], mark: str, command: str) -> None:
    """PROTOCOL-10.5: by its mark, and the next command."""
    data = {**GOOD, **bad}
    assert marks(data) == [mark] and command in status_page(data)


def test_events_that_were_missed() -> None:
    """With the setting that would help."""
    data = {**GOOD, "events": {**GOOD["events"], "missed": 4}}
    assert "4 missed by slow subscribers; for larger queues (events_…_hwm)" in status_page(data)


def test_an_older_broker() -> None:
    """What it does not tell is left out."""
    data = {k: v for k, v in GOOD.items() if k not in ("events", "store_limit", "purged_early")}
    assert marks(data) == []
