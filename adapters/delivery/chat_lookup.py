"""
The chats that platforms know by another id than their senders: looked up, moved, remembered.

Rule 1: a look-up is a request that shows nothing to anybody, so a doubt about it is `not_sent`.
Rule 2: at most four steps lead to a chat; more is a circle. Rule 3: a chat is kept for an hour
under its first request, so that two accounts never share one (flights.py); it is forgotten when
the platform rejects a message to it. Rule 4: where a chat has moved to is kept as long as the
process lives: the old id never comes back. Rule 5: all bounded.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from wakebus.adapters.abilities import LooksUp
from wakebus.adapters.base import Adapter, Request, Response, Target
from wakebus.adapters.delivery.adapter_calls import guarded
from wakebus.adapters.delivery.single_flight import Flights, Found, name_of
from wakebus.adapters.errors import BrokenAdapter

KEEP_S: Final = 3600.0
MOST: Final = 10_000  # chats; one that is pushed out is asked for again
STEPS: Final = 4

# Performs a request of this target and reads its answer; see aside.py.
Ask = Callable[[Request, Callable[[Response], Target]], Target]


class Lookups:
    """Shared by all deliveries of a host. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._flights = Flights[Target](MOST, now)
        self._lock = threading.Lock()
        self._moved: dict[Target, Target] = {}

    def home(self, target: Target) -> Target:
        """Return where a chat has moved to, as far as it is known."""
        with self._lock:
            return self._moved.get(target, target)

    def move(self, target: Target, now: Target) -> None:
        """Remember that this chat has another id now."""
        with self._lock:
            while len(self._moved) >= MOST:
                self._moved.pop(next(iter(self._moved)))
            self._moved[target] = now

    def find(self, adapter: Adapter, target: Target, ask: Ask) -> Target:
        """Return the chat that `target` is for the platform, or raise a DeliveryError."""
        first = lookup(adapter, target)
        if first is None:
            return target

        def fly() -> Found[Target]:
            return Found(_found(adapter, target, ask), KEEP_S)

        return self._flights.get((name_of(first), target), fly)

    def forget(self, adapter: Adapter, target: Target, found: Target) -> None:
        """Forget that `target` led to `found`: the platform does not know that chat."""
        if first := lookup(adapter, target):
            self._flights.drop((name_of(first), target), found)


def lookup(adapter: Adapter, target: Target) -> Request | None:
    """Return the request that leads one step nearer to the chat, None where there is none."""
    if not isinstance(adapter, LooksUp):
        return None
    return guarded(target.platform, lambda: adapter.lookup(target))


def _found(adapter: Adapter, target: Target, ask: Ask, left: int = STEPS) -> Target:
    request = lookup(adapter, target)
    if request is None:
        return target
    if not left:
        raise BrokenAdapter(f"the adapter {target.platform!r} looks a chat up without end")
    return _found(adapter, ask(request, partial(_next, adapter, target)), ask, left - 1)


def _next(adapter: Adapter, target: Target, answer: Response) -> Target:
    assert isinstance(adapter, LooksUp)
    found = adapter.parse_lookup(target, answer)
    if not isinstance(found, Target) or not found.chat_id:
        raise TypeError
    return replace(found, platform=target.platform)
