"""
Which of the agent's turns are ours, and how they ended.

Rule 1: no IO, no Hermes; hooks.py tells what Hermes says, the hosts wait. Rule 2: a turn is ours if
its user message holds the marker of an order, which only we know; what a person or a peer writes
can be none. Rule 3: turns are followed by `turn_id`: a session's id changes when its history is
compressed in the middle of a turn (agent/turn_finalizer.py of hermes-agent 0.19.0). Rule 4:
bounded: an order is forgotten by who waited for it.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wakebus.plugin.receive.host import TurnRequest

_MARKER: Final = re.compile(r"\b[0-9a-f]{24}\b")


class Watched:
    """
    An order on its way through Hermes. `began`, `ended` are set in this sequence.

    `answer`: what the model said at the end, "" for nothing; `steered`: a person's words were put
    into the turn; `completed`, `interrupted`: as Hermes
    told at the turn's end; `session_id`: Hermes's own.
    """

    def __init__(self, order: TurnRequest) -> None:
        self.order = order
        self.session_id = self.task_id = self.turn_id = ""
        self.answer = ""
        self.completed = self.interrupted = self.steered = False
        self.began, self.ended = threading.Event(), threading.Event()


class Watch:
    """Orders that wait for their turn or are in one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: dict[str, Watched] = {}

    @contextmanager
    def over(self, order: TurnRequest) -> Iterator[Watched]:
        """Inside, the turn that holds the order's marker is ours."""
        watched = Watched(order)
        with self._lock:
            self._orders[order.marker] = watched
        try:
            yield watched
        finally:
            with self._lock:
                del self._orders[order.marker]

    def on_begin(self, text: str, *, session_id: str, task_id: str, turn_id: str) -> list[Watched]:
        """A turn on user message `text` begins; return the orders that are in it."""
        with self._lock:
            found = [self._orders[m] for m in _MARKER.findall(text) if m in self._orders]
        found = [watched for watched in dict.fromkeys(found) if not watched.began.is_set()]
        for watched in found:
            watched.session_id, watched.task_id, watched.turn_id = session_id, task_id, turn_id
            watched.began.set()
        return found

    def on_answer(self, text: str, *, turn_id: str, steered: bool = False) -> None:
        """The model has answered in turn `turn_id`."""
        for watched in self._in_turn(turn_id):
            watched.answer, watched.steered = text, steered

    def on_end(self, *, turn_id: str, completed: bool, interrupted: bool) -> None:
        """Turn `turn_id` is over."""
        for watched in self._in_turn(turn_id):
            watched.completed, watched.interrupted = completed, interrupted
            watched.ended.set()

    def running(self, *, session_id: str = "", task_id: str = "") -> Watched | None:
        """Return the newest order whose turn runs as this task, else in this session."""
        open_ = [w for w in self._all() if w.began.is_set() and not w.ended.is_set()]
        by_task = [w for w in open_ if task_id and w.task_id == task_id]
        by_session = [w for w in open_ if session_id and w.session_id == session_id]
        return next(reversed(by_task or by_session), None)

    def count(self) -> int:
        """Return how many orders wait for their turn or are in one."""
        return len(self._all())

    def _in_turn(self, turn_id: str) -> list[Watched]:
        return [w for w in self._all() if turn_id and w.turn_id == turn_id]

    def _all(self) -> list[Watched]:
        with self._lock:
            return list(self._orders.values())
