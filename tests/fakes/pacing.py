"""Platforms that count what a limiter lets through: messages in a time of the test's own."""

from bisect import bisect_right
from collections import Counter
from heapq import heappop, heappush
from typing import NamedTuple

from hypothesis import strategies as st

from wakebus.adapters.pacing.rate_buckets import RateRule
from wakebus.adapters.pacing.rate_limiter import RateLimiter


class Ask(NamedTuple):
    """A message: when it first wants to go, where, and how slow the platform is with it."""

    at: float
    chat: int
    there: float
    back: float


ASKS = st.lists(
    st.builds(
        Ask,
        st.floats(0, 5),
        st.integers(0, 3),
        st.sampled_from([0.0, 0.01, 0.3, 0.9]),
        st.sampled_from([0.0, 0.01, 0.3, 0.9]),
    ),
    min_size=1,
    max_size=60,
)


Limits = tuple[int, float] | tuple[int, float, bool]


def play(asks: list[Ask], of_chat: Limits, of_app: Limits) -> "Played":
    """
    Let all messages go through, in a time of the test's own.

    The limits are count, seconds, and whether they refill.
    """
    limiter, played = RateLimiter(), Played([], Counter(), [])
    todo = [(ask.at, 1, n) for n, ask in enumerate(asks)]
    todo.sort()
    while todo:
        now, what, n = heappop(todo)
        ask, key = asks[n], f"k{n}"
        if what == 0:
            limiter.finish(key, now)
            continue
        played.asked[n] += 1
        assert played.asked[n] < 200, "it never passes"
        wait = limiter.enter(key, [RateRule(ask.chat, *of_chat), RateRule("app", *of_app)], now)
        if wait:
            heappush(todo, (now + wait, 1, n))
        else:
            played.passed.append((now, n))
            played.counted.append((now + ask.there, ask.chat))
            heappush(todo, (now + ask.there + ask.back, 0, n))
    assert len(limiter) == 0
    return played


class Played(NamedTuple):
    """When the platform counted what, how often each asked, and when it passed."""

    counted: list[tuple[float, int]]
    asked: Counter[int]
    passed: list[tuple[float, int]]

    def most(self, chat: int | None, seconds: float) -> int:
        """How many a platform counts at most in any window."""
        times = sorted(time for time, where in self.counted if chat in (None, where))
        # A hair less than the window: what is exactly one apart is in two of them.
        return max(
            bisect_right(times, time + seconds - 1e-6) - place for place, time in enumerate(times)
        )

    def level(self, chat: int | None, count: int, seconds: float) -> float:
        """What a bucket of `count` that empties in `seconds` holds at most."""
        level, before, most = 0.0, 0.0, 0.0
        for time, _ in sorted(one for one in self.counted if chat in (None, one[1])):
            level = max(0.0, level - (time - before) * count / seconds) + 1
            before, most = time, max(most, level)
        return most - 1e-4  # floats, and a granted place is a microsecond wide

    def in_order(self, asks: list[Ask]) -> bool:
        """Whether each chat's went out in the order of asking."""
        when = {n: round(time, 3) for time, n in self.passed}
        for where in {ask.chat for ask in asks}:
            mine = [n for n in range(len(asks)) if asks[n].chat == where]
            mine.sort(key=lambda n: asks[n].at)
            times = [when[n] for n in mine]
            if times != sorted(times):
                return False
        return True
