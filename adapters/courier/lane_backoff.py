"""
The lanes whose first message went back to the broker: how long it waits, and what to say of it.

Rule 1: pure. Rule 2: a platform's own wait counts, else 1, 2, 4 … 60 s. One that asks for the same
short wait again and again gets these as well; a part that gets through begins anew. Rule 3: what is
only held back (admission.py) is no try, and its reason keeps the platform's last words. Rule 4:
bounded; a lane that is forgotten only waits 1 s again.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from wakebus.adapters.base import ChannelResult
from wakebus.broker import Later
from wakebus.broker.protocol.outcome import WorkDone

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
MAX_LANES: Final = 10_000


class DeferredMessage(NamedTuple):
    """A lane's message that went back: how often it was tried, and what was said of it last."""

    id: str
    tries: int
    words: str = ""
    done: int = 0
    work: WorkDone = ""


class LaneBackoff:
    """One lane runs in one thread, so two threads never work on the same message."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._lanes: dict[str, DeferredMessage] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def defer(
        self, lane: str, id: str, result: ChannelResult, *, held: bool, work: WorkDone = ""
    ) -> Later:
        """Return what the broker is told of a message that is to come again, and of its work."""
        before = self._lanes.pop(lane, None)
        if before is None or before.id != id:
            before = DeferredMessage(id, 0)
        elif result.done > before.done:
            before = before._replace(tries=0)
        if work == "none" and before.work == "maybe":
            work = "maybe"  # of a platform whose key always helps no record is kept
        reason = result.reason
        if work == "maybe" and not (held and before.words):
            reason = doubtful(reason)
        words = before.words if held else reason
        tries, done = before.tries + (not held), max(before.done, result.done)
        self._remember(lane, DeferredMessage(id, tries, words, done, work or before.work))
        if held and words and words not in reason:
            reason = f"{words} (now: {reason})"
        return Later(self._wait(result.retry_after, before.tries, held=held), reason, work)

    def _wait(self, asked: float | None, tries: int, *, held: bool) -> float:
        """Return the seconds until it comes again; `asked`: by the permit, or the platform."""
        if asked is None:
            return backoff(tries, self._jitter())
        return asked if held or not tries else max(asked, backoff(tries - 1, self._jitter()))

    def reset(self, lane: str) -> None:
        """The lane's message has ended."""
        self._lanes.pop(lane, None)

    def _remember(self, lane: str, deferred: DeferredMessage) -> None:
        while len(self._lanes) >= MAX_LANES:
            # Another thread may do the same at this moment.
            self._lanes.pop(next(iter(self._lanes), ""), None)
        self._lanes[lane] = deferred


def doubtful(reason: str) -> str:
    """Return why it comes again; that it may have been accepted is said from the first time on."""
    said = "may have been accepted" in reason
    first = reason if said else f"it may have been accepted: {reason}"
    return f"{first}; it is sent again under its key"


def backoff(tries: int, jitter: float) -> float:
    """Return the seconds before try `tries` + 1: 1, 2, 4 … 60, spread by `jitter` (0 to 1)."""
    base = min(FIRST_WAIT_S * 2.0 ** min(tries, 16), LONGEST_WAIT_S)
    # Down only to 3/4: an outage that ends must not find all lanes at the same moment.
    return max(FIRST_WAIT_S, base * (0.75 + jitter / 4))
