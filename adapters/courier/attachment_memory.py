"""
The files of messages in flight: read when their turn comes, removed when they are old.

Rule 1: a copy outlives the end of its message by an hour: killed before the broker has stored that
end, the courier sees the message again, and must not take it for one whose file was lost. Rule 2:
what a crash left is swept away after 8 days (attachments.py). Rule 3: at most MOST of their bytes
are in memory at once, each with its copy in a form: what is more waits for its turn. Small files do
not wait for large ones.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from wakebus.adapters.delivery import attachments

OUTLIVE_S: Final = 3600.0
SWEEP_S: Final = 3600.0
MOST: Final = 4 * attachments.MAX_FILE  # with the copies in forms 160 MiB
FULL_S: Final = 1.0  # until the next one asks again
MAX_SPENT: Final = 10_000  # what is forgotten here is swept away later


class AttachmentMemory:
    """`bus/files` of the bus's `folder`. Thread-safe: deque's ends are, and one thread tidies."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._spent: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=MAX_SPENT)
        self._swept: float | None = None
        self._held, self._lock = 0, threading.Lock()

    @contextmanager
    def reserve(self, body: Mapping[str, Any]) -> Iterator[bool]:
        """Hold the memory that a message's file needs; False where there is none now."""
        size = attachments.size_of(body)
        with self._lock:
            got = not size or self._held + size <= MOST
            self._held += size * got
        try:
            yield got
        finally:
            with self._lock:
                self._held -= size * got

    def full(self) -> str:
        """Return why a file waits that there is no room for."""
        return f"files of {attachments.megabytes(MOST)} are under way; this one comes after them"

    def expire(self, body: Mapping[str, Any], now: float) -> None:
        """The message of this body has ended, and nobody can have it sent again."""
        if body.get("file") is not None:
            self._spent.append((now + OUTLIVE_S, {"file": body["file"]}))

    def sweep(self, now: float) -> None:
        """Remove what is due; `now`: Unix seconds."""
        if self._folder is None:
            return
        while self._spent and self._spent[0][0] <= now:
            attachments.forget(self._spent.popleft()[1], self._folder)
        if self._swept is None or abs(now - self._swept) >= SWEEP_S:
            self._swept = now
            attachments.sweep(self._folder, now)
