"""
What is asked of a platform once however many need it, and kept while it is good.

Rule 1: one request at a time per name; all who wait get what it brings, or its error (twenty chats
must not ask twenty times: platforms ban for that). Rule 2: an error is not kept. Rule 3: what was
found wrong is dropped only if it is still what is kept: another thread may have a new one already
(multica #7611, cc-connect #401). Rule 4: bounded; the oldest goes.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, NamedTuple, TypeVar

from wakebus.adapters.base import Request

T = TypeVar("T")


class Fetched(NamedTuple, Generic[T]):
    """What a request brings, and for how many seconds it is good; 0: this once."""

    value: T
    seconds: float


class SingleFlight(Generic[T]):
    """Call `get`; after it was found wrong `discard`, then `get` again. Thread-safe."""

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._now = most, now
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Fetched[T]] = {}  # `seconds` is when it ends
        self._in_flight: dict[Hashable, Future[T]] = {}

    def get(self, name: Hashable, fetch: Callable[[], Fetched[T]]) -> T:
        """Return what is kept or fetched; raise what `fetch` raised, to all who waited."""
        with self._lock:
            kept = self._kept.get(name)
            if kept and self._now() < kept.seconds:
                return kept.value
            flight = self._in_flight.get(name)
            if mine := flight is None:
                flight = self._in_flight[name] = Future()
        if mine:
            self._fetch(name, flight, fetch)
        return flight.result()

    def discard(self, name: Hashable, value: T) -> None:
        """Forget this value, if it is still the one that is kept."""
        with self._lock:
            if (kept := self._kept.get(name)) and kept.value == value:
                del self._kept[name]

    def _fetch(self, name: Hashable, flight: "Future[T]", fetch: Callable[[], Fetched[T]]) -> None:
        try:
            value, seconds = fetch()
            found = Fetched(value, self._now() + seconds)
        except BaseException as exc:
            self._land(name)
            flight.set_exception(exc)
            return
        self._land(name, found)
        flight.set_result(value)

    def _land(self, name: Hashable, found: Fetched[T] | None = None) -> None:
        with self._lock:
            self._in_flight.pop(name, None)
            self._kept.pop(name, None)
            if found and found.seconds > self._now():
                while len(self._kept) >= self._most:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[name] = found


def name_of(request: Request) -> str:
    """Return a name for a request: a hash, for it may hold a secret."""
    parts = (request.method, request.url, repr(sorted(request.headers.items())))
    text = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.sha256(text + b"\0" + request.body).hexdigest()
