"""
What became of an answer that Hermes's core delivers itself.

Rule 1: the core says it in one place: `on_processing_complete(event, outcome)` of the adapter
(gateway/platforms/base.py:4167, 5455 of 0.19.0), which is wrapped and always called on. Rule 2: an
event is ours if it is the very one that was handed over; where Hermes made it (inject_message), by
its whole text in its own chat: what quotes us is not us. Rule 3: what fails here never reaches
Hermes. Rule 4: bounded: a fate is forgotten by who waited for it; an adapter is wrapped once.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from wakebus.plugin.hermes.gateway import conversations as origin

_ORIGINAL: Final = "wakebus_original"


class Fate:
    """
    `done` is set when the core has ended with the event; `result`: success, failure, ….

    `event`: what was handed over, None where Hermes makes it of `text` for the chat `where`.
    """

    def __init__(self, text: str, where: str) -> None:
        self.done, self.result = threading.Event(), ""
        self.text, self.where, self.event = text, where, None

    event: Any

    def is_of(self, event: Any) -> bool:
        """Return whether this is the fate of `event`."""
        if self.event is not None:
            return event is self.event
        there = origin.token(getattr(event, "source", None)) == self.where
        return there and getattr(event, "text", None) == self.text


class Fates:
    """The events of ours that the core works on. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fates: list[Fate] = []

    @contextmanager
    def over(self, text: str, where: str) -> Iterator[Fate]:
        """Inside, what becomes of the event with `text` in the chat `where` is noted."""
        fate = Fate(text, where)
        with self._lock:
            self._fates.append(fate)
        try:
            yield fate
        finally:
            with self._lock:
                self._fates.remove(fate)

    def listen(self, adapter: Any) -> bool:
        """Hear what the core says of this adapter's events; return whether that is possible."""
        current = getattr(adapter, "on_processing_complete", None)
        if not callable(current):
            return False
        if getattr(current, "wakebus_fates", None) is self:
            return True
        original = getattr(current, _ORIGINAL, current)  # not wrapped twice, by two of us

        async def complete(event: Any, outcome: Any, *more: Any, **named: Any) -> Any:
            with suppress(Exception):
                self.note(event, outcome)
            return await original(event, outcome, *more, **named)

        setattr(complete, _ORIGINAL, original)
        complete.wakebus_fates = self  # type: ignore[attr-defined]
        try:
            adapter.on_processing_complete = complete
        except AttributeError:
            return False
        return True

    def note(self, event: Any, outcome: Any) -> None:
        """The core has ended with `event`."""
        with self._lock:
            found = [fate for fate in self._fates if fate.is_of(event)]
        for fate in found:
            fate.result = str(getattr(outcome, "value", outcome) or "")
            fate.done.set()
