"""
A rule and a set of rules, as values.

Rule 1: pure and frozen; what a YAML file may say is schema.py, what a rule does is match.py.
Rule 2: a field that a rule does not set is None or its default, never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from wakebus.plugin.rules.errors import Problem

Wake = Literal["immediate", "next_turn", "silent"]
Reply = Literal["sender", "channel", "home", "both", "none"]
OnRedelivery = Literal["turn", "context", "skip"]
Print = Literal[False, True, "always"]
HostKind = Literal["agent", "terminal", "gateway", "cli"]
"""Where: `listen --agent`, plain `listen`, a chat gateway, an agent's own terminal."""

WAKES: Final[tuple[Wake, ...]] = get_args(Wake)
REPLIES: Final[tuple[Reply, ...]] = get_args(Reply)
ON_REDELIVERY: Final[tuple[OnRedelivery, ...]] = get_args(OnRedelivery)

# Types that wait for the next turn, where neither rule nor sender says otherwise.
WAITING_TYPES: Final = frozenset({"ack", "progress", "task_start", "answer"})
COMMAND_TIMEOUT_S: Final = 60.0
RETRY_AFTER_S: Final = 30.0
PLAIN: Final = "{text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """Who is told of a failure: the chat by one line, the sender by a notice."""

    chat: bool = True
    sender: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of `callbacks`. `match_*` None: not stated; all that are stated must hold."""

    match_type: tuple[str, ...] | None = None
    match_from: tuple[str, ...] | None = None
    match_channel: tuple[str, ...] | None = None
    match_topic: tuple[str, ...] | None = None
    match_text: tuple[str, ...] | None = None
    print: Print = False
    print_format: str = PLAIN
    context: bool = False
    context_format: str = PLAIN
    command: str | None = None
    wake: Wake | None = None
    reply: Reply | None = None
    coalesce_ms: int = 0
    interrupt: bool = False
    on_redelivery: OnRedelivery = "turn"
    timeout_s: float | None = None
    on_failure: OnFailure = OnFailure()
    retries: int = 0
    retry_after: float = RETRY_AFTER_S
    env: tuple[str, ...] = ()
    where: str = ""
    number: int = 0

    @property
    def label(self) -> str:
        """How outcomes and traces name this rule: `3: task_done`."""
        stated = (self.match_type, self.match_topic, self.match_from, self.match_channel)
        match = next(filter(None, (*stated, self.match_text)), ())
        return f"{self.number}: {', '.join(match)}"[:120]

    @property
    def can_fail(self) -> bool:
        """Whether it has a command, or may begin a turn."""
        waits = self.match_type is not None and WAITING_TYPES.issuperset(self.match_type)
        wake = self.wake or ("next_turn" if waits else "immediate")
        return self.command is not None or (self.context and wake == "immediate")

    @property
    def command_timeout_s(self) -> float:
        """Seconds that the rule's command may take."""
        return COMMAND_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    @property
    def turn_timeout_s(self) -> float | None:
        """
        Seconds that a turn of this rule may take, or None for the host's default.

        Beside a command, `timeout_s` is the command's: five seconds for a sound must not end
        a turn.
        """
        return self.timeout_s if self.command is None else None


@dataclass(frozen=True, slots=True)
class Role:
    """What a tmux session is called as a sender, and its colour (`bold_cyan`)."""

    name: str
    color: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """One loaded rules file. `source`: its path, or `default rules`."""

    callbacks: tuple[Rule, ...] = ()
    endpoint: str | None = None
    role_map: Mapping[str, Role] = field(default_factory=dict)
    default_sender: str | None = None
    source: str = ""
    warnings: tuple[Problem, ...] = ()
