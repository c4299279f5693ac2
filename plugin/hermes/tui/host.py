"""
The host in the server of the Ink TUI and the desktop: turns in its sessions (HERMES.md section 8).

Rule 1: one process, many sessions: a turn is run in exactly the one that its message is for
(session_choice.py). Rule 2: it waits until that session rests, and interrupts nobody. Rule 3:
Hermes asks for the owner's grant as in a gateway; without it what would start a turn waits for the
session's next one. Rule 4: what waits is kept under the session's key, also under one that it had
before its history was compressed. Rule 5: all memory is bounded.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker import Delivery, Later, Refusal
from wakebus.broker.errors import NotNow
from wakebus.plugin.hermes.host_api.loaded_functions import session_env
from wakebus.plugin.hermes.host_api.protocol import TuiApi, TuiSession
from wakebus.plugin.hermes.shared.bounded_map import BoundedMap
from wakebus.plugin.hermes.shared.prompt_turns import PromptTurns, answer_seen
from wakebus.plugin.hermes.shared.turn_grant import TurnGrant
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.hermes.tui.session_choice import NONE_HERE, NoSession, choose_session
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules import model
from wakebus.plugin.rules.match import Plan, is_notice

log = logging.getLogger("wakebus")

AT_ONCE: Final = 64  # sessions with a turn of ours
MAX_SENT: Final = 10_000  # messages whose answers find their session
AGAIN_S: Final = 3.0  # until what is not there now is looked for again
# A signal makes Hermes interrupt its turns, then close its sessions, within 1 s (entry.py:99).
SETTLE_S: Final = 2.0


class TuiHost:
    """
    See receive/host.py. `hermes`: the live server; `stop` is set when it leaves the bus.

    `granted`: whether the owner lets the bus start turns.
    """

    kind: model.HostKind = "cli"
    at_once = AT_ONCE
    prompt_limit: int | None = None

    def __init__(
        self,
        hermes: TuiApi,
        answers: Answers,
        tracker: TurnTracker,
        granted: TurnGrant,
        stop: threading.Event,
    ) -> None:
        self._hermes, self._answers, self._granted = hermes, answers, granted
        self._turns = PromptTurns(tracker, stop, "the session", SETTLE_S)
        self._sent_from = BoundedMap(MAX_SENT)
        self._spoken = ""
        self._explained = False

    # --- the host -------------------------------------------------------------------------

    def place(self, delivery: Delivery, plan: Plan) -> Plan | Later | Refusal:
        """Return the plan with the key of its session, or why there is none."""
        sessions, message = self._hermes.sessions(), delivery.message
        notice = is_notice(message)
        if not sessions and not notice:  # the last was closed just now: this leaves the bus
            return Later(AGAIN_S, NONE_HERE)
        asked = next(
            (key for id in (message.reply_to, message.cause) if (key := self._sent(id))), ""
        )
        try:
            # A notice names the session of whoever its dead message was for.
            named = "" if notice else message.session or ""
            found = choose_session(sessions, named, asked, self._spoken)
        except NoSession as exc:
            if notice:
                return plan._replace(session="", wake="silent", note=f"kept: {exc}")
            if (plan.context and plan.wake != "silent") or message.session:
                return Refusal(str(exc))
            return plan._replace(session="")  # a print is for all of them
        plan = plan._replace(session=found.key)
        if not plan.context or plan.wake != "immediate":
            return plan
        if not self._granted():
            return self._ungranted(plan)
        if found.away:
            return Later(AGAIN_S, found.away)
        return self._answers.if_reachable(delivery, plan)

    def _ungranted(self, plan: Plan) -> Plan:
        if not self._explained:
            self._explained = True
            how = self._granted.how
            log.warning("turns in the TUI are off; what would start one waits. %s", how)
        return plan._replace(wake="next_turn", note=self._granted.waiting_note)

    def show(self, delivery: Delivery, text: str, what: str = "print") -> Told:
        """Hand the print to the courier."""
        return self._answers.show(delivery, text, what=what)

    def ready(self, session: str, job: Job, cancel: Cancel) -> None:
        """Wait until the session rests. Raises NotNow when it is gone."""
        hermes = self._hermes.conversation(session)
        waits = job.delivery.wait_because
        if self._turns.until_idle(hermes, cancel, lambda: job.cancelled, waits):
            job.outcome["queued_behind"] = True
        self._turns.raise_if_cut(cancel)

    def turn(self, order: TurnRequest) -> TurnResult:
        """Hand the prompt over to the session, and wait for the end of its turn."""
        if not self._granted():  # then it is placed again, as a note
            raise NotNow("the grant for turns was taken away")
        turn = self._turns.run(order, self._hermes.conversation(order.session), order.text)
        behind = [job.outcome.pop("queued_behind", False) for job in order.jobs]
        told = {"queued_behind": True} if any(behind) else {}
        return turn._replace(outcome={**turn.outcome, **told})

    def answer(self, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
        """Who looks at the session has seen it; it also goes where the plan says."""
        return answer_seen(self._answers, order, turn)

    # --- what hooks, tools and /bus tell and ask ------------------------------------------

    def names(self, session_id: str) -> tuple[str, ...]:
        """Return what Hermes's session is, and was, called; none for one that is not ours."""
        found = self._session_of(session_id)
        return found.names if found else ()

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that can be named, for bus_info and /bus."""
        return [
            {"session": one.key, "state": one.away or ("busy" if one.busy else "idle")}
            for one in self._hermes.sessions()
        ]

    def on_other_turn(self, session_id: str) -> None:
        """A turn begins that is not ours (pre_llm_call): a person's, as far as anybody says."""
        if found := self._session_of(session_id):
            self._spoken = found.key

    def remember_sent(self, id: str) -> None:
        """A tool sent message `id` in the session that runs here: its answer belongs there."""
        if key := session_env("KEY"):
            self._sent_from.put(id, key)

    def may_show(self, session_id: str) -> Callable[[str, str], bool]:
        """Return whether a message, by channel and session, is for the session that runs here."""
        names = self.names(session_id) or self.names(session_env("KEY"))

        def may_show(channel: str, session: str) -> bool:
            return not session or session in names

        return may_show

    def _session_of(self, session_id: str) -> TuiSession | None:
        found = (one for one in self._hermes.sessions() if session_id in one.names)
        return next(found, None) if session_id else None

    def _sent(self, id: str | None) -> str:
        return str(self._sent_from.get(id) or "") if id else ""
