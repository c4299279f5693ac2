"""
One turn in a session of the gateway, from waiting for its place to the answer's delivery.

Rule 1: it is begun only on the gateway's loop, where nothing can come between the last look and
the beginning; what is queued behind a person all the same is taken back at once. Rule 2: a person
may interrupt it; we interrupt nobody: only our own stop ends the waiting. Rule 3: the end is what
Hermes says of exactly this turn (watch.py), the delivery what its core says (fate.py); what nobody
says is told so, after a bounded time. Rule 4: whatever ends with this process comes again.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final, NamedTuple

from wakebus.broker.errors import NotNow, NotRunning
from wakebus.plugin.hermes.gateway import conversations as origin
from wakebus.plugin.hermes.gateway import loop_calls as onloop
from wakebus.plugin.hermes.gateway import session_idle as idle
from wakebus.plugin.hermes.gateway.conversations import Origin
from wakebus.plugin.hermes.gateway.delivery_tracker import Fate, Fates
from wakebus.plugin.hermes.shared.bounded_map import Bounded
from wakebus.plugin.hermes.shared.turn_tracker import Watch, Watched
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult

LOOK_S: Final = 0.1
HAND_OVER_S: Final = 30.0  # for a loop that is slow; handle_message itself takes milliseconds
MAX_LEFT: Final = 1000  # sessions whose turn went on without us
SETTLE_S: Final = 5.0  # nothing of ours goes on for so long: it has ended, and nobody said so
DELIVERY_S: Final = 60.0  # from the turn's end to the core's word; its retries take up to 10 s
STOPPING: Final = "this gateway is leaving the bus"
AWAY: Final = "not begun: "


class Unrunnable(Exception):
    """The turn cannot be begun, and not later either; its text says why."""


class Steps(NamedTuple):
    """How often things are looked at, and how long they may take, in seconds."""

    look: float = LOOK_S
    settle: float = SETTLE_S
    delivery: float = DELIVERY_S


class Turning:
    """`hidden`: the true answer of an order (by marker) that the chat does not see."""

    def __init__(
        self,
        runner: Any,
        watch: Watch,
        stop: threading.Event,
        inject: Callable[..., Any] | None = None,
        steps: Steps | None = None,
        granted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._runner, self._watch, self._stop = runner, watch, stop
        self._inject, self._steps, self._granted = inject, steps or Steps(), granted
        self._fates = Fates()
        self.hidden: dict[str, str] = {}
        self.left = Bounded(MAX_LEFT)

    def until_idle(self, found: Origin) -> bool:
        """
        Return once the session is idle: whether it was busy before.

        Raises NotNow when the gateway or the adapter is away, NotRunning at our stop.
        """
        waited = False
        while self._busy(found):
            waited = True
            self._pause()
        return waited

    def _busy(self, found: Origin) -> str:
        adapter = self._adapter(found)
        return idle.busy(self._runner, adapter, idle.keys(adapter, found.source, found.key))

    def _adapter(self, found: Origin) -> Any:
        if self._stop.is_set():
            raise NotRunning(STOPPING)
        if why := idle.away(self._runner):
            raise NotNow(why)
        adapter = origin.adapter_for(self._runner, found.source)
        if adapter is None:
            name = origin.platform_name(getattr(found.source, "platform", None))
            raise NotNow(f"{name} is not connected to the gateway now")
        return adapter

    def _pause(self) -> None:
        if self._stop.wait(self._steps.look):
            raise NotRunning(STOPPING)

    # --- one turn -------------------------------------------------------------------------

    def run(self, order: TurnRequest, found: Origin) -> TurnResult:
        """Run a turn and wait for its end and its delivery. Raises NotNow, NotRunning."""
        with ExitStack() as stack:
            stack.callback(self.hidden.pop, order.marker, None)
            watched = stack.enter_context(self._watch.over(order))
            fate = stack.enter_context(self._fates.over(order.text, origin.token(found.source)))
            outcome: dict[str, Any] = {"session": found.key, "started": time.time()}
            try:
                waited = self._begin(order, found, fate)
            except Unrunnable as exc:
                outcome |= {"error": str(exc), "ended": time.time()}
                return TurnResult("", outcome, began=False)
            outcome |= {"started": time.time(), **self._waited(order, waited)}
            deadline = time.monotonic() + order.timeout if order.timeout else None
            error = self._until_ended(found, watched, fate, deadline)
            outcome["ended"] = time.time()
            if error:
                if watched.began.is_set() and not watched.ended.is_set():
                    hidden = order.jobs[-1].plan.reply in ("sender", "none")
                    self.left.put(watched.session_id, hidden)
                return TurnResult("", outcome | {"error": error}, began=watched.began.is_set())
            return self._judged(order, found, watched, fate, outcome)

    def _waited(self, order: TurnRequest, waited: bool) -> dict[str, Any]:
        arrived = order.jobs[0].arrived
        seconds = time.monotonic() - arrived if arrived else 0.0
        behind = [job.outcome.pop("queued_behind", False) for job in order.jobs]
        told: dict[str, Any] = {"waited_s": round(max(0.0, seconds), 1)}
        return told | ({"queued_behind": True} if waited or any(behind) else {})

    def _begin(self, order: TurnRequest, found: Origin, fate: Fate) -> bool:
        """Hand the turn over to Hermes, once it is nobody else's turn; whether it waited."""
        waited = False
        while self._hand_over(order, found, fate):
            waited = True
            self._pause()
            self.until_idle(found)
        return waited

    def _hand_over(self, order: TurnRequest, found: Origin, fate: Fate) -> str:
        """Return "" when the turn is Hermes's, else what goes on there instead."""
        if not self._granted():  # then it is placed again, as a note
            raise NotNow("the grant for gateway turns was taken away")
        inject = self._inject if origin.by_key(self._runner, found.key) else None

        async def take() -> str:
            return await (self._look(found) if inject else self._take(order, found, fate))

        try:
            why = onloop.call(self._runner, take, HAND_OVER_S)
            # It waits for the loop itself, so not on the loop.
            if inject and not why and inject(order.text, session_key=found.key) is False:
                raise Unrunnable("Hermes refused the turn (inject_message); its log says why")
            return why
        except onloop.LoopGone:
            raise NotNow("the gateway is stopping") from None
        except TimeoutError:
            raise Unrunnable(f"Hermes did not take it within {HAND_OVER_S:g} s") from None
        except (NotNow, NotRunning, Unrunnable):
            raise
        except Exception as exc:
            raise Unrunnable(f"Hermes: {type(exc).__name__}: {exc}"[:300]) from exc

    async def _look(self, found: Origin) -> str:
        """Return what goes on there, "" for nothing; a person may have lost the right."""
        adapter = self._adapter(found)
        if why := self._busy(found):
            return why
        if not found.owner and not origin.authorized(self._runner, found.source):
            who = getattr(found.source, "user_id", None) or "who wrote there"
            raise Unrunnable(f"{who} may no longer talk to this agent")
        self._fates.listen(adapter)
        return ""

    async def _take(self, order: TurnRequest, found: Origin, fate: Fate) -> str:
        """Let Hermes take it, if nothing goes on there: nothing comes in between."""
        if why := await self._look(found):
            return why
        adapter = self._adapter(found)
        event = fate.event = _event(order.text, found.source)
        await adapter.handle_message(event)
        return _taken_back(adapter, event)

    # --- its end --------------------------------------------------------------------------

    def _until_ended(
        self, found: Origin, watched: Watched, fate: Fate, deadline: float | None
    ) -> str:
        """Return "" when Hermes said that the turn ended, else what is wrong."""
        quiet = time.monotonic()
        while not watched.ended.wait(self._steps.look):
            if self._stop.is_set():
                raise NotRunning(STOPPING)
            if deadline is not None and time.monotonic() > deadline:
                return "the time limit is over; the turn goes on in Hermes"
            if not fate.done.is_set() and self._goes_on(found):
                quiet = time.monotonic()
            elif time.monotonic() - quiet > self._steps.settle:
                return self._unsaid(watched)
        return ""

    def _unsaid(self, watched: Watched) -> str:
        if watched.began.is_set():
            return "the turn failed: Hermes did not say how it ended (agent.log may)"
        if why := idle.away(self._runner):
            raise NotNow(f"{AWAY}{why}")
        return "Hermes did not begin the turn (gateway.log says why)"

    def _goes_on(self, found: Origin) -> bool:
        try:
            return bool(self._busy(found))
        except NotNow:  # it drains or reconnects; the turn may go on all the same
            return found.key in (getattr(self._runner, "_running_agents", None) or {})

    def _judged(
        self,
        order: TurnRequest,
        found: Origin,
        watched: Watched,
        fate: Fate,
        outcome: dict[str, Any],
    ) -> TurnResult:
        if watched.interrupted:
            if self._stop.is_set() or idle.away(self._runner):
                raise NotRunning(STOPPING)
            error = "a person interrupted the turn; its text stays in the session's history"
            return TurnResult("", outcome | {"interrupted": True, "error": error})
        hidden = self.hidden.get(order.marker)
        answer = (watched.answer if hidden is None else hidden).strip()
        well = watched.completed
        if not answer:
            return TurnResult("", outcome | {"error": "no answer"}, well=well)
        outcome["characters"] = len(answer)
        if watched.steered:
            outcome["steered"] = True
        if not well:
            outcome["error"] = "the turn was not completed (agent.log says why)"
        if hidden is not None:
            return TurnResult(answer, outcome | {"hidden": True}, well=well)
        if is_silent(answer):  # then nobody is told anything, on purpose
            return TurnResult("", outcome | {"silent": True}, well=well)
        return TurnResult(answer, outcome, well=well, shown=self._delivered(found, fate))

    def _delivered(self, found: Origin, fate: Fate) -> Told:
        until = time.monotonic() + self._steps.delivery
        while not fate.done.wait(self._steps.look):
            if self._stop.is_set() or time.monotonic() > until:
                break
        shown: Told = {"to": origin.token(found.source), "at": time.time()}
        if fate.result == "success":
            return {"result": "answered", **shown}
        reason = "the platform did not take the answer (gateway.log says why)"
        if fate.result == "cancelled":
            reason = "Hermes stopped while it was delivered"
        if not fate.result:
            reason = "Hermes has not said whether the platform took the answer"
        # Hermes keeps what failed and sends it again when it starts (gateway/delivery_ledger.py):
        # so a second way would say it twice.
        return {"result": "uncertain", "reason": reason, **shown}


