"""
One turn in a session of the gateway, from waiting for its place to the answer's delivery.

Rule 1: it is begun only on the gateway's loop, where nothing can come between the last look and
the beginning; what is queued behind a person all the same is taken back at once. Rule 2: a person
may interrupt it; we interrupt nobody: only our own stop ends the waiting. Rule 3: that Hermes has
accepted a text is no beginning: only its own word in exactly this turn is one (turn_tracker.py).
Where that does not come, what is certain is told as certain (it was refused, dropped, taken back),
and all else as in doubt, after a bounded time, so that nothing runs it twice; a late beginning is
recognised. Rule 4: whatever ends with this process comes again.
"""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from wakebus.broker.errors import NotNow, NotRunning
from wakebus.plugin.hermes.gateway.conversations import Conversation, channel_token
from wakebus.plugin.hermes.gateway.delivery_tracker import DeliveryTracker
from wakebus.plugin.hermes.gateway.turn_end import (
    CANCELLED,
    STOPPING,
    HandedOver,
    Intervals,
    TurnEnds,
    own_words,
)
from wakebus.plugin.hermes.host_api.heard_log import hearing, refusal_in
from wakebus.plugin.hermes.host_api.protocol import (
    CannotBegin,
    GatewayApi,
    Unreachable,
    platform_name,
)
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.receive.host import TurnRequest, TurnResult

AWAY: Final = "not begun: "
BUSY: Final = "its session in Hermes is busy: {}"
UNTOLD: Final = "Hermes did not say how it ended (agent.log may)"
NOT_BEGUN: Final = "Hermes did not begin the turn (gateway.log says why)"


