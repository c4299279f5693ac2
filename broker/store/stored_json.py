"""
What the columns of a message hold as JSON: the message, its steps, its outcome.

Rule 1: pure; whatever a column holds, nothing here raises: one bad row must not hide the others.
Rule 2: steps are lines, cut by a newline alone: JSON leaves other line ends, as U+2028, in a text
as they are. Rule 3: what cannot be read is told by its name, never left out in silence.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.store.rows import Row

_SHOWN: Final = 80  # characters of a step that cannot be read


def message_of(stored: object, id: str | None = None) -> Row | None:
    """
    Return the wire object of a stored message, None where no client would take it as a message.

    `id`: the one that it must have.
    """
    found = _object(stored)
    try:
        message = messages.from_wire(found, msgspec.json.encode)
    except (WakebusError, ValueError, RecursionError):
        return None
    return found if id in (None, message.id) else None


def steps_of(stored: object) -> list[Row]:
    """Return a message's steps; one that cannot be read is `what: unreadable`, at its place."""
    steps: list[Row] = []
    for line in bytes_of(stored).split(b"\n"):
        if not line:
            continue
        if (step := _object(line)) is None:
            before = steps[-1].get("t", 0.0) if steps else 0.0
            shown = line.decode(errors="replace")[:_SHOWN]
            step = {"t": before, "what": "unreadable", "why": shown}
        steps.append(step)
    return steps


def outcome_of(stored: object) -> Row:
    """Return a message's outcome, {} without one, or where it cannot be read."""
    return _object(stored) or {}


def unreadable(row: Mapping[str, Any]) -> list[str]:
    """Return which of `message`, `steps` and `outcome` cannot be read, of those columns it has."""
    bad = []
    id = row.get("id") or None
    if row.get("message") is not None and message_of(row["message"], id) is None:
        bad.append("message")
    if any(step.get("what") == "unreadable" for step in steps_of(row.get("log"))):
        bad.append("steps")
    if row.get("outcome") and _object(row["outcome"]) is None:
        bad.append("outcome")
    return bad


def bytes_of(stored: object) -> bytes:
    """Return what a column holds: SQLite keeps whatever type was put in."""
    if isinstance(stored, bytes):
        return stored
    return b"" if stored is None else str(stored).encode(errors="replace")


def _object(stored: object) -> Row | None:
    try:
        found = msgspec.json.decode(bytes_of(stored))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
