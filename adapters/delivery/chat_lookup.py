"""
The chats that platforms know by another id than their senders: looked up, moved, remembered.

Rule 1: a look-up is a request that shows nothing to anybody, so a doubt about it is `not_sent`.
Rule 2: at most four steps lead to a chat; more is a circle. Rule 3: a chat is kept for an hour
under its first request, so that two accounts never share one (single_flight.py); it is forgotten
when the platform rejects a message to it. Rule 4: where a chat has moved to is kept as long as the
process lives: the old id never comes back. Rule 5: all bounded.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from wakebus.adapters.base import Request, Response, Target
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.single_flight import Fetched, SingleFlight, name_of
from wakebus.adapters.errors import BrokenAdapter

KEEP_S: Final = 3600.0
MOST: Final = 10_000  # chats; one that is pushed out is asked for again
STEPS: Final = 4

# Performs a request of a chat and reads its answer; see platform_client.py.
AskChat = Callable[[Request, Callable[[Response], GuardedAdapter]], GuardedAdapter]


class ChatLookups:
    """Shared by all deliveries of a host. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._found = SingleFlight[Target](MOST, now)
        self._lock = threading.Lock()
        self._moved: dict[Target, Target] = {}

    def home_of(self, target: Target) -> Target:
        """Return where a chat has moved to, as far as it is known."""
        with self._lock:
            return self._moved.get(target, target)

    def remember_move(self, target: Target, now: Target) -> None:
        """Remember that this chat has another id now."""
        with self._lock:
            while len(self._moved) >= MOST:
                self._moved.pop(next(iter(self._moved)))
            self._moved[target] = now

    def find(self, chat: GuardedAdapter, ask: AskChat) -> GuardedAdapter:
        """Return what `chat` is for the platform, or raise a DeliveryError."""
        first = chat.lookup()
        if first is None:
            return chat

        def fetch() -> Fetched[Target]:
            return Fetched(_look_up(chat, ask).target, KEEP_S)

        return chat.at(self._found.get((name_of(first), chat.target), fetch))

    def forget(self, chat: GuardedAdapter, found: GuardedAdapter) -> None:
        """Forget that `chat` led to `found`: the platform does not know that one."""
        if first := chat.lookup():
            self._found.discard((name_of(first), chat.target), found.target)


def _look_up(chat: GuardedAdapter, ask: AskChat) -> GuardedAdapter:
    for _ in range(STEPS):
        request = chat.lookup()
        if request is None:
            return chat
        chat = ask(request, chat.parse_lookup)
    if chat.lookup() is None:
        return chat
    raise BrokenAdapter(f"the adapter {chat.platform!r} looks a chat up without end")
