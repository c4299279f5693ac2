"""What the gateway's hooks tell becomes events, and never the gateway's trouble."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fakes.broker import Broker, until
from wakebus.broker import Client
from wakebus.broker.protocol.topics import check_topic
from wakebus.plugin.hermes import gateway_events
from wakebus.plugin.hermes.gateway_events import Outbox, fields_of, handle, topic_of

KEY = "agent:main:mattermost:channel:grp1:u1"
# As gateway/slash_commands.py:233 and gateway/run.py:10780 of hermes-agent 0.19.0 give them.
RESET = {"platform": "mattermost", "user_id": "u1", "session_key": KEY}
COMMAND = {
    "platform": "mattermost",
    "user_id": "u1",
    "command": "model",
    "raw_command": "model",
    "args": "a secret",
    "raw_args": "a secret",
}


@pytest.mark.parametrize(
    ("event_type", "topic"),
    [
        ("gateway:startup", "gateway.startup"),
        ("session:reset", "gateway.session.reset"),
        ("command:new", "gateway.command.new"),
        ("command:a.b/ö", "gateway.command.a_b__"),
        ("command:" + "x" * 100, "gateway.command." + "x" * 64),
        ("command:", "gateway.command._"),
        ("odd", "gateway.odd._"),
    ],
)
def test_topics(event_type: str, topic: str) -> None:
    """Any name of a hook event is a topic that the wire takes, below `gateway`."""
    assert topic_of(event_type) == check_topic(topic)


def test_fields() -> None:
    """Where and which; who and what was said stays in the gateway."""
    assert fields_of(RESET) == {"platform": "mattermost", "session": KEY}
    assert fields_of(COMMAND) == {"platform": "mattermost", "command": "model"}
    assert fields_of({"platforms": ["ntfy", "feishu"]}) == {"platforms": ["ntfy", "feishu"]}
    assert "a secret" not in str(fields_of({**COMMAND, "message": "a secret"}))


def test_fields_are_small_and_plain() -> None:
    """Whatever the context holds."""
    odd = {"platform": "\ud800" * 9000, "session_key": 7, "command": None, "platforms": [object()]}
    found = fields_of(odd)
    assert found["platform"] == "?" * 512 and set(found) == {"platform", "platforms"}
    assert len(fields_of({"platforms": ["x"] * 500})["platforms"]) == 64


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The plugin's runtime as this process has it: on no bus yet."""
    found = SimpleNamespace(client=None)
    module: Any = ModuleType("runtime")
    module.client_of = lambda home: found.client
    monkeypatch.setitem(sys.modules, "wakebus.plugin.hermes.runtime", module)
    monkeypatch.setattr(gateway_events, "_outbox", Outbox(gateway_events.plugin_client))
    yield found


def test_they_arrive(shared_broker: Broker, plugin: SimpleNamespace) -> None:
    """Also what happened before the plugin was on the bus, in order and with its own time."""
    seen: list[Any] = []
    with Client(shared_broker.address) as hears, Client(shared_broker.address) as says:
        with hears.subscribe("gateway.**", seen.append):
            handle("gateway:startup", {"platforms": ["mattermost"]})
            handle("session:reset", RESET)
            plugin.client = says
            until(lambda: len(seen) >= 2)
    assert [one.topic for one in seen] == ["gateway.startup", "gateway.session.reset"]
    assert seen[0].envelope["platforms"] == ["mattermost"] and seen[1].envelope["session"] == KEY
    assert seen[0].envelope["type"] == "gateway.startup"
    assert seen[0].envelope["ts"] <= seen[1].envelope["ts"]


def test_where_the_plugin_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept, no thread begins."""
    monkeypatch.delitem(sys.modules, "wakebus.plugin.hermes.runtime", raising=False)
    monkeypatch.setattr(gateway_events, "_outbox", Outbox(gateway_events.plugin_client))
    before = threading.active_count()
    handle("gateway:startup", {})
    assert threading.active_count() == before


def test_it_never_raises_and_says_nothing(plugin: SimpleNamespace) -> None:
    """A returned dict would be a decision about the user's slash command."""
    odd: list[Any] = [None, 7, [], {"platforms": 7}]
    assert [handle("command:new", one) for one in odd] == [None] * 4  # type: ignore[func-returns-value]
    assert handle(None, {}) is None  # type: ignore[arg-type, func-returns-value]


def test_a_full_outbox_drops(plugin: SimpleNamespace) -> None:
    """While the bus is away, 256 wait; the gateway never does."""
    for _ in range(1000):
        handle("command:new", COMMAND)
    assert gateway_events._outbox._waiting.qsize() <= gateway_events.MAX_WAITING


def test_what_fails_is_over(shared_broker: Broker) -> None:
    """An event that cannot be published takes nothing else with it."""
    seen: list[Any] = []
    with Client(shared_broker.address) as hears, Client(shared_broker.address) as says:
        clients: list[Any] = [SimpleNamespace(), says]
        box = Outbox(lambda home: clients.pop(0) if len(clients) > 1 else clients[0])
        with hears.subscribe("gateway.after.*", seen.append):
            box.put("gateway.after.one", {})
            box.put("gateway.after.two", {})
            until(lambda: seen)
    assert [one.topic for one in seen] == ["gateway.after.two"]
