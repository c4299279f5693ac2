"""
The bulkhead: how many requests to one host are under way, so that one that hangs leaves room to the
others, and several together do.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: a host that
has answered within the last second may have more, and never all. Rule 3: where many are silent,
each that is not tried yet still gets its first request. Rule 4: each asking costs a commit: who is
held back asks again when his turn may have come, as fast as the host answers; where it does not
answer, the later, the more there are.
"""

import math
from typing import Final

MOST: Final = 32  # half of what the broker hands out at once (PROTOCOL-7.3)
MOST_FRESH: Final = 48  # what hangs all of a sudden leaves a quarter; so do all that are silent
FRESH_S: Final = 1.0
LONGEST_S: Final = 15.0  # by then what hangs has ended (https.py)


class Bulkhead:
    """Those of one host, by their keys."""

    def __init__(self) -> None:
        self._in_flight: set[str] = set()
        self._answered = -math.inf
        self._held = 0
        self._gap = FRESH_S / MOST  # seconds from one answer to the next, as of late
        self._next = -math.inf  # until when the turns are given away

    def __len__(self) -> int:
        return len(self._in_flight)

    def silent(self, now: float) -> int:
        """Return how many are under way, if the host has not answered of late."""
        return 0 if self._fresh(now) else len(self._in_flight)

    def wait(self, key: str, now: float, silent: int = 0) -> float:
        """
        Return 0.0 when one more may go, else the seconds after which to ask again.

        silent: how many are under way at all hosts that have not answered of late.
        """
        fresh, mine = self._fresh(now), len(self._in_flight)
        crowded = mine and not fresh and silent >= MOST_FRESH
        if key in self._in_flight or (mine < (MOST_FRESH if fresh else MOST) and not crowded):
            return 0.0
        if fresh:
            self._next = max(self._next, now) + self._gap
            return min(self._next - now, LONGEST_S)
        self._held += 1
        return min(1.0 + self._held / MOST, LONGEST_S)

    def _fresh(self, now: float) -> bool:
        return now - self._answered <= FRESH_S

    def acquire(self, key: str) -> None:
        """It goes."""
        self._in_flight.add(key)

    def release(self, key: str, answered: float | None) -> None:
        """It has ended; `answered`: when the host said something, None where it did not."""
        self._in_flight.discard(key)
        if answered is not None:
            gap = min(max(answered - self._answered, 0.0), FRESH_S)
            self._gap += (gap - self._gap) / MOST
            self._answered, self._held = answered, 0
