"""Which rule, and what it does."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from wakebus.broker.protocol.message import Message
from wakebus.plugin.rules.load import default_rules
from wakebus.plugin.rules.match import (
    effective_reply,
    effective_wake,
    first_match,
    plan,
    session_of,
)
from wakebus.plugin.rules.model import WAKES, HostKind, Reply, Rule, Rules, Wake

MakeMessage = Callable[..., Message]


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        (Rule(match_type=("ack",)), True),
        (Rule(match_type=("ac*",)), False),
        (Rule(match_type=("Ack",)), False),
        (Rule(match_type=("x", "ack")), True),
        (Rule(match_type=("*",)), True),
        (Rule(match_from=("worker-*",)), True),
        (Rule(match_from=("WORKER-*",)), False),
        (Rule(match_from=("worker-[bc]",)), False),
        (Rule(match_channel=("feishu:*",)), True),
        (Rule(match_channel=("weixin:*", "feishu:oc_?")), True),
        (Rule(match_channel=("",)), False),
        (Rule(match_type=("ack",), match_from=("other",)), False),
        (Rule(match_type=("*",), match_topic=("gateway.**",)), False),
    ],
)
def test_matches(make: MakeMessage, rule: Rule, hit: bool) -> None:
    """RULES-2.1, RULES-2.2: types exactly, globs by case; every stated match must hold."""
    message = make(type="ack", sender="worker-a", channel="feishu:oc_1")
    assert (first_match(Rules(callbacks=(rule,)), message) is rule) == hit


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        (Rule(match_topic=("ci.*.failed",)), True),
        (Rule(match_topic=("x", "ci.**")), True),
        (Rule(match_topic=("ci",)), False),
        (Rule(match_topic=("**",), match_type=("red",)), True),
        (Rule(match_topic=("**",), match_from=("cd",)), False),
        (Rule(match_type=("*",)), False),
    ],
)
def test_events_meet_the_rules_for_topics_only(make: MakeMessage, rule: Rule, hit: bool) -> None:
    """RULES-2.5: and all else that the rule states must hold of the event."""
    event = make(type="red", sender="ci")
    assert (first_match(Rules(callbacks=(rule,)), event, "ci.build.failed") is rule) == hit


def test_no_type_and_no_channel(make: MakeMessage) -> None:
    """RULES-2.1, RULES-2.3: `""` asks for none; `"*"` is no type too, but never no channel."""
    for rule, hit in [
        (Rule(match_type=("",)), True),
        (Rule(match_type=("*",)), True),
        (Rule(match_channel=("",)), True),
        (Rule(match_channel=("*",)), False),
    ]:
        assert (first_match(Rules(callbacks=(rule,)), make()) is rule) == hit


def test_the_first_rule_wins(make: MakeMessage) -> None:
    """RULES-1.1: later rules do nothing, even if they match better."""
    rules = Rules(callbacks=(Rule(match_type=("*",), number=1), Rule(match_type=("a",), number=2)))
    found = first_match(rules, make(type="a"))
    assert found is not None and found.number == 1


IMMEDIATE = ("directive", "task_complete", "task_done", "plan_ready", "task_error", "need_decision")
WAITING = ("ack", "progress", "task_start", "answer")


@pytest.mark.parametrize(
    ("type_", "wake"),
    [*product((*IMMEDIATE, "", "deploy"), ["immediate"]), *product(WAITING, ["next_turn"])],
)
def test_wake_by_type(make: MakeMessage, type_: str, wake: Wake) -> None:
    """RULES-3.3: reports wait, tasks start a turn; a rule's own word counts more."""
    message = make(type=type_)
    assert effective_wake(Rule(context=True), message, "agent") == wake
    assert effective_wake(Rule(context=True, wake="silent"), message, "agent") == "silent"
    assert effective_wake(Rule(context=True, wake="immediate"), message, "agent") == "immediate"
    assert effective_wake(Rule(context=True), message, "gateway") == "next_turn"


@pytest.mark.parametrize(("rule", "asked"), [*product(WAKES, WAKES)])
def test_the_sender_may_only_lower(make: MakeMessage, rule: Wake, asked: Wake) -> None:
    """RULES-3.4: immediate > next_turn > silent."""
    expected = WAKES[max(WAKES.index(rule), WAKES.index(asked))]
    assert effective_wake(Rule(wake=rule), make(wake=asked), "agent") == expected


def test_the_session_never_comes_from_the_sender(make: MakeMessage) -> None:
    """RULES-3.5: session, else channel, else the default session."""
    assert session_of(make(session="s", channel="feishu:1")) == "s"
    assert session_of(make(channel="feishu:1")) == "feishu:1"
    assert session_of(make()) == ""


