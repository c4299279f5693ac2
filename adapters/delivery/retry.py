"""
How long one delivery waits for a platform before the courier puts its whole lane off.

Rule 1: only what was certainly not accepted is tried again here, and what was not, once, while
its key makes that safe. Rule 2: at most three tries of a part, and two seconds of waiting in one
delivery, however many parts it has: a lane that waits in a handler's thread holds that thread, one
that waits in the broker holds nothing. Rule 3: the platform's hint counts; else 0.5 to 0.65 s, then
1 to 1.3 s. A wait beyond what is left of the two seconds is the courier's. Rule 4: what is held
back by the permit is no try; a moment is waited for here, as often as it takes. Rule 5: a wait that
the host ends raises Stopped. Rule 6: silence beside the message (Silent) is the courier's at once:
it has cost the time that three tries of anything else would.
"""

import random
from collections.abc import Callable
from typing import Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception

from wakebus.adapters.errors import (
    Held,
    Moved,
    NotSent,
    Silent,
    Throttled,
    TokenRefused,
    Uncertain,
    WayClosed,
)

T = TypeVar("T")

TRIES: Final = 3
LONGEST_S: Final = 2.0
MOMENT_S: Final = 0.25  # shorter than the way to the broker and back is worth
_STEP_S: Final = 0.01  # at least, so that waits of small steps come to an end
FIRST_PAUSE_S: Final = 0.5  # twice that before the third try; both fit, with what chance adds
SPREAD: Final = 0.3


STOPS: Final = "the courier stops; the rest is sent when it runs again"


class Stopped(NotSent):
    """The host stops: the wait was cut short and nothing more is tried."""


class RetryBudget:
    """The tries and waits of one delivery. Not thread-safe: a delivery runs in one thread."""

    def __init__(
        self, sleep: Callable[[float], bool], jitter: Callable[[], float] = random.random
    ) -> None:
        self._sleep = sleep
        self._jitter = jitter
        self._left = LONGEST_S
        self._wait = 0.0

    def retry(self, step: Callable[[], T], safe: Callable[[], bool]) -> T:
        """
        Return what `step` returns; try it again after NotSent, and once after Uncertain if `safe`.

        Raises its last error; Stopped when the host stops.
        """
        doubts = 0

        def again(error: BaseException) -> bool:
            nonlocal doubts
            if isinstance(error, Uncertain):
                doubts += 1
                return doubts == 1 and safe()
            return isinstance(error, NotSent) and not isinstance(error, _NEVER)

        return Retrying(
            retry=retry_if_exception(again),
            stop=self._is_over,
            wait=lambda state: self._wait,
            sleep=lambda _: self._pause(self._wait),
            reraise=True,
        )(step)

    def await_permit(self, enter: Callable[[], None]) -> None:
        """Return when `enter` lets pass; raise Held when it is not a matter of moments."""
        while True:
            try:
                return enter()
            except Held as exc:
                wait = exc.retry_after
                if wait is None or not wait <= min(MOMENT_S, self._left):
                    raise
            self._pause(max(wait, _STEP_S))

    # tenacity 8 asks for the wait after `stop`, 9 before it: so `stop` alone decides both, and
    # what is handed to `sleep` may be the wait before this one.
    def _is_over(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        self._wait = self._wait_after(error, state.attempt_number)
        return state.attempt_number >= TRIES or self._wait > self._left

    def _wait_after(self, error: BaseException | None, tries: int) -> float:
        hint = error.wait if isinstance(error, Throttled) else None
        if hint is not None:
            return hint
        return FIRST_PAUSE_S * 2.0 ** (tries - 1) * (1.0 + SPREAD * self._jitter())

    def _pause(self, seconds: float) -> None:
        self._left -= seconds
        if self._sleep(seconds):
            raise Stopped(STOPS)


_NEVER: Final = (TokenRefused, WayClosed, Moved, Held, Silent, Stopped)
