"""
When a message may go out, by the limits that a platform publishes.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: at most
`count` in any `seconds`, wherever the platform lays its windows: what is under way counts as now,
what has ended from its end on, because the platform counted it somewhere in between. Rule 3: who
must wait gets a place of his own; at its time he passes, unless the platform was slow. Rule 4: of
several limits the latest place counts, and it is kept in all of them. Rule 5: a place that nobody
takes lapses; buckets and places are bounded. Rule 6: it begins empty: what an earlier process
sent is not known, and making everybody wait for it would be worse than one throttle.
"""

import math
import re
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

from wakebus.adapters.base import Limit, Target
from wakebus.adapters.errors import Scope

LAPSE_S: Final = 5.0  # after its time, before a place is given up
LATE_S: Final = 2.0  # a request reaches its platform within so many seconds, or hangs
SPREAD: Final = 1.02  # of a window between places that are booked: who asks again costs a commit
SPARE_S: Final = 0.05
EARLY_S: Final = 0.005  # a timer may fire so much too early
TINY_S: Final = 1e-6  # more than floats lose here
MAX_BUCKETS: Final = 50_000
MAX_PLACES: Final = 50_000
MAX_COUNT: Final = 100_000
MAX_SECONDS: Final = 86_400.0
SCOPES: Final[tuple[Scope, ...]] = ("chat", "app")

_RATE: Final = re.compile(r"(\d{1,6})\s*/\s*(\d{1,5}(?:\.\d{1,6})?)", re.ASCII)


class Rule(NamedTuple):
    """A bucket's name, and at most how many it lets through in how many seconds."""

    name: Hashable
    most: int
    seconds: float


def rate(text: str) -> tuple[int, float] | None:
    """Return COUNT and SECONDS of "COUNT/SECONDS", None for "off"; raise ValueError otherwise."""
    if text.strip().lower() == "off":
        return None
    found = _RATE.fullmatch(text.strip())
    count, seconds = (int(found[1]), float(found[2])) if found else (0, 0.0)
    if not 0 < count <= MAX_COUNT or not 0 < seconds <= MAX_SECONDS:
        raise ValueError("write COUNT/SECONDS, as 20/60, or off")
    return count, seconds


def limits(
    platform: str, card: Sequence[Limit], env: Mapping[str, str]
) -> tuple[list[Limit], dict[str, str]]:
    """Return the limits that hold, the settings' before the card's, and what is wrong by name."""
    found: list[Limit] = []
    faults: dict[str, str] = {}
    for scope in SCOPES:
        name = f"{platform}_rate_{scope}".upper()
        own = [limit for limit in card if limit.scope == scope]
        if said := env.get(name, "").strip():
            try:
                told = rate(said)
                own = [] if told is None else [Limit(*told, scope)]
            except ValueError as exc:
                faults[name] = str(exc)
        found += own
    return found, faults


def rules(target: Target, found: Sequence[Limit]) -> list[Rule]:
    """Return the buckets that a message to this chat goes through."""
    return [
        Rule((target.platform, *_whose(target, limit), limit), limit.count, limit.seconds)
        for limit in found
        if not limit.kinds or target.kind in limit.kinds
    ]


def _whose(target: Target, limit: Limit) -> tuple[str, ...]:
    return (target.chat_id,) if limit.scope == "chat" else ()


class _Bucket:
    """What one limit has let through, and what it has promised."""

    def __init__(self, rule: Rule) -> None:
        self._count, self._seconds = rule.most, rule.seconds
        self._window = rule.seconds * SPREAD + SPARE_S
        self.ended: list[float] = []
        self.going: dict[str, float] = {}
        self.booked: list[float] = []
        self._full_until = -math.inf  # no place before it, while none is given back

    def idle(self, now: float) -> bool:
        """Whether nothing of it matters any more."""
        return not self.going and not self.booked and not self._recent(now)

    def open_at(self, now: float) -> float:
        """Return from when on one more may begin, by what has begun."""
        begun = [min(now, began + LATE_S) for began in self.going.values()]
        stamps = sorted(begun + self._recent(now))
        return now if len(stamps) < self._count else stamps[-self._count] + self._seconds

    def place(self, after: float, now: float) -> float:
        """Return the first time from `after` on that leaves all others their places."""
        begun = list(self.going.values())
        stamps = sorted(self._recent(now) + self.booked + begun)
        packed = after <= self._full_until
        found = self._search(stamps, max(after, self._full_until) if packed else after)
        if packed or after <= now:
            self._full_until = found
        return found

    def _search(self, stamps: list[float], time: float) -> float:
        count = self._count
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

    def book(self, at: float) -> None:
        """Promise a place."""
        insort(self.booked, at)

    def unbook(self, at: float) -> None:
        """Take a promise back."""
        where = bisect_right(self.booked, at) - 1
        if where >= 0 and self.booked[where] == at:
            del self.booked[where]
        self._full_until = -math.inf

    def end(self, key: str, now: float) -> None:
        """What was under way has ended."""
        if (began := self.going.pop(key, None)) is not None:
            insort(self.ended, min(now, began + LATE_S))
            self._full_until = -math.inf

    def _recent(self, now: float) -> list[float]:
        del self.ended[: bisect_right(self.ended, now - self._window)]
        return self.ended