def _event(text: str, source: Any) -> Any:
    """Return Hermes's MessageEvent for a turn of ours (gateway/platforms/base.py:1759)."""
    base = sys.modules["gateway.platforms.base"]
    return base.MessageEvent(
        text=text,
        message_type=base.MessageType.TEXT,
        source=replace(source, message_id=None),
        internal=True,
    )


def _taken_back(adapter: Any, event: Any) -> str:
    """Undo what handle_message queued: a person came in between while it awaited (base.py:4776)."""
    waiting: dict[str, Any] = getattr(adapter, "_pending_messages", None) or {}
    for key, queued in list(waiting.items()):
        if queued is event:
            del waiting[key]
            return "a person's turn came in between"
    return ""


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


def streams(runner: Any, platform: str, modules: Mapping[str, Any] = sys.modules) -> bool:
    """Return whether answers are shown while they are written (gateway/run.py:19977)."""
    own = getattr(getattr(runner, "config", None), "streaming", None)
    overall = bool(getattr(own, "enabled", False)) and getattr(own, "transport", "") != "off"
    resolve = getattr(modules.get("gateway.display_config"), "resolve_display_setting", None)
    load = getattr(modules.get("gateway.run"), "_load_gateway_config", None)
    try:
        said = resolve(load(), platform, "streaming")  # type: ignore[misc]
    except Exception:  # not loaded, or another Hermes
        said = None
    return overall or said is True
