"""
What waits for a session, in front of a person's next turn: which texts, shown when.

Rule 1: as many of the oldest as Hermes passes on whole, the rest waits: Hermes replaces a longer
context by a pointer to a file (tools/hook_output_spill.py of hermes-agent 0.19.0), and a text that
the model did not get was not shown. Rule 2: what stands in front of a turn is forgotten when the
turn ends well; if that failed or was interrupted, it is shown again (pending_context.py): of a turn
without an answer Hermes keeps only what the person wrote. Rule 3: a turn whose end Hermes never
told has failed; that is known when its session's next one begins. Rule 4: bounded; a turn's fence
is made here, random.
"""

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.prompt.pending_context import Context, PendingContext
from wakebus.plugin.prompt.prompt import context_notes

log = logging.getLogger("wakebus")

MAX_TURNS: Final = 256
_CUT: Final = 160  # characters that a pointer to the whole text takes at most

Shown = list[tuple[str, PendingContext]]


class ContextInjection:
    """What stood in front of the turns that run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: OrderedDict[str, tuple[str, Context, Shown]] = OrderedDict()

    def begin_turn(
        self, context: Context, names: Sequence[str], session_id: str, turn_id: str, limit: int
    ) -> str:
        """Return what goes in front of turn `turn_id`, at most `limit` characters; "" for none."""
        parts: list[str] = []
        shown: Shown = []
        for name in names:
            try:
                waiting = context.waiting(name)
            except OSError as exc:
                log.warning("what waits could not be read, it waits on: %s", exc)
                continue
            now = time.time()
            found, text = fitting(waiting.at(now), limit, secrets.token_hex(12))
            if text:
                parts.append(text)
                shown.append((name, found))
                limit -= len(text) + 1
            if len(found.items) < len(waiting.items):
                break
        if shown:
            self._remember(session_id, turn_id, context, shown)
        return "\n".join(parts)

    def _remember(self, session_id: str, turn_id: str, context: Context, shown: Shown) -> None:
        with self._lock:
            self._turns[turn_id] = (session_id, context, shown)
            while len(self._turns) > MAX_TURNS:
                self._turns.popitem(last=False)  # it waits on: it is shown again

    def end_turn(self, turn_id: str, *, seen: bool | None) -> None:
        """Turn `turn_id` is over, well (`seen`) or not; None: it was cut off, nobody knows."""
        with self._lock:
            _, context, shown = self._turns.pop(turn_id, ("", None, []))
        for name, waiting in shown:
            if context is not None and seen is not None:
                _settle(context, name, waiting, turn_id, seen)

    def end_session(self, session_id: str, but: str = "") -> None:
        """Every turn of the session but `but` has ended without a word."""
        with self._lock:
            turns = [id for id, (of, _, _) in self._turns.items() if of == session_id and id != but]
        for turn_id in turns:
            self.end_turn(turn_id, seen=False)


def _settle(context: Context, name: str, waiting: PendingContext, turn_id: str, seen: bool) -> None:
    try:
        if seen:
            context.shown(name, waiting)
        elif spoiled := context.failed(name, waiting, turn_id):
            log.warning("shown to turns that failed, not shown again: %s", ", ".join(spoiled))
    except OSError as exc:
        log.warning("what was shown is shown again after a restart: %s", exc)


def fitting(waiting: PendingContext, limit: int, fence: str) -> tuple[PendingContext, str]:
    """Return the oldest that `limit` characters hold, and their text. Pure."""
    found = PendingContext((), waiting.dropped)
    for item in waiting.items:
        more = found._replace(items=(*found.items, item))
        if len(context_notes(more, fence)) > limit:
            break
        found = more
    if not found.items and waiting.items:
        return _first(waiting, limit, fence)
    text = context_notes(found, fence)
    return (found, text) if len(text) <= limit else (PendingContext(), "")


def _first(waiting: PendingContext, limit: int, fence: str) -> tuple[PendingContext, str]:
    """The oldest alone is too long: as much of it as has room, or it would wait for ever."""
    item = waiting.items[0]
    found = PendingContext((item._replace(text=""),), waiting.dropped)
    room = limit - len(context_notes(found, fence)) - _CUT
    if room < 1:
        return PendingContext(), ""
    found = PendingContext((_cut(item, room),), waiting.dropped)
    text = context_notes(found, fence)
    return (found, text) if len(text) <= limit else (PendingContext(), "")


def _cut(item: PromptItem, room: int) -> PromptItem:
    whole = f"`wakebus trace {item.message.id} --text`"
    return item._replace(text=f"{item.text[:room]}\n[cut: the whole is shown by {whole}]")
