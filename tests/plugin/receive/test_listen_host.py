"""The host of `wakebus listen`."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.host import deliver
from wakebus.adapters.courier.preflight import Preflight
from wakebus.broker import Client, Refusal
from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive.agent_process import MAX_ARGUMENT
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import Host, TurnRequest
from wakebus.plugin.receive.listen_host import Listener
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Reply, Rule, Rules

MakeMessage = Callable[..., Message]


def listener(command: str | None) -> Host:
    nowhere = Preflight(Path("/nowhere"))  # no courier has written anything there
    answers = Answers(Client("ipc:///nowhere"), "lead", threading.Event(), nowhere)
    return Listener("lead", answers, command, {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("command", "kind", "limit"),
    [(None, "terminal", None), ("cat", "agent", None), ("hermes chat -q", "agent", MAX_ARGUMENT)],
)
def test_its_kind(command: str | None, kind: str, limit: int | None) -> None:
    """With an agent there are turns; how long a prompt may be depends on the agent."""
    host = listener(command)
    assert (host.kind, host.prompt_limit) == (kind, limit)


def rule(**fields: Any) -> Rule:
    """A rule that begins a turn."""
    return Rule(match_type=("t",), context=True, **fields)


@pytest.mark.parametrize("reply", ["channel", "both", "home"])
@pytest.mark.parametrize("channel", ["nope:1", "nope", "a b", ":x", "console:", "whatsapp:1"])
def test_no_turn_whose_answer_cannot_go_there(
    make: MakeMessage, reply: Reply, channel: str
) -> None:
    """RULES-3.10: refused, naming the channel; also where the sender would have an answer."""
    message = make(type="t", channel=channel)
    chosen = plan(Rules(callbacks=(rule(reply=reply),)), message, "agent")
    placed = listener("cat").place(deliver(message), chosen)
    if (reply, channel) == ("home", "console:"):
        assert placed == chosen, "a home that the courier may have"
    else:
        assert isinstance(placed, Refusal) and placed.reason.startswith("no answer could go to ")


@pytest.mark.parametrize(
    ("fields", "again"),
    [
        ({"reply": "sender"}, False),
        ({"reply": "none"}, False),
        ({"reply": "channel", "wake": "next_turn"}, False),
        ({"reply": "channel", "on_redelivery": "context"}, True),
    ],
)
def test_what_needs_no_chat_is_not_asked_for_one(
    make: MakeMessage, fields: dict[str, Any], again: bool
) -> None:
    """RULES-3.10: an answer that goes elsewhere, and a text that begins no turn."""
    message = make(type="t", channel="nope:1")
    chosen = plan(Rules(callbacks=(rule(**fields),)), message, "agent")
    delivery = deliver(message, started=again)
    assert listener("cat").place(delivery, chosen) == chosen


def test_a_notice_is_never_refused(make: MakeMessage) -> None:
    """RULES-3.10: what the broker tells of a message is read, wherever an answer to it could go."""
    message = make(type="notice", channel="nope:1")._replace(sender="bus")
    chosen = plan(Rules(), message, "agent")
    placed = listener("cat").place(deliver(message), chosen)
    assert placed == chosen._replace(reply="none")


def test_no_channel_is_none_that_is_wrong(make: MakeMessage) -> None:
    """RULES-3.10: the answer is printed in the terminal then."""
    message = make(type="t")
    chosen = plan(Rules(callbacks=(rule(reply="channel"),)), message, "agent")
    assert listener("cat").place(deliver(message), chosen) == chosen


def test_a_turn_runs_the_command(make: MakeMessage) -> None:
    """On the text of the order, with what the message is in its environment."""
    host = listener('echo "$WAKEBUS_ID $WAKEBUS_TOKEN"; cat')
    message = make(id="m1")
    chosen = plan(Rules(), message, "agent")
    delivery = deliver(message)
    assert host.place(delivery, chosen) == chosen
    job = Job(delivery, chosen, PromptItem(message, "text"))
    host.ready("", job, Cancel())
    turn = host.turn(TurnRequest("", [job], "the prompt", "f" * 24, "t0ken", Cancel()))
    assert turn.well and turn.answer == "m1 t0ken\nthe prompt"


def test_its_time_limit(make: MakeMessage) -> None:
    """The order's, where its rule has one."""
    message = make()
    job = Job(deliver(message), plan(Rules(), message, "agent"), PromptItem(message, "text"))
    turn = listener("sleep 60").turn(
        TurnRequest("", [job], "", "f" * 24, "t", Cancel(), timeout=0.2)
    )
    assert "time limit of 0.2 s" in turn.outcome["error"] and not turn.answer
