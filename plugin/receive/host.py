"""
What an endpoint's receiver is part of: a terminal, a command-line agent, an agent's own process.

Rule 1: pure: a protocol and the values that pass through it. Rule 2: a host says where a text
belongs and runs turns; what a message does, what is kept and what the broker is told is
dispatch.py's alone. Rule 3: what cannot be done now raises NotNow and comes again; what never can
is a Refusal.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from wakebus.broker import Delivery, Later, Refusal
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules import model
from wakebus.plugin.rules.match import Plan

Told = dict[str, Any]
"""A channel result: `result` (sent, queued, answered, not_sent, uncertain, rejected), `at` (Unix
seconds), `id`, `to` or `reason`."""


class TurnRequest(NamedTuple):
    """
    One turn to be run: `text` is the labelled prompt, for `jobs` of `session`, the newest last.

    `marker`: 24 random hex digits that stand in `text` and nowhere else. `token` proves sends from
    inside. `cancel.asked` once a message interrupts or the receiver stops. `timeout`: seconds, None
    for the host's own.
    """

    session: str
    jobs: Sequence[Job]
    text: str
    marker: str
    token: str
    cancel: Cancel
    timeout: float | None = None

    @property
    def cancelled(self) -> bool:
        """Whether all its messages were cancelled: nobody wants this turn."""
        return all(job.cancelled for job in self.jobs)

    @property
    def delivery(self) -> Delivery:
        """The newest message: the one that is answered."""
        return self.jobs[-1].delivery


class TurnResult(NamedTuple):
    """
    How a turn ended. `answer`: what to say, "" for nothing. `outcome`: for the broker; with an
    `error` the turn failed, if it was not cut off.

    `began`: the agent was there to see the prompt; `cut_off`: and was ended by `cancel`; `well`:
    what it had in its prompt counts as seen. `mute`: its only error is that it said nothing.
    `shown`: where the host itself has shown the answer, or its own words about the failure.
    `doubt`: it was handed over and did not begin, and may still be run: `shown` is `uncertain`.
    """

    answer: str
    outcome: dict[str, Any]
    began: bool = True
    cut_off: bool = False
    well: bool = False
    mute: bool = False
    shown: Told | None = None
    doubt: bool = False


class Host(Protocol):
    """What dispatch.py needs of where it runs. Its methods are called by many threads."""

    @property
    def kind(self) -> model.HostKind:
        """Which defaults of rules are in force."""

    @property
    def at_once(self) -> int:
        """How many sessions may have a turn at the same time."""

    @property
    def prompt_limit(self) -> int | None:
        """Bytes of a prompt that the agent can take, None for any number."""

    def place(self, delivery: Delivery, plan: Plan) -> Plan | Later | Refusal:
        """
        Return the plan with the session as the host knows it (and a `note`, where it must do less
        than the rule says), or why that cannot be done now, or never. Nothing is done yet.
        """

    def show(self, delivery: Delivery, text: str, what: str = "print") -> Told:
        """
        Show a line in the chat of the message's channel, one of each `what`. `not_sent`: not there,
        by no way; NotNow: it can be tried again. Raises NotRunning, Fenced.
        """

    def ready(self, session: str, job: Job, cancel: Cancel) -> None:
        """Return when a turn of `session` may begin; raises NotNow (then it comes again)."""

    def turn(self, order: TurnRequest) -> TurnResult:
        """Run a turn and wait for its end. Raises NotNow when it could not begin."""

    def answer(self, order: TurnRequest, turn: TurnResult) -> dict[str, Told]:
        """
        See that `turn.answer` goes where the newest message's plan says; return what the outcome
        tells of it: `answer`, `channel`, or `unsent`. Raises NotRunning, Fenced.
        """


def begins_turn(delivery: Delivery, plan: Plan) -> bool:
    """Whether the plan begins a turn: not where work had started before and the rule says so."""
    return plan.context and plan.wake == "immediate" and when_again(delivery, plan) == "turn"


def when_again(delivery: Delivery, plan: Plan) -> model.OnRedelivery:
    """Return what is to be done, where work on the message had started before."""
    return plan.rule.on_redelivery if plan.rule and delivery.started_before else "turn"
