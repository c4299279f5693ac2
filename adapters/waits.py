"""
The lanes whose first message went back to the broker: how long it waits, and what to say of it.

Rule 1: pure. Rule 2: a platform's own wait counts, else 1, 2, 4 … 60 s. Rule 3: what is only held
back (gate.py) is no try, and its reason keeps the platform's last words. Rule 4: bounded; a lane
that is forgotten only waits 1 s again.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from wakebus.adapters.base import ChannelResult
from wakebus.broker import Later

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
MAX_LANES: Final = 10_000


class Waiting(NamedTuple):
    """A lane's message that went back, how often it was tried, and what the platform said last."""

    id: str
    tries: int
    words: str = ""


class Waits:
    """One lane runs in one thread, so two threads never work on the same message."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._lanes: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def later(self, lane: str, id: str, result: ChannelResult, *, held: bool) -> Later:
        """Return what the broker is told of a message that is to come again."""
        before = self._lanes.pop(lane, None)
        if before is None or before.id != id:
            before = Waiting(id, -1)
        words = before.words if held else result.reason
        self._remember(lane, Waiting(id, before.tries + (not held), words))
        reason = result.reason
        if held and words and words not in reason:
            reason = f"{words} (now: {reason})"
        wait = result.retry_after
        tries = max(before.tries + 1, 0)
        return Later(backoff(tries, self._jitter()) if wait is None else wait, reason)

    def over(self, lane: str) -> None:
        """The lane's message has ended."""
        self._lanes.pop(lane, None)

    def _remember(self, lane: str, waiting: Waiting) -> None:
        while len(self._lanes) >= MAX_LANES:
            # Another thread may do the same at this moment.
            self._lanes.pop(next(iter(self._lanes), ""), None)
        self._lanes[lane] = waiting


def backoff(tries: int, jitter: float) -> float:
    """Return the seconds before try `tries` + 1: 1, 2, 4 … 60, spread by `jitter` (0 to 1)."""
    base = min(FIRST_WAIT_S * 2.0 ** min(tries, 16), LONGEST_WAIT_S)
    # Down only to 3/4: an outage that ends must not find all lanes at the same moment.
    return max(FIRST_WAIT_S, base * (0.75 + jitter / 4))
