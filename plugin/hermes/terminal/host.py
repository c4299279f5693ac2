"""
The host in an interactive Hermes CLI: turns between the person's own (HERMES.md section 4).

Rule 1: a CLI is one session, whatever a message calls it; another session's messages are refused.
Rule 2: a turn waits until the CLI rests, and is a prompt of its own after what the person typed.
Rule 3: only a rule with `interrupt` ends the person's turn. A turn is run by prompt_turns.py.
"""

import threading

from wakebus.broker import Delivery, Refusal
from wakebus.plugin.hermes.host_api.protocol import TerminalApi
from wakebus.plugin.hermes.shared.prompt_turns import PromptTurns, answer_seen, raise_if_paused
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.hermes.terminal.console import without_pastes
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules import model
from wakebus.plugin.rules.match import Plan, is_notice


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
        self._turns = PromptTurns(tracker, stop, "the terminal")

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
        raise_if_paused()
        if not job.interrupts:
            self._turns.until_idle(self._hermes, cancel, waits=job.delivery.wait_because)
        self._turns.raise_if_cut(cancel)

    def turn(self, order: TurnRequest) -> TurnResult:
        """Hand the prompt over, and wait for the end of its turn."""
        interrupts = any(job.interrupts for job in order.jobs)
        text = without_pastes(order.text)
        return self._turns.run(order, self._hermes, text, interrupts=interrupts)

    def answer(self, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
        """The person has seen it; it also goes where the plan says."""
        return answer_seen(self._answers, order, turn)
