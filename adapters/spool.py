"""
The files of messages in the courier's hands: read when their turn comes, removed when they are old.

Rule 1: a copy outlives the end of its message by an hour: killed before the broker has stored that
end, the courier sees the message again, and must not take it for one whose file was lost. Rule 2:
what a crash left is swept away after 8 days (files.py).
"""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wakebus.adapters import files
from wakebus.adapters.base import File

OUTLIVE_S: Final = 3600.0
SWEEP_S: Final = 3600.0
MAX_SPENT: Final = 10_000  # what is forgotten here is swept away later


class Spool:
    """`bus/files` of the bus's `folder`. Thread-safe: deque's ends are."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._spent: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=MAX_SPENT)
        self._swept: float | None = None

    def load(self, body: Mapping[str, Any]) -> File | None:
        """Return the file of a message, None without one. Raises Rejected and Unavailable."""
        return files.load(body, self._folder) if self._folder is not None else None

    def over(self, body: Mapping[str, Any], now: float) -> None:
        """The message of this body has ended, and nobody can have it sent again."""
        if body.get("file") is not None:
            self._spent.append((now + OUTLIVE_S, {"file": body["file"]}))

    def tidy(self, now: float) -> None:
        """Remove what is due; `now`: Unix seconds."""
        if self._folder is None:
            return
        while self._spent and self._spent[0][0] <= now:
            files.forget(self._spent.popleft()[1], self._folder)
        if self._swept is None or abs(now - self._swept) >= SWEEP_S:
            self._swept = now
            files.sweep(self._folder, now)
