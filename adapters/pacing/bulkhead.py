"""
The bulkhead: how many requests to one platform are under way, so that one that hangs leaves room to
the others.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: a platform
that has answered within the last second may have more, and never all. Rule 3: each asking costs a
commit: who is held back asks again when his turn may have come, as fast as the platform answers;
where it does not answer, the later, the more there are.
"""

import math
from typing import Final

MOST: Final = 32  # half of what the broker hands out at once (PROTOCOL-7.3)
MOST_FRESH: Final = 48  # what hangs all of a sudden leaves a quarter
FRESH_S: Final = 1.0
LONGEST_S: Final = 15.0  # by then what hangs has ended (https.py)


class Bulkhead:
    """Those of one platform, by their keys."""

    def __init__(self) -> None:
        self._in_flight: set[str] = set()
        self._answered = -math.inf
        self._held = 0
        self._gap = FRESH_S / MOST  # seconds from one answer to the next, as of late
        self._next = -math.inf  # until when the turns are given away

    def wait(self, key: str, now: float) -> float:
        """Return 0.0 when one more may go, else the seconds after which to ask again."""
        fresh = now - self._answered <= FRESH_S
        if key in self._in_flight or len(self._in_flight) < (MOST_FRESH if fresh else MOST):
            return 0.0
        if fresh:
            self._next = max(self._next, now) + self._gap
            return min(self._next - now, LONGEST_S)
        self._held += 1
        return min(1.0 + self._held / MOST, LONGEST_S)

    def acquire(self, key: str) -> None:
        """It goes."""
        self._in_flight.add(key)

    def release(self, key: str, answered: float | None) -> None:
        """It has ended; `answered`: when the platform said something, None where it did not."""
        self._in_flight.discard(key)
        if answered is not None:
            gap = min(max(answered - self._answered, 0.0), FRESH_S)
            self._gap += (gap - self._gap) / MOST
            self._answered, self._held = answered, 0
