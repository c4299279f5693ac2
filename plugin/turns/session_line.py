"""
Which message of one session has the next turn.

Rule 1: pure; `now` is an argument. Rule 2: senders take turns: each one's next message before
anybody's one after that, whatever waits of one sender; what one sender sent with one priority keeps
its order. What interrupts comes first, then what has a higher priority. Rule 3: a session that
turned too often rests. Who waits for an answer need not, nor does what that sender sent before: it
cannot be passed. Neither counts as a turn.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from wakebus.plugin.turns.flood_limit import FloodLimit


class Waiting(Protocol):
    """What the line must know of a message. `asked`: a person or script waits for its answer."""

    @property
    def sender(self) -> str:
        """Who sent it."""

    @property
    def asked(self) -> bool:
        """Whether its sender waits, and is no turn."""

    @property
    def interrupts(self) -> bool:
        """Whether it ends the turn that runs."""

    @property
    def rank(self) -> int:
        """Its priority: the lowest number is first."""


J = TypeVar("J", bound=Waiting)


class SessionLine(Generic[J]):
    """What waits for a turn of one session."""

    def __init__(self, limit: FloodLimit) -> None:
        self._limit = limit
        self._rounds: dict[J, int] = {}  # in the order of arrival
        self._round = 0  # the lowest that waited when a turn began last
        self._turns: deque[float] = deque()  # when those that count began
        self._front: dict[bool, J] = {}  # found already; by whether the session rests

    def __contains__(self, job: J) -> bool:
        return job in self._rounds

    def __iter__(self) -> Iterator[J]:
        return iter(self._rounds)

    def __len__(self) -> int:
        return len(self._rounds)

    def add(self, job: J) -> None:
        """Put `job` into the line: a round behind its sender's last one."""
        own = (round for other, round in self._rounds.items() if other.sender == job.sender)
        self._rounds[job] = max(own, default=self._round) + 1
        self._front.clear()

    def remove(self, job: J) -> None:
        """Take `job` out of the line."""
        del self._rounds[job]
        self._front.clear()

    def rest(self, now: float) -> float:
        """Return for how many seconds the session rests; 0: it does not."""
        while self._turns and self._turns[0] + self._limit.window_s <= now:
            self._turns.popleft()
        over = len(self._turns) - self._limit.turns
        return self._turns[over] + self._limit.window_s - now if over >= 0 else 0.0

    def front(self, now: float) -> J | None:
        """Return what has the next turn, be it after a rest; None where nothing waits."""
        resting = self.rest(now) > 0
        if resting not in self._front and self._rounds:
            ordered = self.in_order()
            asking = {job.sender for job in ordered if job.asked} if resting else set()
            first = (job for job in ordered if job.sender in asking)
            self._front[resting] = next(first, ordered[0])
        return self._front.get(resting)

    def need_not_rest(self, job: J) -> bool:
        """Whether somebody waits for its answer, or for one that may not pass it."""
        return job.asked or any(j.asked and j.sender == job.sender for j in self._rounds)

    def in_order(self) -> list[J]:
        """Return what waits as it would have its turns if nothing else came."""
        return sorted(
            self._rounds, key=lambda job: (not job.interrupts, job.rank, self._rounds[job])
        )

    def begin(self, job: J, now: float) -> None:
        """Note that the turn of `job`, which is in the line, begins."""
        self._round = min(self._rounds.values())  # what is first by its priority is ahead of it
        if not job.asked and not self.rest(now):
            self._turns.append(now)
