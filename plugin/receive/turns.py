"""
Turns of one host: one at a time per session, some sessions at once (design 6).

Rule 1: a message waits for its session, it never interrupts unless its rule says so. Rule 2: what
is done together (coalesced) is of one session, one rule and one sender; each message gets its own
outcome. Rule 3: a session that turns too often is slowed, and what came meanwhile is one turn.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from wakebus.broker import Delivery, WakebusError
from wakebus.broker.errors import NotRunning
from wakebus.plugin import process
from wakebus.plugin.receive.label import Item
from wakebus.plugin.rules.match import Plan

AT_ONCE: Final = 4
FLOOD_TURNS: Final = 5
FLOOD_S: Final = 60.0
MAX_IDLE: Final = 1000  # sessions whose recent turns are remembered
MAX_TOGETHER: Final = 50  # messages in one turn: what still fits a prompt

Outcome = dict[str, Any]


class Job:
    """A message that waits for a turn of its session."""

    def __init__(self, delivery: Delivery, plan: Plan, item: Item, *, arrived: float) -> None:
        self.delivery, self.plan, self.item, self.arrived = delivery, plan, item, arrived
        self.outcome: Outcome = {}
        self.error: WakebusError | None = None  # the delivery is no longer ours
        self.done = threading.Event()

    @property
    def kind(self) -> tuple[int, str]:
        """What may be done together: the rule and the sender."""
        number = self.plan.rule.number if self.plan.rule else 0
        return number, self.delivery.message.sender

    @property
    def coalesce_s(self) -> float:
        """How long to wait for more of its kind."""
        return self.plan.rule.coalesce_ms / 1000 if self.plan.rule else 0.0


class _Session:
    def __init__(self) -> None:
        self.waiting: deque[Job] = deque()
        self.turns: deque[float] = deque(maxlen=FLOOD_TURNS)
        self.running: process.Cancel | None = None
        self.interrupted_by = ""
        self.driven = False

    def flooded(self, now: float) -> float:
        """Return how many seconds this session must rest; 0 for none."""
        if len(self.turns) < FLOOD_TURNS:
            return 0.0
        return max(0.0, self.turns[0] + FLOOD_S - now)


Run = Callable[[str, Sequence[Job], process.Cancel], None]


class Turns:
    """`run(session, jobs, cancel)` does one turn and fills each job's outcome; it never raises."""

    def __init__(self, run: Run, *, now: Callable[[], float] = time.monotonic) -> None:
        self._run, self._now = run, now
        self._lock = threading.Condition()
        self._sessions: dict[str, _Session] = {}
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._stopping = False

    def take(self, session: str, job: Job) -> Outcome:
        """
        Wait until a turn has worked on `job`; return its outcome.

        Raises NotRunning when the host stops, Fenced or NotRegistered when the delivery went to
        another holder: it must not be acknowledged then.
        """
        with self._lock:
            self._prune()
            found = self._sessions.setdefault(session, _Session())
            if self._stopping:
                raise NotRunning("this host is stopping")
            self._enqueue(found, job)
            if not found.driven:
                found.driven = True
                threading.Thread(
                    target=self._drive, args=(session, found), name="wakebus turns", daemon=True
                ).start()
            self._lock.notify_all()
            together = job.coalesce_s > 0 or found.flooded(self._now()) > 0
        if together:
            job.delivery.take_more()
        job.done.wait()
        if self._stopping or job.error:
            raise job.error or NotRunning("this host is stopping")
        return job.outcome

    def _prune(self) -> None:
        if len(self._sessions) > MAX_IDLE:
            idle = [name for name, session in self._sessions.items() if not session.driven]
            for name in idle:
                del self._sessions[name]

    def _enqueue(self, session: _Session, job: Job) -> None:
        if job.plan.rule and job.plan.rule.interrupt:
            session.waiting.appendleft(job)
            if session.running:
                session.interrupted_by = job.delivery.message.id
                session.running.cancel()
        else:
            session.waiting.append(job)

    def stop(self) -> None:
        """End the running turns and answer the waiting jobs; none starts afterwards."""
        with self._lock:
            self._stopping = True
            for session in self._sessions.values():
                if session.running:
                    session.running.cancel()
            self._lock.notify_all()

    def _drive(self, name: str, session: _Session) -> None:
        while jobs := self._next(session):
            with self._places:
                cancel = process.Cancel()
                with self._lock:
                    session.running, session.interrupted_by = cancel, ""
                    session.turns.append(self._now())
                    if self._stopping:
                        cancel.cancel()
                self._run(name, jobs, cancel)
                with self._lock:
                    session.running = None
            for job in jobs:
                if session.interrupted_by:
                    job.outcome["interrupted_by"] = session.interrupted_by
                job.done.set()

    def _next(self, session: _Session) -> list[Job]:
        """Wait for the session's next turn; return its jobs, none when there is nothing left."""
        with self._lock:
            while session.waiting:
                head = session.waiting[0]
                rest = session.flooded(self._now())
                gather = head.arrived + head.coalesce_s - self._now()
                pause = max(rest, gather)
                if pause <= 0 or self._stopping:
                    return self._together(session, head)
                for job in session.waiting:
                    if rest > 0 and not job.delivery.takes_more:
                        job.delivery.take_more()
                self._lock.wait(pause)
            session.driven = False
            return []

    def _together(self, session: _Session, head: Job) -> list[Job]:
        full = len(session.turns) == FLOOD_TURNS
        crowded = full and self._now() - session.turns[0] < 2 * FLOOD_S
        if not head.coalesce_s and not (crowded and head.delivery.takes_more):
            return [session.waiting.popleft()]
        jobs = [job for job in session.waiting if job.kind == head.kind][:MAX_TOGETHER]
        for job in jobs:
            session.waiting.remove(job)
        return jobs
