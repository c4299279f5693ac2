"""
One turn as a prompt of its own in a conversation: from waiting for its place to its end.

Where its person sits in front of it: a terminal, the TUI, the desktop. Rule 1: a turn waits until
the conversation rests. Rule 2: how our turn went is what Hermes says (turn_tracker.py); where it
says nothing, that the conversation rests again. Rule 3: what ends with this process comes again.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.errors import NotNow, NotRunning
from wakebus.plugin.hermes.host_api.loaded_functions import paused
from wakebus.plugin.hermes.host_api.protocol import CannotBegin, ConversationApi, Unreachable
from wakebus.plugin.hermes.shared.turn_tracker import TrackedTurn, TurnTracker
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.answers import Answers, not_sent
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult
from wakebus.plugin.receive.turn_queue import STOPPING
from wakebus.plugin.rules import model
from wakebus.plugin.rules.sanitize import sanitize

POLL_S: Final = 0.1
# Between a prompt's end and the next one's beginning a busy conversation rests for less than 1 s.
IDLE_S: Final = 5.0
# Hermes tells a turn's end before it rests; some failures it does not tell at all
# (agent/conversation_loop.py returns from 24 places without finalize_turn).
UNTOLD_S: Final = 2.0
NO_OUTPUT: Final = "no output"
STEERED: Final = "a person wrote into the turn: the answer is theirs"
BUSY: Final = "Hermes is in another turn; see {}"
GAVE_WAY: Final = "gave way to a message that interrupts"


class PromptTurns:
    """
    The turns of a host. `stop` is set when it leaves the bus.

    `where`: what a person calls it, as in "see the terminal". `settle_s`: how long after a turn was
    interrupted it is looked whether the process ends: Hermes may interrupt its turns first.
    """

    def __init__(
        self, tracker: TurnTracker, stop: threading.Event, where: str, settle_s: float = 0.0
    ) -> None:
        self._tracker, self._stop = tracker, stop
        self._where, self._settle_s = where, settle_s

    def until_idle(
        self,
        hermes: ConversationApi,
        cancel: Cancel,
        cancelled: Callable[[], bool] = lambda: False,
        waits: Callable[[str], object] = lambda why: None,
    ) -> bool:
        """
        Return once it rests: whether it had to wait. `waits` is told why, once.

        Raises NotNow when the conversation is gone, nobody wants the turn, or the owner has stopped
        all new work; NotRunning at a stop.
        """
        waited = False
        raise_if_paused()
        while not hermes.idle:
            raise_if_paused()
            if cancelled():
                raise NotNow("its message was cancelled")
            if why := hermes.gone:
                raise NotNow(why)
            self.raise_if_cut(cancel)
            if not waited:
                waits(BUSY.format(self._where))
            self._stop.wait(POLL_S)
            waited = True
        return waited

    def raise_if_cut(self, cancel: Cancel) -> None:
        """Raise NotRunning at our stop, NotNow where a message interrupts."""
        if self._stop.is_set():
            raise NotRunning(STOPPING)
        if cancel.asked:
            raise NotNow(GAVE_WAY)

    def run(
        self, order: TurnRequest, hermes: ConversationApi, text: str, *, interrupts: bool = False
    ) -> TurnResult:
        """
        Hand `text` over as a prompt, and wait for the end of its turn. Raises as until_idle.

        interrupts: end the turn that runs before it.
        """
        started = time.time()
        with self._tracker.tracking(order) as tracked:
            try:
                self._hand_over(order, hermes, text)
            except Unreachable as exc:
                raise NotNow(str(exc)) from None
            except CannotBegin as exc:
                return _not_begun(str(exc), started, order)
            if interrupts:
                hermes.interrupt(tracked.began.is_set)
            if not self._wait_for_begin(order, hermes, text, tracked):
                why = f"Hermes took the prompt and began no turn; see {self._where}"
                return _not_begun(why, started, order)
            late = self._wait_for_end(order, hermes, tracked)
        return self._result_of(order, hermes, tracked, started, late)

    def _hand_over(self, order: TurnRequest, hermes: ConversationApi, text: str) -> None:
        while not hermes.enqueue(text):
            self.raise_if_cut(order.cancel)
            self._stop.wait(POLL_S)
            self.until_idle(hermes, order.cancel, lambda: order.cancelled)

    def _wait_for_begin(
        self, order: TurnRequest, hermes: ConversationApi, text: str, tracked: TrackedTurn
    ) -> bool:
        """Wait for the turn's beginning; False when the prompt is gone and Hermes rests."""
        rests_since = time.monotonic()
        while not tracked.began.wait(POLL_S):
            if (order.cancel.asked or self._stop.is_set()) and hermes.withdraw(text):
                self.raise_if_cut(order.cancel)
            if why := hermes.gone:
                raise NotNow(why)
            if hermes.is_queued(text) or not hermes.idle:
                rests_since = time.monotonic()
            elif time.monotonic() - rests_since > IDLE_S:
                return False
        return True

    def _wait_for_end(
        self, order: TurnRequest, hermes: ConversationApi, tracked: TrackedTurn
    ) -> bool:
        """Wait for the turn's end; return whether it was ended by its time limit."""
        began = rests_since = time.monotonic()
        while not tracked.ended.wait(POLL_S):
            now = time.monotonic()
            late = order.timeout is not None and now - began > order.timeout
            if late or order.cancel.asked or self._stop.is_set():
                hermes.interrupt(tracked.ended.is_set)
                return late
            if hermes.running and not hermes.gone:
                rests_since = now
            elif now - rests_since > UNTOLD_S:
                break
        return False

    def _result_of(
        self,
        order: TurnRequest,
        hermes: ConversationApi,
        tracked: TrackedTurn,
        started: float,
        late: bool,
    ) -> TurnResult:
        outcome: dict[str, Any] = {"started": started, "ended": time.time()}
        outcome["session"] = tracked.session_id
        answer = sanitize(tracked.answer).strip()
        if tracked.interrupted and not (late or order.cancel.asked):
            self._see_why(hermes)
        leaving = self._stop.is_set() or hermes.leaving
        cut = not late and (order.cancel.asked or leaving)
        stopped = tracked.interrupted and not (late or cut)
        if answer and not stopped and not tracked.failed:
            note = {} if tracked.completed else {"note": "Hermes calls the turn not completed"}
            shown: Told = {"result": "answered", "at": time.time()}
            steered = {"steered": True} if tracked.steered else {}
            outcome |= {"characters": len(answer), **note, **steered}
            return TurnResult(answer, outcome, well=True, shown=shown)
        if not (late or cut) and (why := hermes.gone):  # it comes again, as at a window's end
            raise NotNow(why)
        if late and tracked.ended.is_set():
            outcome["error"] = f"ended after its time limit of {order.timeout:g} s"
        elif late:
            why = f"its time limit of {order.timeout:g} s is over; the turn goes on in Hermes"
            outcome["error"] = why
        elif cut:
            outcome["error"] = "ended before it was done"
        elif stopped:
            outcome |= {"interrupted": True, "error": f"the person at {self._where} stopped it"}
        elif tracked.completed and not tracked.failed:
            outcome["error"] = NO_OUTPUT
        else:
            why = tracked.why_failed
            outcome["error"] = why or f"Hermes did not complete it; see {self._where}"
        # What a turn that was interrupted had in its prompt stays in the conversation: it is seen
        # by the next turn. Not so when this process ends: then all of it comes again.
        seen = tracked.completed or (tracked.interrupted and not leaving)
        mute = outcome["error"] == NO_OUTPUT
        return TurnResult("", outcome, cut_off=cut, well=seen, mute=mute)

    def _see_why(self, hermes: ConversationApi) -> None:
        """Wait until it is clear whether a person stopped the turn, or its process ends."""
        until = time.monotonic() + self._settle_s
        while not hermes.gone and time.monotonic() < until and not self._stop.wait(POLL_S):
            pass
        if hermes.gone:  # a process that ends closes its sessions one by one
            self._stop.wait(max(0.0, until - time.monotonic()))


def raise_if_paused() -> None:
    """Raise NotNow where the owner has stopped all new work."""
    if why := paused():
        raise NotNow(why)


def answer_seen(answers: Answers, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
    """
    Send what the person has seen where else the plan says; return what the outcome tells.

    What answers a person's words, too, is for that person alone.
    """
    reply = order.jobs[-1].plan.reply
    if turn.outcome.get("steered"):
        told = {way: not_sent(STEERED) for way in _ways(reply, order.delivery.message.channel)}
    else:
        told = answers.answer(order.delivery, reply, turn.answer)
    told.pop("unsent", None)  # nobody else waits for it
    return told | ({"terminal": turn.shown} if turn.shown else {})


def _ways(reply: model.Reply, channel: str) -> list[str]:
    ways = ["answer"] if reply in ("sender", "both") else []
    return [*ways, "channel"] if channel and reply in ("channel", "both", "home") else ways


def _not_begun(why: str, started: float, order: TurnRequest) -> TurnResult:
    outcome = {"error": why, "started": started, "ended": time.time()}
    return TurnResult("", outcome, began=False, cut_off=order.cancel.asked)
