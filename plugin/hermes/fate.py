"""
What became of an answer that Hermes's core delivers itself.

Rule 1: the core says it in one place: `on_processing_complete(event, outcome)` of the adapter
(gateway/platforms/base.py:4167, 5455 of 0.19.0), which is wrapped and always called on. Rule 2: an
event is ours by its marker. Rule 3: what fails here never reaches Hermes. Rule 4: bounded: a fate
is forgotten by who waited for it; an adapter is wrapped once.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_ORIGINAL: Final = "wakebus_original"


class Fate:
    """`done` is set when the core has ended with the event; `result`: success, failure, …."""

    def __init__(self) -> None:
        self.done, self.result = threading.Event(), ""


class Fates:
    """The events of ours that the core works on. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fates: dict[str, Fate] = {}

    @contextmanager
    def over(self, marker: str) -> Iterator[Fate]:
        """Inside, what becomes of the event whose text holds `marker` is noted."""
        fate = Fate()
        with self._lock:
            self._fates[marker] = fate
        try:
            yield fate
        finally:
            with self._lock:
                del self._fates[marker]

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
        text = str(getattr(event, "text", "") or "")
        with self._lock:
            found = [fate for marker, fate in self._fates.items() if marker in text]
        for fate in found:
            fate.result = str(getattr(outcome, "value", outcome) or "")
            fate.done.set()
