"""
What one published limit lets through and has promised: windows, and buckets that refill.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: what is under
way counts as now, what has ended from its end on, because the platform counted it somewhere in
between. Rule 3: a slot is promised with a little room, so that who comes at its time passes,
unless the platform was slow. Rule 4: memory: of a window its `count`, of a bucket one number.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

LATE_S: Final = 2.0  # a request reaches its platform within so many seconds, or hangs
SPREAD: Final = 1.02  # between slots that are reserved: who asks again costs a commit
SPARE_S: Final = 0.05
TINY_S: Final = 1e-6  # more than floats lose here


class RateRule(NamedTuple):
    """
    A bucket's name, and at most how many it lets through in how many seconds.

    refills: `most` at once, and then one each `seconds / most`.
    """

    name: Hashable
    most: int
    seconds: float
    refills: bool = False

    def __str__(self) -> str:
        """Return it for people."""
        if self.refills:
            return f"{self.most} at once, then one in {self.seconds / self.most:g} s"
        return f"{self.most} in {self.seconds:g} s"


class Bucket(ABC):
    """What both kinds of limits have in common."""

    def __init__(self) -> None:
        self.in_flight: dict[str, float] = {}
        self.reserved: list[float] = []
        self._full_until = -math.inf  # no slot before it, while none is given back

    @abstractmethod
    def idle(self, now: float) -> bool:
        """Whether nothing of it matters any more."""

    @abstractmethod
    def open_at(self, now: float) -> float:
        """Return from when on one more may begin, by what has begun."""

    def find_slot(self, after: float, now: float) -> float:
        """Return the first time from `after` on that leaves all others their slots."""
        packed = after <= self._full_until
        found = self._search(max(after, self._full_until) if packed else after, now)
        if packed or after <= now:
            self._full_until = found
        return found

    def begin(self, key: str, now: float) -> None:
        """This one is under way from now on."""
        self.in_flight[key] = now

    def cancel(self, key: str) -> None:
        """It did not go out after all."""
        self.in_flight.pop(key, None)

    def reserve(self, at: float) -> None:
        """Promise a slot."""
        insort(self.reserved, at)

    def unreserve(self, at: float) -> None:
        """Take a promise back."""
        where = bisect_right(self.reserved, at) - 1
        if where >= 0 and self.reserved[where] == at:
            del self.reserved[where]
        self._full_until = -math.inf

    def finish(self, key: str, now: float) -> None:
        """What was under way has ended."""
        if (began := self.in_flight.pop(key, None)) is not None:
            self._count(min(now, began + LATE_S))
            self._full_until = -math.inf

    def _begun(self, now: float) -> list[float]:
        return [min(now, began + LATE_S) for began in self.in_flight.values()]

    @abstractmethod
    def _search(self, time: float, now: float) -> float:
        """Return the first time from `time` on that leaves all others their slots."""

    @abstractmethod
    def _count(self, at: float) -> None:
        """Take one into account that went out at this time."""


class Window(Bucket):
    """At most `most` in any `seconds`, wherever the platform lays its windows."""

    def __init__(self, rule: RateRule) -> None:
        super().__init__()
        self._most, self._seconds = rule.most, rule.seconds
        self._window = rule.seconds * SPREAD + SPARE_S
        self.ended: list[float] = []

    def idle(self, now: float) -> bool:
        """Whether nothing of it matters any more."""
        return not self.in_flight and not self.reserved and not self._recent(now)

    def open_at(self, now: float) -> float:
        """Return from when on one more may begin, by what has begun."""
        stamps = sorted(self._begun(now) + self._recent(now))
        return now if len(stamps) < self._most else stamps[-self._most] + self._seconds

    def _search(self, time: float, now: float) -> float:
        count = self._most
        stamps = sorted([*self._recent(now), *self.reserved, *self.in_flight.values()])
        while True:
            here = bisect_right(stamps, time)
            # Groups of `count` that would become too many with this one: the latest decides.
            for first in range(min(here, len(stamps) - count), max(0, here - count) - 1, -1):
                last = max(stamps[first + count - 1], time)
                if last - min(stamps[first], time) < self._window:
                    time = stamps[first] + self._window + TINY_S
                    break
            else:
                return time

    def _count(self, at: float) -> None:
        insort(self.ended, at)

    def _recent(self, now: float) -> list[float]:
        del self.ended[: bisect_right(self.ended, now - self._window)]
        return self.ended


class Refilling(Bucket):
    """
    `most` at once, then one each `seconds / most`, as rate limiters on servers count.

    It is kept as the time at which it will be full again (GCRA): each that passes puts that off by
    its share, and none may put it off by more than `seconds` from now.
    """

    def __init__(self, rule: RateRule) -> None:
        super().__init__()
        self._share, self._most = rule.seconds / rule.most, rule.most
        self._full_at = -math.inf
        self._last: float | None = None  # full again after all that are reserved

    def idle(self, now: float) -> bool:
        """Whether nothing of it matters any more."""
        return not self.in_flight and not self.reserved and self._full_at <= now

    def open_at(self, now: float) -> float:
        """Return from when on one more may begin, by what has begun."""
        full_at = _after(self._full_at, sorted(self._begun(now)), self._share)
        at = full_at - (self._most - 1) * self._share
        return at if at > now + TINY_S else now

    def begin(self, key: str, now: float) -> None:
        """This one is under way from now on."""
        super().begin(key, now)
        self._last = None

    def cancel(self, key: str) -> None:
        """It did not go out after all."""
        super().cancel(key)
        self._last = None

    def reserve(self, at: float) -> None:
        """Promise a slot."""
        at_end = not self.reserved or at >= self.reserved[-1]
        super().reserve(at)
        known = self._last if at_end else None
        self._last = None if known is None else max(known, at) + self._share * SPREAD

    def unreserve(self, at: float) -> None:
        """Take a promise back."""
        super().unreserve(at)
        self._last = None

    def _search(self, time: float, now: float) -> float:
        share, depth = self._share * SPREAD, (self._most - 1) * self._share
        stamps, here = self.reserved, bisect_right(self.reserved, time)
        full_at = self._full_when(here)
        while True:
            if full_at - depth > time + TINY_S:
                time = full_at - depth + SPARE_S
            if here < len(stamps) and stamps[here] <= time:
                past = here + 1
            elif over := self._first_over(here, max(full_at, time) + share, full_at):
                past = over
            else:
                return time
            full_at = _after(full_at, stamps[here:past], share)
            here, time = past, max(time, stamps[past - 1])

    def _full_when(self, here: int) -> float:
        """Return when it is full again after what goes, and the first `here` that are reserved."""
        if here == len(self.reserved) and self._last is not None:
            return self._last
        full_at = _after(self._full_at, sorted(self.in_flight.values()), self._share)
        full_at = _after(full_at, self.reserved[:here], self._share * SPREAD)
        self._last = full_at if here == len(self.reserved) else self._last
        return full_at

    def _first_over(self, here: int, full_at: float, without: float) -> int:
        """Return up to which of the later ones one would be too early with this slot; 0: none."""
        share = self._share * SPREAD
        for number in range(here, len(self.reserved)):
            stamp = self.reserved[number]
            if full_at <= max(without, stamp):  # a pause: from here on it makes no difference
                return 0
            if full_at - (self._most - 1) * self._share > stamp + TINY_S:
                return number + 1
            full_at, without = max(full_at, stamp) + share, max(without, stamp) + share
        return 0

    def _count(self, at: float) -> None:
        self._full_at, self._last = max(self._full_at, at) + self._share, None


def _after(full_at: float, stamps: Sequence[float], share: float) -> float:
    """Return when it is full again after these have passed, in their order."""
    for stamp in stamps:
        full_at = max(full_at, stamp) + share
    return full_at


def bucket_of(rule: RateRule) -> Bucket:
    """Return what keeps this limit."""
    return Refilling(rule) if rule.refills else Window(rule)