class Unclear(NamedTuple):
    """Why nobody waits for the turn any more. `doubt`: it may be run all the same, later."""

    error: str
    doubt: bool = False


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
        self._deliveries, self._ends = DeliveryTracker(), TurnEnds(hermes, stop, intervals)

    def until_idle(
        self,
        conversation: Conversation,
        cancelled: Callable[[], bool] = lambda: False,
        waits: Callable[[str], object] = lambda why: None,
    ) -> bool:
        """
        Return once the session is idle: whether it was busy before. `waits` is told what goes on.

        Raises NotNow when the gateway or the adapter is away, or the message was `cancelled`,
        NotRunning at our stop.
        """
        told = ""
        while why := self._busy_or_paused(conversation):
            if cancelled():
                raise NotNow(CANCELLED)
            if why != told:
                told = why
                waits(BUSY.format(why))
            self._pause()
        return bool(told)

    def _busy(self, conversation: Conversation) -> str:
        if self._stop.is_set():
            raise NotRunning(STOPPING)
        self._raise_if_away(conversation)
        return self._hermes.busy(conversation.source, conversation.key)

    def _raise_if_away(self, conversation: Conversation) -> None:
        platform = platform_name(getattr(conversation.source, "platform", None))
        if why := self._hermes.away() or self._hermes.platform_away(platform, conversation.source):
            raise NotNow(why)

    def _busy_or_paused(self, conversation: Conversation) -> str:
        if why := self._hermes.paused():
            raise NotNow(why)
        return self._busy(conversation)

    def _pause(self) -> None:
        if self._stop.wait(self._intervals.look):
            raise NotRunning(STOPPING)

    # --- one turn -------------------------------------------------------------------------

    def run(self, order: TurnRequest, conversation: Conversation) -> TurnResult:
        """Run a turn and wait for its end and its delivery. Raises NotNow, NotRunning."""
        heard: list[str] = []
        with ExitStack() as stack:
            tracked = stack.enter_context(self._tracker.tracking(order))
            where = channel_token(conversation.source)
            delivery = stack.enter_context(self._deliveries.tracking(order.text, where))
            stack.enter_context(hearing(heard))
            ours = HandedOver(order, conversation, tracked, delivery)
            outcome: dict[str, Any] = {"session": conversation.key, "started": time.time()}
            try:
                waited = self._begin(ours)
            except CannotBegin as exc:
                outcome |= {"error": str(exc), "ended": time.time()}
                return TurnResult("", outcome, began=False)
            tracked.handed_over = True
            outcome |= {"started": time.time(), **self._waiting_facts(order, waited)}
            unclear = self._wait_for_end(ours, heard)
            outcome["ended"] = time.time()
            if unclear is None:
                return self._ends.result_of(ours, outcome)
            began = tracked.began.is_set()
            outcome["error"] = unclear.error
            if unclear.doubt:
                return self._ends.in_doubt(ours, outcome)
            # Of one that it did not begin Hermes says nothing, and calls that a success.
            shown = own_words(conversation, delivery) if began else None
            return TurnResult("", outcome, began=began, shown=shown)

    def _waiting_facts(self, order: TurnRequest, waited: bool) -> dict[str, Any]:
        arrived = order.jobs[0].arrived
        seconds = time.monotonic() - arrived if arrived else 0.0
        behind = [job.outcome.pop("queued_behind", False) for job in order.jobs]
        told: dict[str, Any] = {"waited_s": round(max(0.0, seconds), 1)}
        return told | ({"queued_behind": True} if waited or any(behind) else {})

    def _begin(self, ours: HandedOver) -> bool:
        """Hand the turn over to Hermes, once it is nobody else's turn; whether it waited."""
        waited = False
        while self._hand_over(ours):
            waited = True
            self._pause()
            self.until_idle(ours.conversation, lambda: ours.order.cancelled)
        return waited

    def _hand_over(self, ours: HandedOver) -> str:
        """Return "" when the turn is Hermes's, else what goes on there instead."""
        if not self._granted():  # then it is routed again, as a note
            raise NotNow("the grant for gateway turns was taken away")
        try:
            return self._hermes.begin(
                ours.order.text,
                ours.conversation.source,
                ours.conversation.key,
                lambda: self._obstacle(ours.conversation),
                ours.delivery.handed_over,
            )
        except Unreachable as exc:
            raise NotNow(str(exc)) from None
        except (NotNow, NotRunning, CannotBegin):
            raise
        except Exception as exc:
            raise CannotBegin(f"Hermes: {type(exc).__name__}: {exc}"[:300]) from exc

    def _obstacle(self, conversation: Conversation) -> str:
        """Return what goes on there, "" for nothing; a person may have lost the right."""
        if why := self._busy_or_paused(conversation):
            return why
        if not conversation.owner and self._hermes.may_talk(conversation.source) is False:
            who = getattr(conversation.source, "user_id", None) or "who wrote there"
            raise CannotBegin(f"{who} may no longer talk to this agent")
        self._hermes.listen(conversation.source, self._deliveries.on_complete)
        return ""

    # --- its end --------------------------------------------------------------------------

    def _wait_for_end(self, ours: HandedOver, heard: list[str]) -> Unclear | None:
        """Return None when Hermes said that the turn ended, else what is wrong."""
        order, turn = ours.order, ours.tracked
        deadline = time.monotonic() + order.timeout if order.timeout else None
        seen, told = time.monotonic(), False
        while not turn.ended.wait(self._intervals.look):
            began = turn.began.is_set()
            if self._stop.is_set():
                self._withdraw(ours)
                raise NotRunning(STOPPING)
            if order.cancelled and not told:
                if not began and self._withdraw(ours):
                    raise NotNow(CANCELLED)
                told = began and self._interrupt(ours)
            if not began and (why := refusal_in(heard)):
                turn.handed_over = False
                self._raise_if_away(ours.conversation)  # then it comes again
                return Unclear(f"Hermes refused the turn: {why}")
            if deadline is not None and time.monotonic() > deadline:
                if unclear := self._over_time(ours):
                    return unclear
            elif not ours.delivery.done.is_set() and self._goes_on(ours.conversation):
                seen = time.monotonic()
            elif time.monotonic() - seen > self._patience(ours):
                if unclear := self._untold_end(ours):
                    return unclear
                seen = time.monotonic()
        return None

    def _patience(self, ours: HandedOver) -> float:
        """Return how long nothing may be seen of it: short where it would be seen."""
        if ours.delivery.done.is_set() or ours.tracked.stopped or self._hermes.away():
            return self._intervals.settle
        shown = self._hermes.shows_turns(ours.conversation.source)
        if ours.tracked.began.is_set():
            return self._intervals.settle if shown else self._intervals.unseen
        return self._intervals.settle if shown and ours.made_here else self._intervals.accepted

    def _interrupt(self, ours: HandedOver) -> bool:
        """End our turn, whose message was cancelled, unless it is a person's by now, too."""
        if self._joined(ours.order):
            return True
        try:
            return self._hermes.interrupt(ours.conversation.key, ours.tracked.ended.is_set)
        except (Unreachable, TimeoutError):
            return False  # asked again as long as it runs

    def _withdraw(self, ours: HandedOver) -> bool:
        """Whether Hermes will not run it: it waited there, and is taken back."""
        if ours.tracked.began.is_set():
            return False
        taken = self._hermes.withdraw(ours.order.text, ours.conversation.source)
        ours.tracked.handed_over = not taken
        return taken

    def _over_time(self, ours: HandedOver) -> Unclear | None:
        if ours.tracked.began.is_set() or ours.made_here:
            return Unclear("the time limit is over; the turn goes on in Hermes")
        if self._withdraw(ours):
            return Unclear("the time limit was over before it began")
        return self._not_begun(ours, "and did not begin it within its time limit")

    def _untold_end(self, ours: HandedOver) -> Unclear | None:
        turn = ours.tracked
        if turn.began.is_set():
            return Unclear(turn.why_failed or UNTOLD)
        if why := self._hermes.away():
            raise NotNow(f"{AWAY}{why}")
        if self._withdraw(ours):
            raise NotNow(f"{AWAY}it waited in Hermes's queue, though nothing went on there")
        shown = self._hermes.shows_turns(ours.conversation.source)
        if ours.delivery.done.is_set() or (ours.made_here and shown):
            return Unclear(NOT_BEGUN)
        return self._not_begun(ours, f"and did not begin it in {self._intervals.accepted:g} s")

    def _not_begun(self, ours: HandedOver, over: str) -> Unclear | None:
        """Hermes has accepted it, and nobody knows whether it will be run; None: it began now."""
        ours.tracked.doubt = True  # before the last look
        if ours.tracked.began.is_set():
            ours.tracked.doubt = False
            return None
        since = f" after {ours.tracked.stopped}" if ours.tracked.stopped else ""
        return Unclear(f"Hermes accepted it {over}{since} (gateway.log may say why)", doubt=True)

    def _goes_on(self, conversation: Conversation) -> bool:
        try:
            return bool(self._busy(conversation))
        except NotNow:  # it drains or reconnects; the turn may go on all the same
            return self._hermes.in_turn(conversation.key)
