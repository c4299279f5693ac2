"""
Access tokens, kept while they are good, fetched once however many need them.

Rule 1: the request that gets a token is its name (hashed: it holds a secret), so that two accounts,
platforms or ways never share one. Rule 2: one fetch at a time per token, and one that is refused is
forgotten only if it is still the one that is kept (single_flight.py). Rule 3: a token is given up
early. Rule 4: nothing here is written to disk or shown.
"""

import math
import time
from collections.abc import Callable
from typing import Final

from wakebus.adapters.base import Request, Token
from wakebus.adapters.delivery.single_flight import Fetched, SingleFlight, name_of

EARLY_S: Final = 300.0  # before its end, or a tenth of its life if that is less
MOST: Final = 64  # accounts; beyond it the oldest is fetched again when it is needed


class TokenCache:
    """Call `get`; after TokenRefused `refuse`, then `get` again. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._kept = SingleFlight[str](MOST, now)

    def get(self, request: Request, fetch: Callable[[Request], Token]) -> str:
        """Return the token that `request` gets; raise what `fetch` raised, to all who waited."""

        def fetched() -> Fetched[str]:
            token = fetch(request)
            return Fetched(token.value, _life(token.expires_s))

        return self._kept.get(name_of(request), fetched)

    def refuse(self, request: Request, value: str) -> None:
        """Forget this token, if it is still the one that is kept."""
        self._kept.discard(name_of(request), value)


def _life(expires_s: float) -> float:
    """Return for how long to use a token; 0 for what is no sensible time: this once."""
    if not math.isfinite(expires_s) or expires_s <= 0:
        return 0.0
    return expires_s - min(EARLY_S, expires_s / 10)
