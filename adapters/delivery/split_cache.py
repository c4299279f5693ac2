"""
How the long texts that are under way were split, so that each of their parts does not split anew.

Rule 1: a text that a chat takes at one part a second comes back to the courier for each; rendered
and measured each time, forty parts would cost a minute. Rule 2: it is the message's key and its
very text that find the parts again, so that a message goes on as it began. Rule 3: bounded in texts
and characters; the oldest goes, and is split again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

MOST: Final = 256
MOST_CHARACTERS: Final = 8 << 20


class SplitCache:
    """Shared by all deliveries of a host. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, Sequence[str]]] = OrderedDict()
        self._size = 0

    def get(self, key: str, text: str, make: Callable[[], Sequence[str]]) -> Sequence[str]:
        """Return the parts of this message's text; raise what `make` raises."""
        with self._lock:
            kept = self._kept.get(key)
            if kept and kept[0] == text:
                return kept[1]
        parts = make()
        if len(parts) > 1:
            with self._lock:
                self._store(key, text, parts)
        return parts

    def _store(self, key: str, text: str, parts: Sequence[str]) -> None:
        self._discard(key)
        self._kept[key] = text, parts
        self._size += len(text)
        while len(self._kept) > MOST or self._size > MOST_CHARACTERS:
            self._discard(next(iter(self._kept)))

    def _discard(self, key: str) -> None:
        if kept := self._kept.pop(key, None):
            self._size -= len(kept[0])
