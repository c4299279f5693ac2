"""
What happens later: the router thread's timers.

Rule 1: monotonic seconds, as the clock that is given tells them. Rule 2: a bug in what a timer does
costs that timer only.
"""

import heapq
import itertools
import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger("wakebus.router")

IDLE_S: Final = 60.0  # until somebody looks again, where no timer runs


class Timer:
    """What `later` will do; `act` None: no more."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act


class Timers:
    """By the time that they are due. `mono` returns the time of now."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._queue: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._order = itertools.count()

    def later(self, after_s: float, act: Callable[[], None]) -> Timer:
        """Call `act` in `after_s` seconds, unless it is cancelled."""
        at, timer = self._mono() + after_s, Timer(act)
        heapq.heappush(self._queue, (at, next(self._order), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget what a timer would have done; what is cancelled does not pile up."""
        self._cancelled += timer.act is not None
        timer.act = None
        if self._cancelled > 100 and self._cancelled > len(self._queue) // 2:
            self._queue = [entry for entry in self._queue if entry[2].act]
            heapq.heapify(self._queue)
            self._cancelled = 0

    def run_due(self) -> float:
        """Run what is due; return the seconds until the next timer."""
        now = self._mono()
        while self._queue and self._queue[0][0] <= now:
            timer = heapq.heappop(self._queue)[2]
            act, timer.act = timer.act, None
            if act is None:
                self._cancelled -= 1
            else:
                run_guarded(act)
        return max(0.0, self._queue[0][0] - now) if self._queue else IDLE_S


def run_guarded(act: Callable[[], None]) -> None:
    """Call `act`; a bug in it must cost one message or name, not the bus."""
    try:
        act()
    except Exception:
        log.exception("a step failed")