@pytest.mark.parametrize(
    ("type_", "known", "asks", "channel", "reply"),
    [
        ("directive", True, False, "c:1", "sender"),
        ("directive", False, True, "c:1", "both"),
        ("directive", True, True, "c:1", "both"),
        ("directive", False, True, "", "sender"),
        ("directive", False, False, "c:1", "channel"),
        ("directive", False, False, "", "none"),
        ("need_decision", True, False, "", "sender"),
        ("", True, False, "", "sender"),
        ("deploy", True, False, "c:1", "sender"),
        ("task_done", True, False, "c:1", "channel"),
        ("task_done", True, False, "", "none"),
        ("task_done", True, True, "", "sender"),
        ("task_done", False, True, "c:1", "both"),
        ("task_error", True, False, "c:1", "channel"),
        ("plan_ready", True, False, "c:1", "channel"),
        ("ack", True, True, "c:1", "none"),
        ("progress", True, False, "c:1", "none"),
        ("answer", True, False, "c:1", "none"),
    ],
)
def test_reply_of_an_agent(
    make: MakeMessage, type_: str, known: bool, asks: bool, channel: str, reply: Reply
) -> None:
    """RULES-3.6: workers answer the lead; the lead's word on a finished task goes to the chat."""
    message = make(type=type_, channel=channel)
    asked = effective_reply(None, message, "agent", sender_known=known, asks=asks)
    assert asked == reply
    rule = Rule(reply="both")
    assert effective_reply(rule, message, "agent", sender_known=known, asks=asks) == "both"


def test_reply_elsewhere(make: MakeMessage) -> None:
    """RULES-3.6: a gateway answers its chat, and who waits; an agent's terminal as an agent."""
    found = {
        (host, asks): effective_reply(
            None, make(type="directive"), host, sender_known=True, asks=asks
        )
        for host in get_args(HostKind)
        for asks in (False, True)
    }
    assert found == {
        ("agent", False): "sender",
        ("agent", True): "sender",
        ("cli", False): "sender",
        ("cli", True): "sender",
        ("gateway", False): "channel",
        ("gateway", True): "both",
        ("terminal", False): "none",
        ("terminal", True): "none",
    }


@pytest.mark.parametrize(
    ("channel", "reply", "wake"),
    [
        ("mattermost:dm1", None, "immediate"),
        ("", None, "next_turn"),
        ("", "channel", "next_turn"),
        ("", "home", "immediate"),
    ],
)
def test_wake_in_a_gateway(make: MakeMessage, channel: str, reply: Reply | None, wake: str) -> None:
    """RULES-3.3: without a chat nobody's conversation is begun, unless the rule says whose."""
    rule = Rule(context=True, reply=reply)
    assert effective_wake(rule, make(type="directive", channel=channel), "gateway") == wake


def test_no_rule(make: MakeMessage) -> None:
    """RULES-1.4: printed; an agent starts a turn as well, whatever the type."""
    hosts: list[tuple[HostKind, str, bool]] = [
        ("terminal", "terminal", False),
        ("agent", "terminal", True),
        ("cli", "terminal", False),
        ("gateway", "channel", False),
    ]
    for host, prints, context in hosts:
        found = plan(Rules(), make(type="progress", channel="c:1"), host)
        assert (found.rule_label, found.prints, found.context) == ("none", prints, context)
    assert plan(Rules(), make(type="progress"), "agent").wake == "immediate"
    assert plan(Rules(), make(wake="silent"), "agent").wake == "silent"


@pytest.mark.parametrize(
    ("rule", "host", "prints", "context"),
    [
        (Rule(print=True), "agent", "channel", False),
        (Rule(print="always"), "agent", "terminal", False),
        (Rule(print=True, context=True), "agent", "no", True),
        (Rule(print="always", context=True), "agent", "terminal", True),
        (Rule(context=True), "agent", "no", True),
        (Rule(context=True), "terminal", "terminal", False),
        (Rule(command="x"), "agent", "no", False),
    ],
)
def test_print_and_context(
    make: MakeMessage, rule: Rule, host: HostKind, prints: str, context: bool
) -> None:
    """RULES-3.1, RULES-3.2: context silences print; a terminal prints what has no model."""
    rule = replace(rule, match_type=("*",))
    found = plan(Rules(callbacks=(rule,)), make(), host)
    assert (found.prints, found.context, found.command) == (prints, context, rule.command)


def test_a_terminal_shows_the_context_text(make: MakeMessage) -> None:
    """RULES-3.2: in the rule's print format if it prints too, else in its context format."""
    rule = Rule(match_type=("*",), context=True, context_format="C {text}", print_format="P {text}")
    assert plan(Rules(callbacks=(rule,)), make(), "terminal").print_format == "C {text}"
    both = replace(rule, print="always")
    assert plan(Rules(callbacks=(both,)), make(), "terminal").print_format == "P {text}"


def test_the_walk_through_of_the_seed(make: MakeMessage) -> None:
    """RULES-1.2: the default rules do what seed 004's end-to-end example shows."""
    expected: dict[str, tuple[str, bool, Wake, Reply]] = {
        "directive": ("no", True, "immediate", "sender"),
        "ack": ("channel", False, "next_turn", "none"),
        "task_start": ("no", True, "next_turn", "channel"),
        "progress": ("no", True, "next_turn", "none"),
        "task_complete": ("terminal", True, "immediate", "channel"),
        "task_done": ("terminal", True, "immediate", "channel"),
        "plan_ready": ("terminal", True, "immediate", "channel"),
        "task_error": ("terminal", True, "immediate", "channel"),
        "need_decision": ("terminal", True, "immediate", "sender"),
        "answer": ("no", True, "next_turn", "none"),
    }
    for type_, want in expected.items():
        message = make(type=type_, channel="feishu:oc_1")
        found = plan(default_rules(), message, "agent", sender_known=True)
        assert (found.prints, found.context, found.wake, found.reply) == want, type_
