"""
The host of `wakebus listen`: a terminal, with or without a command-line agent.

Rule 1: without an agent there are no turns: match.py gives a terminal no context. Rule 2: sessions
are what messages call them; where the agent can keep conversations, each has one. Rule 3: no agent
is run whose answer surely could not go where the channel says.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial

from wakebus.broker import Delivery, Refusal
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.run import Finished
from wakebus.plugin.receive import agent_process
from wakebus.plugin.receive.agent_conversations import AgentConversations
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import Told, TurnRequest, TurnResult
from wakebus.plugin.receive.turn_queue import AT_ONCE, Job
from wakebus.plugin.rules import model
from wakebus.plugin.rules.match import Plan


class Listener:
    """
    See receive/host.py. `command`: the `--agent` command line, None for a terminal.

    `conversations`: where it has `{session_id}`.
    """

    at_once = AT_ONCE

    def __init__(
        self,
        endpoint: str,
        answers: Answers,
        command: str | None = None,
        environ: Mapping[str, str] = os.environ,
        conversations: AgentConversations | None = None,
    ) -> None:
        self._endpoint, self._answers = endpoint, answers
        self._command, self._environ = command or "", environ
        self._conversations = conversations
        self.kind: model.HostKind = "agent" if command else "terminal"
        self.prompt_limit = agent_process.prompt_limit(self._command)

    def place(self, delivery: Delivery, plan: Plan) -> Plan | Refusal:
        """Sessions are what messages call them; a turn needs a chat that can be reached."""
        return self._answers.if_reachable(delivery, plan)

    def show(self, delivery: Delivery, text: str, what: str = "print") -> Told:
        """Hand the print to the courier."""
        return self._answers.show(delivery, text, what=what)

    def ready(self, session: str, job: Job, cancel: Cancel) -> None:
        """Each turn is a process of its own; a conversation has one at a time."""
        if self._conversations:
            self._conversations.until_free(session, cancel, job.delivery.wait_because)

    def turn(self, order: TurnRequest) -> TurnResult:
        """Run the command once, in its session's conversation."""
        if self._conversations:
            return self._conversations.run(order.session, partial(self._run, order))
        return self._run(order, self._command)

    def _run(
        self,
        order: TurnRequest,
        line: str,
        on_start: Callable[[int], object] = lambda pid: None,
        on_end: Callable[[Finished], object] = lambda done: None,
    ) -> TurnResult:
        return agent_process.run_agent(
            line,
            order.text,
            order.delivery.message,
            self._endpoint,
            order.token,
            timeout=order.timeout or agent_process.TURN_S,
            cancel=order.cancel,
            environ=self._environ,
            on_start=on_start,
            on_end=on_end,
        )

    def answer(self, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
        """Send it to the sender or to the courier, as the plan says."""
        return self._answers.answer(order.delivery, order.jobs[-1].plan.reply, turn.answer)
