"""
Which of the agent's turns are ours, and how they ended.

Rule 1: no IO, no Hermes; hooks.py tells what Hermes says, the hosts wait. Rule 2: a turn is ours if
its user message holds the marker of an order, which only we know; what a person or a peer writes
can be none. Rule 3: turns are followed by `turn_id`: a session's id changes when its history is
compressed in the middle of a turn (agent/turn_finalizer.py of hermes-agent 0.19.0). Rule 4:
bounded: an order is forgotten by who waited for it; one that Hermes works on all the same, when
that ends.
"""

import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from wakebus.plugin.receive.host import TurnRequest

MAX_LEFT: Final = 1000  # turns that go on and nobody waits for
_MARKER: Final = re.compile(r"\b[0-9a-f]{24}\b")


class TrackedTurn:
    """
    An order on its way through Hermes. `began`, `ended` are set in this sequence.

    `answer`: what the model said at the end, "" for nothing; `withheld`: the chat is not to see it;
    `trouble`: what its API said last, where it failed and nothing was said since; `steered`: a
    person's words were put into the turn; `completed`, `interrupted`, `failed`, `exit_reason`: as
    Hermes told at the turn's end; `session_id`: Hermes's own; `handed_over`: Hermes begins it, now
    or later; `stopped`: what a person did to its session since; `awaited`: somebody waits for its
    end; `doubt`: they gave up, and it may still begin.
    """

    def __init__(self, order: TurnRequest) -> None:
        self.order = order
        self.session_id = self.task_id = self.turn_id = ""
        self.answer = self.trouble = self.exit_reason = self.stopped = ""
        self.completed = self.interrupted = self.failed = False
        self.steered = self.withheld = self.handed_over = self.doubt = False
        self.awaited = True
        self.began, self.ended = threading.Event(), threading.Event()

    @property
    def why_failed(self) -> str:
        """What was said of its failure by the model's API, else by Hermes; "" for nothing."""
        if self.trouble:
            return f"its model: {self.trouble}"
        return f"Hermes: {self.exit_reason}" if self.failed and self.exit_reason else ""


class TurnTracker:
    """Orders that wait for their turn or are in one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[str, TrackedTurn] = {}

    @contextmanager
    def tracking(self, order: TurnRequest) -> Iterator[TrackedTurn]:
        """Inside, and until its end, the turn that holds the order's marker is ours."""
        turn = TrackedTurn(order)
        with self._lock:
            self._turns[order.marker] = turn
        try:
            yield turn
        finally:
            turn.awaited = False
            self._forget_left()

    def on_begin(
        self, text: str, *, session_id: str, task_id: str, turn_id: str
    ) -> list[TrackedTurn]:
        """A turn on user message `text` begins; return the orders that are in it."""
        with self._lock:
            found = [self._turns[m] for m in _MARKER.findall(text) if m in self._turns]
        found = [turn for turn in dict.fromkeys(found) if not turn.began.is_set()]
        for turn in found:
            turn.session_id, turn.task_id, turn.turn_id = session_id, task_id, turn_id
            turn.handed_over = True
            turn.began.set()
        return found

    def on_stopped(self, sessions: Collection[str], what: str) -> None:
        """A person did `what` to a session: an order that waits there may never begin."""
        for turn in self._all():
            if turn.order.session in sessions and not turn.began.is_set():
                turn.stopped = what

    def on_answer(self, text: str, *, turn_id: str, steered: bool = False) -> None:
        """The model has answered in turn `turn_id`."""
        for turn in self._by_id(turn_id):
            turn.answer, turn.steered, turn.trouble = text, steered, ""

    def on_trouble(self, text: str, *, turn_id: str) -> None:
        """The model's API failed in turn `turn_id`."""
        for turn in self._by_id(turn_id):
            turn.trouble = text

    def on_end(
        self,
        *,
        turn_id: str,
        completed: bool,
        interrupted: bool,
        failed: bool = False,
        exit_reason: str = "",
    ) -> None:
        """Turn `turn_id` is over."""
        for turn in self._by_id(turn_id):
            turn.completed, turn.interrupted = completed, interrupted
            turn.failed, turn.exit_reason = failed, exit_reason
            turn.ended.set()
        self._forget_left()

    def running(self, *, session_id: str = "", task_id: str = "") -> TrackedTurn | None:
        """Return the newest order whose turn runs as this task, else in this session."""
        run = [turn for turn in self._all() if turn.began.is_set() and not turn.ended.is_set()]
        by_task = [turn for turn in run if task_id and turn.task_id == task_id]
        by_session = [turn for turn in run if session_id and turn.session_id == session_id]
        return next(reversed(by_task or by_session), None)

    def count(self) -> int:
        """Return how many orders are waited for."""
        return sum(turn.awaited for turn in self._all())

    def _forget_left(self) -> None:
        """Forget what nobody waits for, but the newest turns that go on."""
        with self._lock:
            left = [turn for turn in self._turns.values() if not turn.awaited]
            going = [turn for turn in left if turn.handed_over and not turn.ended.is_set()]
            for turn in {*left}.difference(going[-MAX_LEFT:]):
                del self._turns[turn.order.marker]

    def _by_id(self, turn_id: str) -> list[TrackedTurn]:
        return [turn for turn in self._all() if turn_id and turn.turn_id == turn_id]

    def _all(self) -> list[TrackedTurn]:
        with self._lock:
            return list(self._turns.values())
