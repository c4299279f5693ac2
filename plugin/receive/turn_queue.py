"""
Turns of one host: one at a time per session, some sessions at once.

Rule 1: a message waits for its session; only if its rule says `interrupt` it ends the running
turn; else plugin/turns says which is next. Rule 2: what is done together (coalesced) is of one
session, one rule and one sender, and passes no other message of that sender; what somebody waits
for is never done together: each asker gets an answer of its own. Rule 3: what came while a session
rested is done together. Rule 4: each message waits in its own handler's thread, and the one in
front runs the turn there; the broker is told why the others wait. Rule 5: whatever `run` does,
every message that waits gets its outcome.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from wakebus.broker import Delivery, WakebusError
from wakebus.broker.errors import NotRunning
from wakebus.broker.protocol.message import rank_of
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.rules.match import Plan
from wakebus.plugin.turns.flood_limit import FloodLimit
from wakebus.plugin.turns.session_line import SessionLine

AT_ONCE: Final = 4
MAX_IDLE: Final = 1000  # sessions whose recent turns are remembered
MAX_TOGETHER: Final = 50  # messages in one turn: what still fits a prompt
# That wait for one session, of those who wait for an answer and of the others: each has one of the
# endpoint's 64 lanes.
MAX_SENDERS: Final = 8
STOPPING: Final = "this host is stopping"
TOGETHER: Final = "cancelled, but done together with other messages: their turn went on"
GATHERS: Final = "its rule waits for more of its kind"
NO_PLACE: Final = "{} other sessions have a turn, as many as may at once"

log: Final = logging.getLogger("wakebus.turns")

OutcomeFields = dict[str, Any]


class Job:
    """
    A message that waits for a turn of its session.

    `ahead`: its lane goes on meanwhile, for the next message may be one that interrupts.
    """

    def __init__(
        self, delivery: Delivery, plan: Plan, item: PromptItem, *, ahead: bool = False
    ) -> None:
        self.delivery, self.plan, self.item, self.ahead = delivery, plan, item, ahead
        self.arrived = 0.0
        self.rested = False  # it came while its session rested
        self.outcome: OutcomeFields = {}
        self.failed = ""  # why the turn on it failed, or is in doubt
        self.doubt = False  # it did not begin, and may still be run
        self.failure_told: OutcomeFields | None = None  # its chat knows of that already
        self.error: WakebusError | None = None  # it must not be acknowledged
        self.done = self.cancelled = False
        self.behind = ""  # the message whose turn it was said to wait for
        self.told = ("", 0.0)  # why it was said to wait, and until when

    @property
    def sender(self) -> str:
        """Who sent it."""
        return self.delivery.message.sender

    @property
    def kind(self) -> tuple[int, str]:
        """What may be done together: the rule and the sender."""
        return (self.plan.rule.number if self.plan.rule else 0), self.sender

    @property
    def asked(self) -> bool:
        """Whether somebody waits for its answer, not from inside a turn (that may be a loop)."""
        return is_asked(self.delivery)

    @property
    def interrupts(self) -> bool:
        """Whether it ends the turn that runs."""
        return self.plan.rule is not None and self.plan.rule.interrupt

    @property
    def rank(self) -> int:
        """Its priority: the lowest number is first."""
        return rank_of(self.delivery.message.priority)

    @property
    def coalesce_s(self) -> float:
        """How long to wait for more of its kind."""
        return self.plan.rule.coalesce_ms / 1000 if self.plan.rule else 0.0


def is_asked(delivery: Delivery) -> bool:
    """Whether somebody waits for its answer, not from inside a turn (that may be a loop)."""
    return delivery.asks and delivery.message.hops == 0


class _Session:
    def __init__(self, limit: FloodLimit) -> None:
        self.line: SessionLine[Job] = SessionLine(limit)
        self.running: Cancel | None = None
        self.jobs: Sequence[Job] = ()  # what the running turn is on
        self.interrupted_by = ""

    def enqueue(self, job: Job) -> None:
        """Put `job` into the line; if it interrupts, end what runs."""
        self.line.add(job)
        if job.interrupts and self.running:
            self.interrupted_by = self.interrupted_by or job.delivery.message.id
            self.running.cancel()

    def gather(self, first: Job) -> list[Job]:
        """Take `first`, and what is done together with it."""
        jobs = [first]
        if (first.coalesce_s or first.rested) and not first.delivery.asks:
            for job in self.line.in_order():
                alike = job.kind == first.kind and not job.delivery.asks
                if job is first:
                    continue
                if alike and len(jobs) < MAX_TOGETHER:
                    jobs.append(job)
                elif job.sender == first.sender:
                    break  # what comes later from this sender must not pass it
        for job in jobs:
            self.line.remove(job)
        return jobs


RunTurn = Callable[[str, Sequence[Job], Cancel], bool]
Wait = Callable[[threading.Condition, float | None], object]


class TurnQueue:
    """
    `run(session, jobs, cancel)` does one turn, fills each job's outcome and returns whether it
    was cut off by `cancel`; a WakebusError means that none of it may be acknowledged. `now`,
    `wait` are replaced by tests to make time jump.
    """

    def __init__(
        self,
        run: RunTurn,
        *,
        at_once: int = AT_ONCE,
        limit: FloodLimit | None = None,
        now: Callable[[], float] = time.monotonic,
        wait: Wait = threading.Condition.wait,
    ) -> None:
        self._run, self._now, self._wait = run, now, wait
        self._at_once, self._limit = at_once, limit or FloodLimit()
        self._lock = threading.Condition()
        self._sessions: dict[str, _Session] = {}
        self._line: deque[_Session] = deque()  # those that wait for a place, first come first
        self._busy = 0
        self._stopping = False

    def take_turn(self, name: str, job: Job) -> OutcomeFields:
        """
        Wait until a turn of session `name` has worked on `job`; return its outcome.

        Raises NotRunning when the host stops, Fenced or NotRegistered when the delivery went to
        another holder: it must not be acknowledged then.
        """
        with self._lock:
            if job.cancelled:
                return job.outcome
            self._prune()
            session = self._sessions.setdefault(name, _Session(self._limit))
            job.arrived = self._now()
            session.enqueue(job)
            self._lock.notify_all()
            jobs = self._until_in_front(session, job)
        if jobs:
            self._turn(name, session, jobs)
        if job.error:
            raise job.error
        return job.outcome

    def cancel(self, name: str, job: Job) -> None:
        """
        End the work on `job`, whose message was cancelled (any thread).

        What waits is over. A turn is ended only if nobody else's message is in it.
        """
        with self._lock:
            session = self._sessions.get(name)
            job.cancelled = True
            if session is None or job.done:
                return
            if job in session.line:
                session.line.remove(job)
                job.done = True
            elif session.running and all(one.cancelled for one in session.jobs):
                session.running.cancel()
            elif job in session.jobs:
                job.outcome["note"] = TOGETHER
            self._lock.notify_all()

    def crowded(self, name: str, delivery: Delivery) -> bool:
        """
        Whether so many senders wait for session `name` that one more should come later.

        Those who wait for an answer are counted by themselves: no crowd keeps them out.
        """
        with self._lock:
            waiting = self._sessions[name].line if name in self._sessions else ()
            asked = is_asked(delivery)
            senders = {job.sender for job in waiting if job.asked == asked}
        return delivery.message.sender not in senders and len(senders) >= MAX_SENDERS

    def rest(self, name: str) -> float:
        """Return how many seconds session `name` must rest before its next turn; 0 for none."""
        with self._lock:
            session = self._sessions.get(name)
            return session.line.rest(self._now()) if session else 0.0

    def stop(self, timeout: float) -> None:
        """End the running turns, wait up to `timeout` seconds for them; none starts afterwards."""
        with self._lock:
            self._stopping = True
            for session in self._sessions.values():
                if session.running:
                    session.running.cancel()
            self._lock.notify_all()
            self._lock.wait_for(lambda: not self._busy, timeout)

    def _prune(self) -> None:
        if len(self._sessions) > MAX_IDLE:
            for name, session in list(self._sessions.items()):
                if not session.running and not len(session.line):
                    del self._sessions[name]

    # --- with the lock held ---------------------------------------------------------------

    def _until_in_front(self, session: _Session, job: Job) -> list[Job]:
        """Wait for the job's turn; return what that is on, nothing if another turn did the job."""
        while not job.done:
            if self._stopping and job in session.line:
                session.line.remove(job)
                raise NotRunning(STOPPING)
            self._let_lane_go_on(session, job)
            self._tell_behind(session, job)
            pause = self._pause(session, job)
            if pause == 0:
                return self._begin(session, job)
            self._tell_why(session, job)
            self._wait(self._lock, pause)
        return []

    def _pause(self, session: _Session, job: Job) -> float | None:
        """Return the seconds until the job's turn may begin; None: something must end first."""
        if session.running or job not in session.line:
            return None
        now = self._now()
        rest = session.line.rest(now)
        job.rested |= rest > 0
        if session.line.front(now) is not job:
            return rest or None  # after the rest another may be in front
        pause = max(self._must_rest(session, job), self._must_gather(job))
        if pause > 0:
            if session in self._line:  # one that must wait has come to the front
                self._line.remove(session)
                self._lock.notify_all()
            return pause
        if session not in self._line:
            self._line.append(session)
        return 0 if self._busy < self._at_once and self._line[0] is session else None

    def _must_rest(self, session: _Session, job: Job) -> float:
        rest = session.line.rest(self._now())
        return 0.0 if rest and session.line.need_not_rest(job) else rest

    def _must_gather(self, job: Job) -> float:
        waits = 0.0 if job.delivery.asks else job.arrived + job.coalesce_s - self._now()
        return max(0.0, waits)

    def _let_lane_go_on(self, session: _Session, job: Job) -> None:
        # One message per lane is in flight: else nothing would come that could be coalesced.
        wanted = job.ahead or job.coalesce_s > 0 or session.line.rest(self._now()) > 0
        if wanted and not job.delivery.takes_more:
            job.delivery.take_more()

    def _tell_behind(self, session: _Session, job: Job) -> None:
        # So the broker sees who waits for himself: a turn that asks its own session.
        running = session.jobs[-1].delivery.message.id if session.jobs else ""
        if running and running != job.behind and not job.interrupts:
            job.behind = running
            job.delivery.wait_behind(running)

    def _tell_why(self, session: _Session, job: Job) -> None:
        """Tell the broker why the job waits, as far as it does not know."""
        rest = self._must_rest(session, job)
        why, left = (self._limit.reason, rest) if rest else (GATHERS, self._must_gather(job))
        if not left:
            full = session in self._line and self._busy >= self._at_once
            why = NO_PLACE.format(self._busy) if full and not session.running else ""
        told = (why, round(self._now() + left if left else 0.0))
        if told != job.told:
            job.told = told
            job.delivery.wait_because(why, left)

    def _begin(self, session: _Session, first: Job) -> list[Job]:
        self._line.popleft()
        self._busy += 1
        session.line.begin(first, self._now())
        jobs = session.gather(first)
        if rest := session.line.rest(self._now()):
            # Its last turn for a while: who sends now is told so.
            jobs[-1].delivery.wait_because(self._limit.reason, rest)
        session.running, session.jobs = Cancel(), jobs
        self._lock.notify_all()
        return jobs

    # --- without it -----------------------------------------------------------------------

    def _turn(self, name: str, session: _Session, jobs: Sequence[Job]) -> None:
        cut_off = False
        assert session.running is not None
        try:
            cut_off = self._run(name, jobs, session.running)
        except WakebusError as exc:
            for job in jobs:
                job.error = job.error or exc
        except Exception as exc:  # a slip of ours, or no memory: told, and the session goes on
            for job in jobs:
                error = f"{type(exc).__name__}: {exc}"
                job.outcome |= {"turn": {"error": error}, "answered": False}
                job.failed = f"the turn failed: {error}"
            log.error("a turn of session %r failed", name, exc_info=exc)
        finally:
            self._end(session, jobs, cut_off)

    def _end(self, session: _Session, jobs: Sequence[Job], cut_off: bool) -> None:
        with self._lock:
            for job in jobs:
                if cut_off and session.interrupted_by:
                    job.outcome["interrupted_by"] = session.interrupted_by
                elif cut_off and not job.cancelled:
                    job.error = job.error or NotRunning(STOPPING)
                job.done = True
            session.running, session.interrupted_by, session.jobs = None, "", ()
            self._busy -= 1
            self._lock.notify_all()


def start_jobs(jobs: Sequence[Job], token: str) -> list[Job]:
    """Say that work on each job begins; return those that are still ours."""
    shown: str | None = token
    for job in reversed([job for job in jobs if not job.cancelled]):
        try:
            # A token is good for one message: for the newest that is still ours.
            job.delivery.started(shown)
            shown = None
        except WakebusError as exc:
            job.error = exc
    return [job for job in jobs if job.error is None and not job.cancelled]


def fill_outcomes(
    jobs: Sequence[Job], turn: dict[str, Any], told: dict[str, Any], context: Sequence[str]
) -> None:
    """Fill each job's outcome; the answer was the newest's. `context`: ids of notes it saw."""
    last = jobs[-1]
    for job in jobs:
        job.outcome |= {"turn": turn, "answered": False}
        if context:
            job.outcome["context"] = [*context]
        if job is not last:
            job.outcome["together_with"] = last.delivery.message.id
    answered = told.get("answer", {}).get("result") == "queued"
    last.outcome |= {**told, "answered": answered}
    shown = any(told.get(way, {}).get("result") == "answered" for way in ("channel", "terminal"))
    if shown and not last.delivery.asks:
        del last.outcome["answered"]  # it is about who waits for it; here nobody does
