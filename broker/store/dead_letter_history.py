"""
What the columns of a message that has ended tell of it (PROTOCOL.md section 10).

Rule 1: functions of the columns alone. Rule 2: what a channel said counts more than that work had
begun. Rule 3: a life ends with its outcome; what the next one is to know of it is a step.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from wakebus.broker.protocol.outcome import channel_results
from wakebus.broker.protocol.receipt import is_failure
from wakebus.broker.store.rows import LOG_BYTES, Row
from wakebus.broker.store.stored_json import bytes_of, outcome_of, steps_of, unreadable

_SAID: Final = 200  # characters of a channel's word


def in_doubt(row: Row) -> bool:
    """
    Whether work on a dead letter may have been done although it was given up.

    A failure is no doubt: its receiver has said how it ended. What a channel said is certain but
    for `uncertain`, and so is what its receiver said when it put it off last; without their word,
    work had begun. What cannot be read may say anything.
    """
    if is_failure(outcome_of(row["outcome"])):
        return False
    if channel := channel_result(row["outcome"]):
        return bool(channel["result"] == "uncertain")
    steps = _this_life(row["log"])
    lost = any(step.get("what") == "unreadable" for step in steps)
    if lost or unreadable({"outcome": row["outcome"]}):
        return True
    turns = (step for step in reversed(steps) if step.get("what") in ("dead", "retried"))
    last: Row = next(turns, {})
    if last.get("what") == "dead" and "work" in last:
        return bool(last["work"] != "none")
    return bool(row.get("started_before")) or any(step.get("what") == "started" for step in steps)


def _this_life(log: object) -> list[dict[str, Any]]:
    """Return the steps since the last retry; all, where the log may lack some of those."""
    steps = steps_of(log)
    if len(bytes_of(log)) >= LOG_BYTES:
        return steps
    retries = (number for number, step in enumerate(steps) if step.get("what") == "retried")
    return steps[max(retries, default=0) :]


def channel_result(outcome: str | None) -> Mapping[str, Any]:
    """
    Return the channel result in an outcome, {} without: the first that leaves it open what a chat
    has, else the first.
    """
    found = channel_results(outcome_of(outcome))
    open_ = (one for one in found if one["result"] == "uncertain")
    return next(open_, found[0] if found else {})


def channel_step(row: Row) -> str:
    """Return what a channel said, as a step: the outcome ends with this life."""
    channel = channel_result(row["outcome"])
    said = [str(channel[name])[:_SAID] for name in ("result", "chat", "id") if channel.get(name)]
    at = channel.get("at")
    at = at if isinstance(at, int | float) else row["done"]
    step = {"t": at, "what": "channel", "by": row["endpoint"], "why": " ".join(said)}
    return json.dumps(step) + "\n" if said else ""