@dataclass(slots=True)
class _Place:
    """Booked for `at`, or going since then."""

    rules: list[Rule]
    buckets: list[_Bucket] = field(repr=False)
    at: float
    going: bool = False


class Pace:
    """All limits of a host. Not thread-safe."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._lapses: list[tuple[float, str]] = []

    def enter(self, key: str, rules: list[Rule], now: float, after: float = 0.0) -> float:
        """
        Return 0.0 when `key` may go out now, and is going; else the seconds until its place.

        after: not before then, whatever the limits say.
        """
        self._lapse(now)
        place = self._places.get(key)
        if place and place.going and now <= place.at + LATE_S:
            place.at = now  # granted a moment ago, and used now
            for bucket in place.buckets:
                bucket.going[key] = now
            return 0.0
        if place and (place.going or place.rules != rules):
            self.cancel(key)
            place = None
        if place and place.at > max(now + EARLY_S, after):
            return place.at - now
        if place is None or after > now:
            return self._find(key, rules, now, after)
        return self._begin(key, place, now)

    def leave(self, key: str, now: float) -> None:
        """What went out under `key` has been answered, or never will be."""
        place = self._places.get(key)
        if place and place.going:
            del self._places[key]
            for bucket in place.buckets:
                bucket.end(key, now)

    def cancel(self, key: str, *, promised: bool = True) -> None:
        """Nothing went out under `key`: its place is free again, also one that was promised."""
        place = self._places.get(key)
        if place is None or not (place.going or promised):
            return
        del self._places[key]
        for bucket in place.buckets:
            if place.going:
                bucket.going.pop(key, None)
            else:
                bucket.unbook(place.at)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def buckets(self) -> int:
        """How many limits are remembered."""
        return len(self._buckets)

    def _find(self, key: str, rules: list[Rule], now: float, after: float) -> float:
        self.cancel(key)
        place = _Place(rules, [self._bucket(rule, now) for rule in rules], max(now, after))
        before = -1.0
        while before != place.at:  # a later place in one may be taken in another
            before = place.at
            for bucket in place.buckets:
                place.at = bucket.place(place.at, now)
        self._places[key] = place
        while len(self._places) > MAX_PLACES:
            self.cancel(next(iter(self._places)))
        if place.at > now:
            self._book(key, place)
            return place.at - now
        return self._begin(key, place, now, booked=False)

    def _begin(self, key: str, place: _Place, now: float, *, booked: bool = True) -> float:
        open_at = max((bucket.open_at(now) for bucket in place.buckets), default=now)
        if booked:
            for bucket in place.buckets:
                bucket.unbook(place.at)
        if open_at > now:  # the platform was slow: a little later, before those who came later
            place.at = open_at + TINY_S
            self._book(key, place)
            return place.at - now
        place.at, place.going = now, True
        for bucket in place.buckets:
            bucket.going[key] = now
        return 0.0

    def _book(self, key: str, place: _Place) -> None:
        for bucket in place.buckets:
            bucket.book(place.at)
        heappush(self._lapses, (place.at + LAPSE_S, key))

    def _lapse(self, now: float) -> None:
        while self._lapses and self._lapses[0][0] < now:
            due, key = heappop(self._lapses)
            place = self._places.get(key)
            if place and not place.going and place.at + LAPSE_S <= due:
                self.cancel(key)

    def _bucket(self, rule: Rule, now: float) -> _Bucket:
        if rule.name not in self._buckets:
            while len(self._buckets) >= MAX_BUCKETS:
                self._forget_one(now)
            self._buckets[rule.name] = _Bucket(rule)
        self._buckets.move_to_end(rule.name)
        return self._buckets[rule.name]

    def _forget_one(self, now: float) -> None:
        """The oldest idle one of a few goes, else the oldest."""
        oldest = [name for name, _ in zip(self._buckets, range(16), strict=False)]
        idle = [name for name in oldest if self._buckets[name].idle(now)]
        del self._buckets[(idle or oldest)[0]]
