"""
The host in an interactive Hermes CLI: turns between the person's own (HERMES.md section 4).

Rule 1: a CLI is one session, whatever a message calls it; another session's messages are refused.
Rule 2: a turn waits until the CLI rests, and is a prompt of its own after what the person typed.
Rule 3: only a rule with `interrupt` ends the person's turn. Rule 4: how our turn went is what
Hermes says (turn_tracker.py); where it says nothing, that the CLI rests again.
"""

import threading
import time
from typing import Any, Final

from wakebus.broker import Delivery, Refusal
from wakebus.broker.errors import NotNow, NotRunning
from wakebus.plugin.hermes.host_api.protocol import TerminalApi
from wakebus.plugin.hermes.shared.turn_tracker import TrackedTurn, TurnTracker
from wakebus.plugin.hermes.terminal.console import without_pastes
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult
from wakebus.plugin.receive.turn_queue import STOPPING, Job
from wakebus.plugin.rules import model
from wakebus.plugin.rules.match import Plan, is_notice
from wakebus.plugin.rules.sanitize import sanitize

POLL_S: Final = 0.1
# Between a prompt's end and the next one's beginning a busy CLI rests for less than a second.
IDLE_S: Final = 5.0
# Hermes tells a turn's end before it rests; some failures it does not tell at all
# (agent/conversation_loop.py returns from 24 places without finalize_turn).
UNTOLD_S: Final = 2.0
NO_OUTPUT: Final = "no output"
GAVE_WAY: Final = "gave way to a message that interrupts"


class CliHost:
    """See receive/host.py. `hermes`: the live CLI; `stop` is set when it leaves the bus."""

    kind: model.HostKind = "cli"
    at_once = 1
    prompt_limit: int | None = None

    def __init__(
        self,
        hermes: TerminalApi,
        endpoint: str,
        answers: Answers,
        tracker: TurnTracker,
        stop: threading.Event,
    ) -> None:
        self._hermes, self._endpoint, self._answers = hermes, endpoint, answers
        self._tracker, self._stop = tracker, stop

    def names(self, session_id: str) -> tuple[str, ...]:
        """Return what waiting texts call Hermes's session; none for a background task's."""
        return ("", session_id) if session_id in self._hermes.session_ids() else ()

    def place(self, delivery: Delivery, plan: Plan) -> Plan | Refusal:
        """
        There is one session; a channel says only where an answer goes. A notice names that of the
        message that it tells of, at whoever that was for.
        """
        wanted = "" if is_notice(delivery.message) else delivery.message.session
        if wanted and wanted not in self._hermes.session_ids():
            return Refusal(f"no such session here: {self._endpoint} is another conversation")
        return self._answers.if_reachable(delivery, plan._replace(session=""))

    def show(self, delivery: Delivery, text: str, what: str = "print") -> Told:
        """Hand the print to the courier."""
        return self._answers.show(delivery, text, what=what)

    def ready(self, session: str, job: Job, cancel: Cancel) -> None:
        """Wait until the CLI rests; a message that interrupts does not wait."""
        while not (job.interrupts or self._hermes.idle):
            self._raise_if_cut(cancel)
            self._stop.wait(POLL_S)
        self._raise_if_cut(cancel)

    def turn(self, order: TurnRequest) -> TurnResult:
        """Hand the prompt over, and wait for the end of its turn."""
        started, text = time.time(), without_pastes(order.text)
        with self._tracker.tracking(order) as tracked:
            if not self._hermes.enqueue(text):
                raise NotNow("the CLI is not ready for prompts yet")
            if any(job.interrupts for job in order.jobs):
                self._hermes.interrupt(tracked.began.is_set)
            if not self._wait_for_begin(order, text, tracked):
                error = "Hermes took the prompt and began no turn; see the terminal"
                outcome = {"error": error, "started": started, "ended": time.time()}
                return TurnResult("", outcome, began=False, cut_off=order.cancel.asked)
            late = self._wait_for_end(order, tracked)
        return self._result_of(order, tracked, started, late)

    def answer(self, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
        """The person has seen it; it also goes where the plan says."""
        told = self._answers.answer(order.delivery, order.jobs[-1].plan.reply, turn.answer)
        told.pop("unsent", None)  # nobody else waits for it
        return told | ({"terminal": turn.shown} if turn.shown else {})

    # --- a turn -----------------------------------------------------------------------------

    def _raise_if_cut(self, cancel: Cancel) -> None:
        if self._stop.is_set():
            raise NotRunning(STOPPING)
        if cancel.asked:
            raise NotNow(GAVE_WAY)

    def _wait_for_begin(self, order: TurnRequest, text: str, tracked: TrackedTurn) -> bool:
        """Wait for the turn's beginning; False when the prompt is gone and the CLI rests."""
        rests_since = time.monotonic()
        while not tracked.began.wait(POLL_S):
            if (order.cancel.asked or self._stop.is_set()) and self._hermes.withdraw(text):
                self._raise_if_cut(order.cancel)
            if self._hermes.is_queued(text) or not self._hermes.idle:
                rests_since = time.monotonic()
            elif time.monotonic() - rests_since > IDLE_S:
                return False
        return True

    def _wait_for_end(self, order: TurnRequest, tracked: TrackedTurn) -> bool:
        """Wait for the turn's end; return whether it was ended by its time limit."""
        began = rests_since = time.monotonic()
        while not tracked.ended.wait(POLL_S):
            now = time.monotonic()
            late = order.timeout is not None and now - began > order.timeout
            if late or order.cancel.asked or self._stop.is_set():
                self._hermes.interrupt(tracked.ended.is_set)
                return late
            if self._hermes.running:
                rests_since = now
            elif now - rests_since > UNTOLD_S:
                break
        return False

    def _result_of(
        self, order: TurnRequest, tracked: TrackedTurn, started: float, late: bool
    ) -> TurnResult:
        outcome: dict[str, Any] = {"started": started, "ended": time.time()}
        outcome["session"] = tracked.session_id
        answer = sanitize(tracked.answer).strip()
        leaving = self._stop.is_set() or self._hermes.leaving
        cut = not late and (order.cancel.asked or leaving)
        stopped = tracked.interrupted and not (late or cut)
        if answer and not stopped:
            note = {} if tracked.completed else {"note": "Hermes calls the turn not completed"}
            shown: Told = {"result": "answered", "at": time.time()}
            outcome |= {"characters": len(answer), **note}
            return TurnResult(answer, outcome, well=True, shown=shown)
        if late:
            outcome["error"] = f"ended after its time limit of {order.timeout:g} s"
        elif cut:
            outcome["error"] = "ended before it was done"
        elif stopped:
            outcome |= {"interrupted": True, "error": "the person at the terminal stopped it"}
        elif tracked.completed:
            outcome["error"] = NO_OUTPUT
        else:
            why = f"its model: {tracked.trouble}" if tracked.trouble else ""
            outcome["error"] = why or "Hermes did not complete it; see the terminal"
        # What a turn that was interrupted had in its prompt stays in the conversation: it is seen
        # by the next turn. Not so when this process ends: then all of it comes again.
        seen = tracked.completed or (tracked.interrupted and not leaving)
        mute = outcome["error"] == NO_OUTPUT
        return TurnResult("", outcome, cut_off=cut, well=seen, mute=mute)
