"""
The prompt of a turn: what waited for the session, then the turn's messages, labelled.

Rule 1: no IO but the random fence. Rule 2: where an agent can take only so much, the messages of
the turn come first, and what waited is shown as far as there is room; the rest waits on.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from wakebus.plugin.receive.context import Waiting
from wakebus.plugin.receive.label import MAX_BODIES, Item, label_context, label_many

# Beside their texts, fifty messages in one turn have headers and fences.
_TEXTS: Final = 0.5


def prompt(waiting: Waiting, items: Sequence[Item], limit: int | None) -> tuple[Waiting, str]:
    """Return what the agent gets, at most `limit` bytes, and what of `waiting` is in it."""
    fence = secrets.token_hex(12)
    turn = label_many(items, fence, int(limit * _TEXTS) if limit else MAX_BODIES)
    note = f"[wakebus] {waiting.dropped} older notes were dropped: too many waited."
    notes = [note] if waiting.dropped else []
    if limit:
        room = limit - sum(_size(part) for part in (turn, *notes))
        waiting = waiting._replace(items=_fitting(waiting.items, fence, room))
    parts = [*notes, label_context(waiting.items, fence), turn]
    return waiting, "\n".join(part for part in parts if part)


def _fitting(items: Sequence[Item], fence: str, room: int) -> tuple[Item, ...]:
    """Return the oldest of `items`, as many as `room` bytes hold."""
    for count, item in enumerate(items):
        room -= _size(label_context([item], fence))
        if room < 0:
            return tuple(items[:count])
    return tuple(items)


def _size(part: str) -> int:
    return len(part.encode()) + 1
