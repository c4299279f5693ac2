"""
A map that forgets what was put first.

Rule 1: no IO. Rule 2: what a gateway remembers of its chats has a bound (HERMES-3.10).
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any


class BoundedMap:
    """A map that forgets what was put first. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._lock, self._limit = threading.Lock(), limit
        self._items: OrderedDict[Hashable, Any] = OrderedDict()

    def put(self, key: Hashable, value: Any) -> None:
        """Keep `value`, as the newest."""
        with self._lock:
            self._items.pop(key, None)
            self._items[key] = value
            if len(self._items) > self._limit:
                self._items.popitem(last=False)

    def newest_first(self) -> list[Any]:
        """Return the values."""
        with self._lock:
            return list(reversed(self._items.values()))

    def get(self, key: Hashable) -> Any:
        """Return the value, or None."""
        with self._lock:
            return self._items.get(key)
