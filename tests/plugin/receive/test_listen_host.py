"""The host of `wakebus listen`."""

import threading
from collections.abc import Callable

import pytest

from fakes.host import deliver
from wakebus.broker import Client
from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive.agent_process import MAX_ARGUMENT
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import Host, TurnRequest
from wakebus.plugin.receive.listen_host import Listener
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Rules

MakeMessage = Callable[..., Message]


def listener(command: str | None) -> Host:
    answers = Answers(Client("ipc:///nowhere"), "lead", threading.Event())
    return Listener("lead", answers, command, {"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("command", "kind", "limit"),
    [(None, "terminal", None), ("cat", "agent", None), ("hermes chat -q", "agent", MAX_ARGUMENT)],
)
def test_its_kind(command: str | None, kind: str, limit: int | None) -> None:
    """With an agent there are turns; how long a prompt may be depends on the agent."""
    host = listener(command)
    assert (host.kind, host.prompt_limit) == (kind, limit)


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
