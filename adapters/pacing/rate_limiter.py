"""
When a message may go out, by the limits that a platform publishes.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: what one
limit lets through is rate_buckets.py's. Rule 3: who must wait gets a reservation of his own; at its
time he passes, unless the platform was slow. Rule 4: of several limits the latest slot counts, and
it is reserved in all of them. Rule 5: a reservation that nobody uses expires; buckets and
reservations are bounded. Rule 6: it begins empty: what an earlier process sent is not known, and
making everybody wait for it would be worse than one throttle.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from wakebus.adapters.base import Limit, Target
from wakebus.adapters.errors import Scope
from wakebus.adapters.pacing.rate_buckets import LATE_S, TINY_S, Bucket, RateRule, bucket_of

EXPIRE_S: Final = 5.0  # after its time, before a reservation is given up
EARLY_S: Final = 0.005  # a timer may fire so much too early
MAX_BUCKETS: Final = 50_000
MAX_RESERVATIONS: Final = 50_000
MAX_COUNT: Final = 100_000
MAX_SECONDS: Final = 86_400.0
SCOPES: Final[tuple[Scope, ...]] = ("chat", "app")

_RATE: Final = re.compile(r"(\d{1,6})\s*/\s*(\d{1,5}(?:\.\d{1,6})?)", re.ASCII)


def parse_rate(text: str) -> tuple[int, float] | None:
    """Return COUNT and SECONDS of "COUNT/SECONDS", None for "off"; raise ValueError otherwise."""
    if text.strip().lower() == "off":
        return None
    found = _RATE.fullmatch(text.strip())
    count, seconds = (int(found[1]), float(found[2])) if found else (0, 0.0)
    if not 0 < count <= MAX_COUNT or not 0 < seconds <= MAX_SECONDS:
        raise ValueError("write COUNT/SECONDS, as 20/60, or off")
    return count, seconds


def effective_limits(
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
                told = parse_rate(said)
                refills = any(limit.refills for limit in own)
                own = [] if told is None else [Limit(*told, scope, refills=refills)]
            except ValueError as exc:
                faults[name] = str(exc)
        found += own
    return found, faults


def rules_for(target: Target, limits: Sequence[Limit]) -> list[RateRule]:
    """Return the buckets that a message to this chat goes through."""
    return [
        RateRule(
            (target.platform, *_whose(target, limit), limit),
            limit.count,
            limit.seconds,
            limit.refills,
        )
        for limit in limits
        if not limit.kinds or target.kind in limit.kinds
    ]


def _whose(target: Target, limit: Limit) -> tuple[str, ...]:
    return (target.chat_id,) if limit.scope == "chat" else ()


@dataclass(slots=True)
class _Reservation:
    """A slot reserved for `at`, or in flight since then."""

    rules: list[RateRule]
    buckets: list[Bucket] = field(repr=False)
    at: float
    in_flight: bool = False


class RateLimiter:
    """All limits of a host. Not thread-safe."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()
        self._reservations: OrderedDict[str, _Reservation] = OrderedDict()
        self._expiries: list[tuple[float, str]] = []

    def enter(self, key: str, rules: list[RateRule], now: float, after: float = 0.0) -> float:
        """
        Return 0.0 when `key` may go out now, and is going; else the seconds until its reservation.

        after: not before then, whatever the limits say.
        """
        self._expire(now)
        reservation = self._reservations.get(key)
        if reservation and reservation.in_flight and now <= reservation.at + LATE_S:
            self.begin(key, now)  # granted a moment ago, and used now
            return 0.0
        if reservation and (reservation.in_flight or reservation.rules != rules):
            self.cancel(key)
            reservation = None
        if reservation and reservation.at > max(now + EARLY_S, after):
            return reservation.at - now
        if reservation is None or after > now:
            return self._reserve(key, rules, now, after)
        return self._begin(key, reservation, now)

    def begin(self, key: str, now: float) -> None:
        """What goes under `key` goes out only now: something that nobody counts came before it."""
        reservation = self._reservations.get(key)
        if reservation and reservation.in_flight:
            reservation.at = now
            for bucket in reservation.buckets:
                bucket.begin(key, now)

    def finish(self, key: str, now: float) -> None:
        """What went out under `key` has been answered, or never will be."""
        reservation = self._reservations.get(key)
        if reservation and reservation.in_flight:
            del self._reservations[key]
            for bucket in reservation.buckets:
                bucket.finish(key, now)

    def cancel(self, key: str, *, reserved: bool = True) -> None:
        """Nothing went out under `key`: its slot is free again, also one that was only reserved."""
        reservation = self._reservations.get(key)
        if reservation is None or not (reservation.in_flight or reserved):
            return
        del self._reservations[key]
        for bucket in reservation.buckets:
            if reservation.in_flight:
                bucket.cancel(key)
            else:
                bucket.unreserve(reservation.at)

    def __len__(self) -> int:
        return len(self._reservations)

    @property
    def buckets(self) -> int:
        """How many limits are remembered."""
        return len(self._buckets)

    def _reserve(self, key: str, rules: list[RateRule], now: float, after: float) -> float:
        self.cancel(key)
        buckets = [self._bucket(rule, now) for rule in rules]
        reservation = _Reservation(rules, buckets, max(now, after))
        before = -1.0
        while before != reservation.at:  # a later slot in one may be taken in another
            before = reservation.at
            for bucket in reservation.buckets:
                reservation.at = bucket.find_slot(reservation.at, now)
        self._reservations[key] = reservation
        while len(self._reservations) > MAX_RESERVATIONS:
            self.cancel(next(iter(self._reservations)))
        if reservation.at > now:
            self._promise(key, reservation)
            return reservation.at - now
        return self._begin(key, reservation, now, reserved=False)

    def _begin(
        self, key: str, reservation: _Reservation, now: float, *, reserved: bool = True
    ) -> float:
        open_at = max((bucket.open_at(now) for bucket in reservation.buckets), default=now)
        if reserved:
            for bucket in reservation.buckets:
                bucket.unreserve(reservation.at)
        if open_at > now:  # the platform was slow: a little later, before those who came later
            reservation.at = open_at + TINY_S
            self._promise(key, reservation)
            return reservation.at - now
        reservation.at, reservation.in_flight = now, True
        for bucket in reservation.buckets:
            bucket.begin(key, now)
        return 0.0

    def _promise(self, key: str, reservation: _Reservation) -> None:
        for bucket in reservation.buckets:
            bucket.reserve(reservation.at)
        heappush(self._expiries, (reservation.at + EXPIRE_S, key))

    def _expire(self, now: float) -> None:
        while self._expiries and self._expiries[0][0] < now:
            due, key = heappop(self._expiries)
            reservation = self._reservations.get(key)
            if reservation and not reservation.in_flight and reservation.at + EXPIRE_S <= due:
                self.cancel(key)

    def _bucket(self, rule: RateRule, now: float) -> Bucket:
        if rule.name not in self._buckets:
            while len(self._buckets) >= MAX_BUCKETS:
                self._forget_one(now)
            self._buckets[rule.name] = bucket_of(rule)
        self._buckets.move_to_end(rule.name)
        return self._buckets[rule.name]

    def _forget_one(self, now: float) -> None:
        """The oldest idle one of a few goes, else the oldest."""
        oldest = [name for name, _ in zip(self._buckets, range(16), strict=False)]
        idle = [name for name in oldest if self._buckets[name].idle(now)]
        del self._buckets[(idle or oldest)[0]]
