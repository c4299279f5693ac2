"""
Access tokens, kept for as long as they are good, fetched once however many need them.

Rule 1: the request that gets a token is its name (hashed: it holds a secret), so that two accounts,
platforms or ways never share one. Rule 2: one fetch at a time per token; all who wait get its
token or its error (twenty chats must not ask twenty times: platforms ban for that). Rule 3: a
token is given up early, and at once when the platform refuses it, but only if it is still the one
that was refused: another thread may have a new one already (multica #7611, cc-connect #401).
Rule 4: nothing here is written to disk or shown.
"""

import hashlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple

from wakebus.adapters.base import Request, Token

EARLY_S: Final = 300.0  # before its end, or a tenth of its life if that is less
MOST: Final = 64  # accounts; beyond it the oldest is fetched again when it is needed


class _Kept(NamedTuple):
    value: str
    until: float


class Tokens:
    """Call `get`; after TokenRefused `refuse`, then `get` again. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._flights: dict[str, Future[str]] = {}

    def get(self, request: Request, fetch: Callable[[Request], Token]) -> str:
        """Return the token that `request` gets; raise what `fetch` raised, to all who waited."""
        key = _name(request)
        with self._lock:
            kept = self._kept.get(key)
            if kept and self._now() < kept.until:
                return kept.value
            flight = self._flights.get(key)
            if mine := flight is None:
                flight = self._flights[key] = Future()
        if mine:
            self._fly(key, flight, request, fetch)
        return flight.result()

    def refuse(self, request: Request, value: str) -> None:
        """Forget this token, if it is still the one that is kept."""
        key = _name(request)
        with self._lock:
            if (kept := self._kept.get(key)) and kept.value == value:
                del self._kept[key]

    def _fly(
        self, key: str, flight: "Future[str]", request: Request, fetch: Callable[[Request], Token]
    ) -> None:
        try:
            token = fetch(request)
            value, until = token.value, self._now() + _life(token.expires_s)
        except BaseException as exc:
            self._land(key)
            flight.set_exception(exc)
            return
        self._land(key, _Kept(value, until))
        flight.set_result(value)

    def _land(self, key: str, kept: _Kept | None = None) -> None:
        with self._lock:
            self._flights.pop(key, None)
            self._kept.pop(key, None)
            if kept and kept.until > self._now():
                while len(self._kept) >= MOST:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[key] = kept


def _life(expires_s: float) -> float:
    """Return for how long to use a token; 0 for what is no sensible time: this once."""
    if not math.isfinite(expires_s) or expires_s <= 0:
        return 0.0
    return expires_s - min(EARLY_S, expires_s / 10)


def _name(request: Request) -> str:
    parts = (request.method, request.url, repr(sorted(request.headers.items())))
    text = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.sha256(text + b"\0" + request.body).hexdigest()
