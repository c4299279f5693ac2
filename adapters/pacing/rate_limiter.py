"""
When a message may go out, by the limits that a platform publishes.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: what one
limit lets through is buckets.py's. Rule 3: who must wait gets a place of his own; at its time he
passes, unless the platform was slow. Rule 4: of several limits the latest place counts, and it is
kept in all of them. Rule 5: a place that nobody takes lapses; buckets and places are bounded. Rule
6: it begins empty: what an earlier process sent is not known, and making everybody wait for it
would be worse than one throttle.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from wakebus.adapters.base import Limit, Target
from wakebus.adapters.errors import Scope
from wakebus.adapters.pacing.rate_buckets import LATE_S, TINY_S, Bucket, Rule, made

LAPSE_S: Final = 5.0  # after its time, before a place is given up
EARLY_S: Final = 0.005  # a timer may fire so much too early
MAX_BUCKETS: Final = 50_000
MAX_PLACES: Final = 50_000
MAX_COUNT: Final = 100_000
MAX_SECONDS: Final = 86_400.0
SCOPES: Final[tuple[Scope, ...]] = ("chat", "app")

_RATE: Final = re.compile(r"(\d{1,6})\s*/\s*(\d{1,5}(?:\.\d{1,6})?)", re.ASCII)


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
                refills = any(limit.refills for limit in own)
                own = [] if told is None else [Limit(*told, scope, refills=refills)]
            except ValueError as exc:
                faults[name] = str(exc)
        found += own
    return found, faults


def rules(target: Target, found: Sequence[Limit]) -> list[Rule]:
    """Return the buckets that a message to this chat goes through."""
    return [
        Rule(
            (target.platform, *_whose(target, limit), limit),
            *(limit.count, limit.seconds, limit.refills),
        )
        for limit in found
        if not limit.kinds or target.kind in limit.kinds
    ]


def _whose(target: Target, limit: Limit) -> tuple[str, ...]:
    return (target.chat_id,) if limit.scope == "chat" else ()


@dataclass(slots=True)
class _Place:
    """Booked for `at`, or going since then."""

    rules: list[Rule]
    buckets: list[Bucket] = field(repr=False)
    at: float
    going: bool = False


class Pace:
    """All limits of a host. Not thread-safe."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()
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
            self.begin(key, now)  # granted a moment ago, and used now
            return 0.0
        if place and (place.going or place.rules != rules):
            self.cancel(key)
            place = None
        if place and place.at > max(now + EARLY_S, after):
            return place.at - now
        if place is None or after > now:
            return self._find(key, rules, now, after)
        return self._begin(key, place, now)

    def begin(self, key: str, now: float) -> None:
        """What goes under `key` goes out only now: something that nobody counts came before it."""
        place = self._places.get(key)
        if place and place.going:
            place.at = now
            for bucket in place.buckets:
                bucket.begin(key, now)

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
                bucket.drop(key)
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
            bucket.begin(key, now)
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

    def _bucket(self, rule: Rule, now: float) -> Bucket:
        if rule.name not in self._buckets:
            while len(self._buckets) >= MAX_BUCKETS:
                self._forget_one(now)
            self._buckets[rule.name] = made(rule)
        self._buckets.move_to_end(rule.name)
        return self._buckets[rule.name]

    def _forget_one(self, now: float) -> None:
        """The oldest idle one of a few goes, else the oldest."""
        oldest = [name for name, _ in zip(self._buckets, range(16), strict=False)]
        idle = [name for name in oldest if self._buckets[name].idle(now)]
        del self._buckets[(idle or oldest)[0]]
