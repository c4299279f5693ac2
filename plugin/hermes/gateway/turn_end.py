"""
What is told of a turn's end in the gateway: its answer, its failure, where the chat has it.

Rule 1: the end is what Hermes says of exactly this turn (turn_tracker.py), the delivery what its
core says (delivery_tracker.py); what nobody says is told so, after a bounded time. Rule 2: what the
core delivers, or may have delivered, is not said again.
"""

import threading
import time
from typing import Any, Final, NamedTuple

from wakebus.broker.errors import NotRunning
from wakebus.plugin.hermes.gateway.conversations import Conversation, channel_token
from wakebus.plugin.hermes.gateway.delivery_tracker import TrackedDelivery
from wakebus.plugin.hermes.host_api.answer_filter import is_silence
from wakebus.plugin.hermes.host_api.protocol import GatewayApi
from wakebus.plugin.hermes.shared.turn_tracker import TrackedTurn
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult

LOOK_S: Final = 0.1
SETTLE_S: Final = 5.0  # nothing of ours goes on for so long: it has ended, and nobody said so
ACCEPTED_S: Final = 30.0  # until what Hermes accepted begins, while nothing goes on there
UNSEEN_S: Final = 3600.0  # of a turn that runs where nothing can be seen of it
DELIVERY_S: Final = 60.0  # from the turn's end to the core's word; its retries take up to 10 s
STOPPING: Final = "this gateway is leaving the bus"
CANCELLED: Final = "its message was cancelled"
STOPPED: Final = "a person stopped it; its text stays in the session's history"


class Intervals(NamedTuple):
    """How often things are looked at, and how long they may take, in seconds."""

    look: float = LOOK_S
    settle: float = SETTLE_S
    accepted: float = ACCEPTED_S
    unseen: float = UNSEEN_S
    delivery: float = DELIVERY_S


class HandedOver(NamedTuple):
    """A turn of ours that is Hermes's to run."""

    order: TurnRequest
    conversation: Conversation
    tracked: TrackedTurn
    delivery: TrackedDelivery

    @property
    def made_here(self) -> bool:
        """Whether we made its event, and the adapter has taken it: it is not only accepted."""
        return self.delivery.event is not None


class TurnEnds:
    """`stop` is set when this process leaves the bus."""

    def __init__(self, hermes: GatewayApi, stop: threading.Event, intervals: Intervals) -> None:
        self._hermes, self._stop, self._intervals = hermes, stop, intervals

    def result_of(self, ours: HandedOver, outcome: dict[str, Any]) -> TurnResult:
        """Return how a turn went that Hermes has ended. Raises NotRunning."""
        turn, conversation, delivery = ours.tracked, ours.conversation, ours.delivery
        if turn.interrupted:
            return self._interrupted(ours, outcome)
        answer, well = turn.answer.strip(), turn.completed and not turn.failed
        if turn.failed or not answer:
            delivery.done.wait(self._intervals.settle)
            shown = own_words(conversation, delivery)
            error = (turn.why_failed or "Hermes: it failed") if turn.failed else "no answer"
            return TurnResult("", outcome | {"error": error}, well=well, mute=well, shown=shown)
        outcome["characters"] = len(answer)
        if turn.steered:
            outcome["steered"] = True
        if not well:
            outcome["error"] = f"it was not completed ({turn.why_failed or 'agent.log says why'})"
        if turn.withheld:
            return TurnResult(answer, outcome | {"hidden": True}, well=well)
        if is_silence(answer):  # then nobody is told anything, on purpose
            return TurnResult("", outcome | {"silent": True}, well=well)
        return TurnResult(answer, outcome, well=well, shown=self._delivered(conversation, delivery))

    def _interrupted(self, ours: HandedOver, outcome: dict[str, Any]) -> TurnResult:
        if self._stop.is_set() or self._hermes.away():
            raise NotRunning(STOPPING)
        if ours.order.cancelled:
            return TurnResult("", outcome | {"error": CANCELLED}, cut_off=True)
        there: Told = {"result": "answered", "to": channel_token(ours.conversation.source)}
        outcome |= {"interrupted": True, "error": STOPPED}
        return TurnResult("", outcome, shown=there)  # that person knows

    def in_doubt(self, ours: HandedOver, outcome: dict[str, Any]) -> TurnResult:
        """Return what is told of a turn that Hermes accepted, and may run later, or never."""
        there: Told = {
            "result": "uncertain",
            "to": channel_token(ours.conversation.source),
            "at": time.time(),
            "reason": outcome["error"],
        }
        return TurnResult("", outcome, began=False, shown=there, doubt=True)

    def _delivered(self, conversation: Conversation, delivery: TrackedDelivery) -> Told:
        until = time.monotonic() + self._intervals.delivery
        while not self._hermes.unseen and not delivery.done.wait(self._intervals.look):
            if self._stop.is_set() or time.monotonic() > until:
                break
        shown: Told = {"to": channel_token(conversation.source), "at": time.time()}
        if delivery.result == "success":
            return {"result": "answered", **shown}
        reason = "the platform did not take the answer (gateway.log says why)"
        if delivery.result == "cancelled":
            reason = "Hermes stopped while it was delivered"
        if not delivery.result:
            unsaid = "Hermes has not said whether the platform took the answer"
            reason = self._hermes.unseen or unsaid
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
