"""
Which rule a message meets, and what then happens to it.

Rule 1: pure. Rule 2: top down, the first rule of which every stated `match_*` holds. Rule 3: the
receiver's rules decide; a sender may only ask to disturb less. Rule 4: `plan` is the one place
where a rule becomes actions; `wakebus rules test` shows exactly this.
"""

from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from wakebus.broker.protocol import topics
from wakebus.broker.protocol.message import Message
from wakebus.plugin.rules import text_search
from wakebus.plugin.rules.model import (
    PLAIN,
    WAITING_TYPES,
    WAKES,
    HostKind,
    OnFailure,
    Reply,
    Rule,
    Rules,
    Wake,
)

ANY: Final = "*"
SLOW: Final = "rule {}: match_text took too long for this text, and counts as no match"
MOST_SLOW: Final = 5  # rules that may need too long for one message
UNMATCHED: Final = "{from}: {text}"
_SILENT: Final = frozenset({"ack", "progress", "answer"})


class Plan(NamedTuple):
    """
    What a message does at this host.

    `prints`: `no`, `terminal` (there only) or `channel` (the chat if the message names one it can
    reach, else the terminal). `context`: the text goes to the model, when `wake` says. `note`: why
    the host does less than the rule says.
    """

    rule: Rule | None
    prints: Literal["no", "terminal", "channel"]
    print_format: str
    context: bool
    context_format: str
    wake: Wake
    session: str
    reply: Reply
    command: str | None
    note: str = ""

    @property
    def rule_label(self) -> str:
        """`3: task_done`, or `none`."""
        return self.rule.label if self.rule else "none"

    @property
    def on_failure(self) -> OnFailure:
        """Who is told of a failure."""
        return self.rule.on_failure if self.rule else OnFailure()


def first_match(rules: Rules, message: Message, topic: str = "") -> Rule | None:
    """Return the first rule that matches, or None. `topic`: of an event, "" for a message."""
    return _first_match(rules, message, topic)[0]


def _first_match(rules: Rules, message: Message, topic: str) -> tuple[Rule | None, str]:
    """Return the first rule that matches, and which ones needed too long to say it."""
    slow: list[str] = []
    for rule in rules.callbacks:
        try:
            if matches(rule, message, topic):
                return rule, "; ".join(slow)
        except text_search.TooSlow:
            slow.append(f"{SLOW.format(rule.number)}")
        if len(slow) == MOST_SLOW:
            return None, f"{'; '.join(slow)}; no other rule was tried"
    return None, "; ".join(slow)


def matches(rule: Rule, message: Message, topic: str = "") -> bool:
    """
    Return whether every stated `match_*` holds. A rule for topics matches events only.

    Raises text_search.TooSlow.
    """
    return (
        _topic(rule, topic)
        and (rule.match_type is None or bool({ANY, message.type} & {*rule.match_type}))
        and (rule.match_from is None or _glob(message.sender, rule.match_from))
        and (rule.match_channel is None or _glob(message.channel, rule.match_channel))
        and (rule.match_text is None or text_search.finds(rule.match_text, message.text))
    )


def _topic(rule: Rule, topic: str) -> bool:
    if rule.match_topic is None or not topic:
        return rule.match_topic is None and not topic
    return any(topics.matches(pattern, topic) for pattern in rule.match_topic)


def _glob(value: str, patterns: tuple[str, ...]) -> bool:
    # `*` means any channel, so a message without one does not match it; "" asks for none.
    return any(fnmatchcase(value, p) if value else not p for p in patterns)


def effective_wake(rule: Rule | None, message: Message, host: HostKind) -> Wake:
    """Return how much the message disturbs: the rule, else its type; the sender may lower it."""
    wake = rule.wake if rule and rule.wake else _default_wake(rule, message, host)
    asked = [w for w in WAKES if w == message.wake]
    return max([wake, *asked], key=WAKES.index)


def _default_wake(rule: Rule | None, message: Message, host: HostKind) -> Wake:
    if rule is None and host == "agent":
        return "immediate"
    # In a gateway a text without a chat has nobody whose conversation it could begin.
    nowhere = host == "gateway" and not message.channel and not (rule and rule.reply == "home")
    return "next_turn" if message.type in WAITING_TYPES or nowhere else "immediate"


def is_notice(message: Message) -> bool:
    """Whether the broker tells here of what became of a message; nobody else sends as it."""
    return (message.sender, message.type) == ("bus", "notice")


def session_of(message: Message) -> str:
    """Return the session at the receiver; "" is the endpoint's default. Never by sender."""
    return message.session or message.channel


def effective_reply(
    rule: Rule | None, message: Message, host: HostKind, *, sender_known: bool, asks: bool
) -> Reply:
    """
    Return where a turn's answer goes: the rule, else the host's default.

    `sender_known`: the sender is an endpoint. `asks`: it waits for the answer. Without anybody to
    answer and without a channel, it is `none`.
    """
    if rule and rule.reply:
        return rule.reply
    if host == "gateway":
        return "both" if asks else "channel"
    if host == "terminal" or message.type in _SILENT:
        return "none"
    if asks:  # who waits also said for which chat it is
        return "both" if message.channel else "sender"
    if sender_known and not _reports(message.type):
        return "sender"
    return "channel" if message.channel else "none"


def _reports(type_: str) -> bool:
    return type_.startswith("task_") or type_ == "plan_ready"


def plan(
    rules: Rules,
    message: Message,
    host: HostKind,
    *,
    sender_known: bool = False,
    asks: bool = False,
    topic: str = "",
) -> Plan:
    """
    Return what `message` does at `host`; a terminal has no model, so context is printed.

    `topic`: of the event that the message stands for, "" where it stands for none.
    """
    rule, slow = _first_match(rules, message, topic)
    context = host != "terminal" and (rule.context if rule else host == "agent")
    return Plan(
        rule=rule,
        prints=_prints(rule, host),
        print_format=_print_format(rule),
        context=context,
        context_format=rule.context_format if rule else PLAIN,
        wake=effective_wake(rule, message, host),
        session=session_of(message),
        reply=effective_reply(rule, message, host, sender_known=sender_known, asks=asks),
        command=rule.command if rule else None,
        note=slow,
    )


def _prints(rule: Rule | None, host: HostKind) -> Literal["no", "terminal", "channel"]:
    if rule is None:
        # A gateway's terminal is a log that nobody reads.
        return "channel" if host == "gateway" else "terminal"
    if rule.print == "always":
        return "terminal"
    if rule.context:
        return "terminal" if host == "terminal" else "no"
    return "channel" if rule.print else "no"


def _print_format(rule: Rule | None) -> str:
    if rule is None:
        return UNMATCHED
    # A context rule on a terminal without a model: its context text is what there is to show.
    return rule.context_format if rule.context and not rule.print else rule.print_format
