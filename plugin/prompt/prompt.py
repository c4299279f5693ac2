"""
The prompt of a turn: what waited for the session, then the turn's messages, labelled.

Rule 1: no IO; the random fence is an argument. Rule 2: where an agent can take only so much, the
messages of the turn come first; of what waited, as much as there is room for: the rest waits on.
"""

from collections.abc import Sequence
from typing import Final

from wakebus.plugin.prompt.label import MAX_BODIES, PromptItem, label_context, label_many
from wakebus.plugin.prompt.pending_context import PendingContext

# Beside their texts, fifty messages in one turn have headers and fences.
_TEXTS: Final = 0.5


def build_prompt(
    waiting: PendingContext, items: Sequence[PromptItem], limit: int | None, fence: str
) -> tuple[PendingContext, str]:
    """Return what the agent gets, at most `limit` bytes, and what of `waiting` is in it."""
    turn = label_many(items, fence, int(limit * _TEXTS) if limit else MAX_BODIES)
    if limit:
        room = limit - sum(_size(part) for part in (turn, _dropped(waiting)) if part)
        waiting = waiting._replace(items=_fitting(waiting.items, fence, room))
    return waiting, "\n".join(part for part in (context_notes(waiting, fence), turn) if part)


def context_notes(waiting: PendingContext, fence: str) -> str:
    """Return what waited for a session, to stand in front of its next turn; "" for nothing."""
    parts = (_dropped(waiting), label_context(waiting.items, fence))
    return "\n".join(part for part in parts if part)


def _dropped(waiting: PendingContext) -> str:
    many = f"{waiting.dropped} older notes were dropped: too many waited."
    return f"[wakebus] {many}" if waiting.dropped else ""


def _fitting(items: Sequence[PromptItem], fence: str, room: int) -> tuple[PromptItem, ...]:
    """Return the oldest of `items`, as many as `room` bytes hold."""
    for count, item in enumerate(items):
        room -= _size(label_context([item], fence))
        if room < 0:
            return tuple(items[:count])
    return tuple(items)


def _size(part: str) -> int:
    return len(part.encode()) + 1
