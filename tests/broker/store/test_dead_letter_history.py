"""What the columns of a message that has ended tell of it; the store is not needed for it."""

import json
from typing import Any

import pytest

from wakebus.broker.store import dead_letter_history
from wakebus.broker.store.rows import LOG_BYTES, Row


def row(steps: str = "", outcome: Any = None, **more: Any) -> Row:
    """Return the columns of one; `steps`: their names."""
    log = "".join(json.dumps({"t": 1, "what": what}) + "\n" for what in steps.split())
    told = json.dumps(outcome) if outcome else None
    return {"log": log, "outcome": told, "started_before": 0, "endpoint": "e", "done": 9.0, **more}


@pytest.mark.parametrize(
    ("steps", "doubt"),
    [
        ("accepted dead", False),
        ("accepted started dead", True),
        ("started refused channel retried dead", False),
        ("retried started dead", True),
    ],
)
def test_work_of_this_life(steps: str, doubt: bool) -> None:
    """PROTOCOL-10.8: what an earlier life did is in `started_before`, not in its steps."""
    assert dead_letter_history.in_doubt(row(steps)) is doubt
    assert dead_letter_history.in_doubt(row(steps, started_before=1)) is True


def test_a_failure_is_no_doubt() -> None:
    """PROTOCOL-6.13: its receiver has said how it ended."""
    uncertain = {"failed": True, "channel": {"result": "uncertain"}}
    assert not dead_letter_history.in_doubt(row("started refused", uncertain, started_before=1))
    assert dead_letter_history.in_doubt(row("started refused", {"failed": "no"}))


def test_steps_that_are_cut_off() -> None:
    """Where steps may be missing, those of earlier history count too."""
    assert dead_letter_history.in_doubt(row("started retried " + "later " * (LOG_BYTES // 20)))


def test_a_channels_word_counts_more() -> None:
    """PROTOCOL-10.8: whatever the steps say."""
    for word, doubt in (("uncertain", True), ("rejected", False), ("odd", False)):
        assert dead_letter_history.in_doubt(row("started", {"channel": {"result": word}})) is doubt
    odds: list[Row] = [{"channel": "x"}, {"channel": {}}, {"channel": [1]}, {}]
    for odd in odds:
        assert dead_letter_history.channel_result(json.dumps(odd)) == {}
        assert (
            dead_letter_history.in_doubt(row("started", odd)) is True
            and dead_letter_history.channel_step(row("", odd)) == ""
        )


def test_what_a_print_left_open() -> None:
    """PROTOCOL-10.8, PROTOCOL-10.10: of several texts the one in doubt counts."""
    maybe = {"what": "print", "result": "uncertain", "to": "ntfy:t"}
    for outcome in (
        {"actions": [maybe]},
        {"actions": [{"what": "print", "result": "sent"}, maybe]},
        {"channel": {"result": "answered"}, "actions": [{"what": "context"}, maybe]},
    ):
        assert dead_letter_history.channel_result(json.dumps(outcome)) == maybe
        assert dead_letter_history.in_doubt(row("started", outcome)) is True
    refused = {"actions": [{"what": "print", "result": "rejected"}]}
    assert dead_letter_history.in_doubt(row("started", refused)) is False
    for odd in ({"actions": "x"}, {"actions": [1, {"what": "context"}]}):
        assert dead_letter_history.channel_result(json.dumps(odd)) == {}


def test_what_the_next_life_knows() -> None:
    """PROTOCOL-10.8: a short step; whatever an outcome holds, it is one line of JSON."""
    channel = {"result": "rejected", "chat": "ntfy:" + "t" * 900, "id": ["\n"]}
    line = dead_letter_history.channel_step(row("", {"channel": {**channel, "at": {}}}))
    step = json.loads(line)
    assert line.count("\n") == 1 and len(line) < 700
    assert step["t"] == 9.0 and step["by"] == "e" and step["why"].startswith("rejected ntfy:ttt")
