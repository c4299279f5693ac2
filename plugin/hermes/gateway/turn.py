"""
One turn in a session of the gateway, from waiting for its place to the answer's delivery.

Rule 1: it is begun only on the gateway's loop, where nothing can come between the last look and
the beginning; what is queued behind a person all the same is taken back at once. Rule 2: a person
may interrupt it; we interrupt nobody: only our own stop ends the waiting. Rule 3: the end is what
Hermes says of exactly this turn (turn_tracker.py), the delivery what its core says
(delivery_tracker.py); what nobody says is told so, after a bounded time. Rule 4: whatever ends with
this process comes again.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from wakebus.broker.errors import NotNow, NotRunning
from wakebus.plugin.hermes.gateway.conversations import Conversation, channel_token
from wakebus.plugin.hermes.gateway.delivery_tracker import DeliveryTracker, TrackedDelivery
from wakebus.plugin.hermes.host_api.protocol import (
    CannotBegin,
    GatewayApi,
    Unreachable,
    platform_name,
)
from wakebus.plugin.hermes.shared.turn_tracker import TrackedTurn, TurnTracker
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult

LOOK_S: Final = 0.1
SETTLE_S: Final = 5.0  # nothing of ours goes on for so long: it has ended, and nobody said so
DELIVERY_S: Final = 60.0  # from the turn's end to the core's word; its retries take up to 10 s
STOPPING: Final = "this gateway is leaving the bus"
CANCELLED: Final = "its message was cancelled"
AWAY: Final = "not begun: "
UNTOLD: Final = "Hermes did not say how it ended (agent.log may)"


class Intervals(NamedTuple):
    """How often things are looked at, and how long they may take, in seconds."""

    look: float = LOOK_S
    settle: float = SETTLE_S
    delivery: float = DELIVERY_S


class GatewayTurns:
    """
    The turns that this gateway is to run. `granted`: whether the owner lets the bus start turns.
    `joined`: whether a person wrote into a turn.
    """

    def __init__(
        self,
        hermes: GatewayApi,
        tracker: TurnTracker,
        stop: threading.Event,
        granted: Callable[[], bool],
        joined: Callable[[TurnRequest], bool],
        intervals: Intervals,
    ) -> None:
        self._hermes, self._tracker, self._stop = hermes, tracker, stop
        self._granted, self._joined, self._intervals = granted, joined, intervals
        self._deliveries = DeliveryTracker()

    def until_idle(
        self, conversation: Conversation, cancelled: Callable[[], bool] = lambda: False
    ) -> bool:
        """
        Return once the session is idle: whether it was busy before.

        Raises NotNow when the gateway or the adapter is away, or the message was `cancelled`,
        NotRunning at our stop.
        """
        waited = False
        while self._busy(conversation):
            if cancelled():
                raise NotNow(CANCELLED)
            waited = True
            self._pause()
        return waited

    def _busy(self, conversation: Conversation) -> str:
        if self._stop.is_set():
            raise NotRunning(STOPPING)
        platform = platform_name(getattr(conversation.source, "platform", None))
        if why := self._hermes.away() or self._hermes.platform_away(platform, conversation.source):
            raise NotNow(why)
        return self._hermes.busy(conversation.source, conversation.key)

    def _pause(self) -> None:
        if self._stop.wait(self._intervals.look):
            raise NotRunning(STOPPING)

    # --- one turn -------------------------------------------------------------------------

    def run(self, order: TurnRequest, conversation: Conversation) -> TurnResult:
        """Run a turn and wait for its end and its delivery. Raises NotNow, NotRunning."""
        with ExitStack() as stack:
            turn = stack.enter_context(self._tracker.tracking(order))
            where = channel_token(conversation.source)
            delivery = stack.enter_context(self._deliveries.tracking(order.text, where))
            outcome: dict[str, Any] = {"session": conversation.key, "started": time.time()}
            try:
                waited = self._begin(order, conversation, delivery)
            except CannotBegin as exc:
                outcome |= {"error": str(exc), "ended": time.time()}
                return TurnResult("", outcome, began=False)
            turn.handed_over = True
            outcome |= {"started": time.time(), **self._waiting_facts(order, waited)}
            deadline = time.monotonic() + order.timeout if order.timeout else None
            error = self._until_ended(order, conversation, turn, delivery, deadline)
            outcome["ended"] = time.time()
            if error:
                began, shown = turn.began.is_set(), own_words(conversation, delivery)
                return TurnResult("", outcome | {"error": error}, began=began, shown=shown)
            return self._result_of(order, conversation, turn, delivery, outcome)

    def _waiting_facts(self, order: TurnRequest, waited: bool) -> dict[str, Any]:
        arrived = order.jobs[0].arrived
        seconds = time.monotonic() - arrived if arrived else 0.0
        behind = [job.outcome.pop("queued_behind", False) for job in order.jobs]
        told: dict[str, Any] = {"waited_s": round(max(0.0, seconds), 1)}
        return told | ({"queued_behind": True} if waited or any(behind) else {})

    def _begin(
        self, order: TurnRequest, conversation: Conversation, delivery: TrackedDelivery
    ) -> bool:
        """Hand the turn over to Hermes, once it is nobody else's turn; whether it waited."""
        waited = False
        while self._hand_over(order, conversation, delivery):
            waited = True
            self._pause()
            self.until_idle(conversation, lambda: order.cancelled)
        return waited

    def _hand_over(
        self, order: TurnRequest, conversation: Conversation, delivery: TrackedDelivery
    ) -> str:
        """Return "" when the turn is Hermes's, else what goes on there instead."""
        if not self._granted():  # then it is routed again, as a note
            raise NotNow("the grant for gateway turns was taken away")
        try:
            return self._hermes.begin(
                order.text,
                conversation.source,
                conversation.key,
                lambda: self._obstacle(conversation),
                delivery.handed_over,
            )
        except Unreachable as exc:
            raise NotNow(str(exc)) from None
        except (NotNow, NotRunning, CannotBegin):
            raise
        except Exception as exc:
            raise CannotBegin(f"Hermes: {type(exc).__name__}: {exc}"[:300]) from exc

    def _obstacle(self, conversation: Conversation) -> str:
        """Return what goes on there, "" for nothing; a person may have lost the right."""
        if why := self._busy(conversation):
            return why
        if not conversation.owner and not self._hermes.may_talk(conversation.source):
            who = getattr(conversation.source, "user_id", None) or "who wrote there"
            raise CannotBegin(f"{who} may no longer talk to this agent")
        self._hermes.listen(conversation.source, self._deliveries.on_complete)
        return ""

    # --- its end --------------------------------------------------------------------------

    def _until_ended(
        self,
        order: TurnRequest,
        conversation: Conversation,
        turn: TrackedTurn,
        delivery: TrackedDelivery,
        deadline: float | None,
    ) -> str:
        """Return "" when Hermes said that the turn ended, else what is wrong."""
        quiet, told = time.monotonic(), False
        while not turn.ended.wait(self._intervals.look):
            if self._stop.is_set():
                raise NotRunning(STOPPING)
            if order.cancelled and turn.began.is_set() and not told:
                told = self._interrupt(order, conversation, turn)
            if deadline is not None and time.monotonic() > deadline:
                return "the time limit is over; the turn goes on in Hermes"
            if not delivery.done.is_set() and self._goes_on(conversation):
                quiet = time.monotonic()
            elif time.monotonic() - quiet > self._intervals.settle:
                return self._untold_end(turn)
        return ""

    def _interrupt(self, order: TurnRequest, conversation: Conversation, turn: TrackedTurn) -> bool:
        """End our turn, whose message was cancelled, unless it is a person's by now, too."""
        if self._joined(order):
            return True
        try:
            return self._hermes.interrupt(conversation.key, turn.ended.is_set)
        except (Unreachable, TimeoutError):
            return False  # asked again as long as it runs

    def _untold_end(self, turn: TrackedTurn) -> str:
        if turn.began.is_set():
            return f"its model: {turn.trouble}" if turn.trouble else UNTOLD
        if why := self._hermes.away():
            raise NotNow(f"{AWAY}{why}")
        return "Hermes did not begin the turn (gateway.log says why)"

    def _goes_on(self, conversation: Conversation) -> bool:
        try:
            return bool(self._busy(conversation))
        except NotNow:  # it drains or reconnects; the turn may go on all the same
            return self._hermes.in_turn(conversation.key)

    def _result_of(
        self,
        order: TurnRequest,
        conversation: Conversation,
        turn: TrackedTurn,
        delivery: TrackedDelivery,
        outcome: dict[str, Any],
    ) -> TurnResult:
        if turn.interrupted:
            if self._stop.is_set() or self._hermes.away():
                raise NotRunning(STOPPING)
            if order.cancelled:
                return TurnResult("", outcome | {"error": CANCELLED}, cut_off=True)
            error = "a person stopped it; its text stays in the session's history"
            there: Told = {"result": "answered", "to": channel_token(conversation.source)}
            outcome |= {"interrupted": True, "error": error}
            return TurnResult("", outcome, shown=there)  # that person knows
        answer = (turn.answer if turn.hidden is None else turn.hidden).strip()
        well = turn.completed
        if not answer:
            delivery.done.wait(self._intervals.settle)
            shown = own_words(conversation, delivery)
            return TurnResult(
                "", outcome | {"error": "no answer"}, well=well, mute=well, shown=shown
            )
        outcome["characters"] = len(answer)
        if turn.steered:
            outcome["steered"] = True
        if not well:
            why = f"its model: {turn.trouble}" if turn.trouble else "agent.log says why"
            outcome["error"] = f"it was not completed ({why})"
        if turn.hidden is not None:
            return TurnResult(answer, outcome | {"hidden": True}, well=well)
        if is_silent(answer):  # then nobody is told anything, on purpose
            return TurnResult("", outcome | {"silent": True}, well=well)
        return TurnResult(answer, outcome, well=well, shown=self._delivered(conversation, delivery))

    def _delivered(self, conversation: Conversation, delivery: TrackedDelivery) -> Told:
        until = time.monotonic() + self._intervals.delivery
        while not delivery.done.wait(self._intervals.look):
            if self._stop.is_set() or time.monotonic() > until:
                break
        shown: Told = {"to": channel_token(conversation.source), "at": time.time()}
        if delivery.result == "success":
            return {"result": "answered", **shown}
        reason = "the platform did not take the answer (gateway.log says why)"
        if delivery.result == "cancelled":
            reason = "Hermes stopped while it was delivered"
        if not delivery.result:
            reason = "Hermes has not said whether the platform took the answer"
        # Hermes keeps what failed and sends it again when it starts (gateway/delivery_ledger.py):
        # so a second way would say it twice.
        return {"result": "uncertain", "reason": reason, **shown}


def own_words(conversation: Conversation, delivery: TrackedDelivery) -> Told | None:
    """
    Return where Hermes has told of a failure in its own words, None where that is not known.

    Where a turn gave no answer, it makes one (gateway/run.py:2804, 13625).
    """
    if delivery.result != "success":
        return None
    return {"result": "answered", "to": channel_token(conversation.source), "at": time.time()}


_SILENT: Final = frozenset({"[SILENT]", "SILENT", "NO_REPLY", "NO REPLY"})
SILENT: Final = "NO_REPLY"


def is_silent(text: str) -> bool:
    """Return whether Hermes delivers nothing for this answer (gateway/response_filters.py:56)."""
    check = getattr(
        sys.modules.get("gateway.response_filters"), "is_intentional_silence_response", None
    )
    if callable(check):
        return bool(check(text))
    return " ".join(text.upper().split()) in _SILENT
