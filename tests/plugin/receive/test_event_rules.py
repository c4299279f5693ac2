"""Events that rules ask for: real rules, a real broker, real publishers."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.host import Host, deliver, write_rules
from wakebus.broker import Client
from wakebus.broker.protocol.event import Event
from wakebus.broker.protocol.message import Message, from_wire
from wakebus.plugin.receive import event_rules
from wakebus.plugin.receive.event_rules import (
    RuleSubscriptions,
    concerns,
    message_body,
    type_of,
    unpack,
)

MakeHost = Callable[..., tuple[Host, RuleSubscriptions]]


def event(topic: str = "ci.build.failed", **fields: Any) -> Event:
    stamps = {"type": topic, "ts": 1.5, "src": topic.partition(".")[0]}
    return Event(topic, "0" * 16, 1, {**stamps, **fields})


def own(body: dict[str, Any], sender: str = "lead") -> Message:
    return Message("m1", 1.0, sender, "lead", body)


@pytest.fixture
def make_host(shared_broker: Broker, tmp_path: Path) -> Iterator[MakeHost]:
    """Return a maker of hosts that follow the events of their rules."""
    made: list[Host] = []
    tmp_path.chmod(0o700)

    def make(*callbacks: Any, **fields: Any) -> tuple[Host, RuleSubscriptions]:
        name = f"host-{secrets.token_hex(5)}"
        made.append(Host(shared_broker.address, tmp_path, name, *callbacks, **fields))
        host = made[-1]
        following = RuleSubscriptions(host.client, name, host.rules, lambda text: None)
        following.follow()
        return host, following

    yield make
    for host in made:
        host.close()


@pytest.fixture
def publisher(shared_broker: Broker) -> Iterator[Client]:
    with Client(shared_broker.address) as client:
        yield client


def test_a_record_has_what_the_event_has() -> None:
    """RULES-2.6: type, source, text, channel and session are the event's own."""
    body = message_body(event(text="red", channel="console:ci", branch="main"))
    assert (body["type"], body["topic"], body["src"]) == ("ci.build.failed", *body_ends())
    assert (body["text"], body["channel"]) == ("red", "console:ci")
    assert body["event"]["branch"] == "main"


def body_ends() -> tuple[str, str]:
    return "ci.build.failed", "ci"


@pytest.mark.parametrize(
    ("fields", "text"), [({"n": 3}, '{"n": 3}'), ({"text": 5}, '{"text": 5}'), ({}, "{}")]
)
def test_without_a_text_the_fields_are_it(fields: dict[str, Any], text: str) -> None:
    """RULES-2.6: as JSON, without type, ts and src."""
    assert message_body(event(**fields))["text"] == text


@pytest.mark.parametrize("channel", [5, "", "  ", "c" * 513, None, ["x"]])
def test_what_is_no_channel_is_left_out(channel: object) -> None:
    """A wrong one would cost the whole event."""
    assert "channel" not in message_body(event(channel=channel))


@pytest.mark.parametrize("stated", [None, 5, "", " ", "x" * 129, "a\nb"])
def test_what_is_no_type_becomes_the_topic(stated: object) -> None:
    """And a topic that is longer than a type is cut."""
    assert type_of("a.b", stated) == "a.b"
    assert len(type_of("a" * 60 + ".b" * 90, stated)) == 128


@pytest.mark.parametrize("fields", [{}, {"type": "t" * 300}, {"text": "x" * 60_000}, {"ts": 1e9}])
def test_every_record_is_a_valid_message(fields: dict[str, Any]) -> None:
    """What the broker would refuse is not made."""
    body = message_body(event(**fields))
    wire = {"id": "m", "ts": 1.0, "from": "lead", "to": "lead", "body": body}
    assert from_wire(wire).text == body["text"]


def test_only_our_own_proven_message_stands_for_an_event() -> None:
    """RULES-2.5: a sender that names a topic, or claims to be us, is no event."""
    body = message_body(event())
    delivery = deliver(own(body))
    assert unpack(delivery, "lead") == "ci.build.failed"
    assert delivery.message.sender == "ci", "that is whom a print names"
    assert unpack(deliver(own(body), claimed=True), "lead") == ""
    assert unpack(deliver(own(body, sender="other")), "lead") == ""
    assert unpack(deliver(own({"text": "a message"})), "lead") == ""


def test_what_is_about_ourselves() -> None:
    """RULES-2.8: messages from and to this endpoint, and of any endpoint to itself."""
    assert concerns(event("bus.message.queued", **{"from": "lead", "to": "x"}), "lead")
    assert concerns(event("bus.message.handled", **{"from": "x", "to": "lead"}), "lead")
    assert concerns(event("bus.message.queued", **{"from": "x", "to": "x"}), "lead")
    assert not concerns(event("bus.message.queued", **{"from": "x", "to": "y"}), "lead")
    assert not concerns(event("ci.done", to="lead"), "lead")


def test_an_event_is_printed(make_host: MakeHost, publisher: Client) -> None:
    """RULES-2.5, RULES-2.6: by the rule for its topic; a message of that type is none."""
    form = {"print": "always", "print_format": "{from}/{type}: {text}"}
    host, _ = make_host({"match_topic": "ci.*.failed", **form})
    publisher.publish("ci.lint.passed", {"text": "green"}, confirm=True)
    publisher.publish("ci.lint.failed", {"text": "red"}, confirm=True)
    until(lambda: "ci/ci.lint.failed: red" in host.printed.getvalue())
    assert "green" not in host.printed.getvalue()
    receipt = publisher.send(host.name, "hi", type="ci.lint.failed", wait=10)
    assert (receipt.outcome or {})["rule"] == "none"


def test_an_event_starts_a_turn(make_host: MakeHost, publisher: Client, tmp_path: Path) -> None:
    """RULES-2.6: labelled, acknowledged, and its answer goes to the event's channel."""
    command = 'cat > "$FOLDER/prompt.tmp"; mv "$FOLDER/prompt.tmp" "$FOLDER/prompt"; echo seen'
    make_host({"match_topic": "ci.**", "context": True}, command=command)
    publisher.publish("ci.build.failed", {"text": "tests are red"}, confirm=True)
    until(lambda: (tmp_path / "prompt").exists())
    prompt = (tmp_path / "prompt").read_text()
    assert "from: ci ·" in prompt and "type: ci.build.failed" in prompt
    assert "tests are red" in prompt and "claimed" not in prompt


def test_other_conditions_hold_too(make_host: MakeHost, publisher: Client) -> None:
    """RULES-2.5: source, type and channel of an event are matched as a message's."""
    host, _ = make_host(
        {"match_topic": "**", "match_from": "ci", "match_type": "red", "print": "always"}
    )
    for topic, kind in (("cd.x", "red"), ("ci.x", "green"), ("ci.y", "red")):
        publisher.publish(topic, {"type": kind, "text": f"{topic} {kind}"}, confirm=True)
    until(lambda: "ci.y red" in host.printed.getvalue())
    assert host.printed.getvalue().strip() == "ci.y red"


def test_rules_that_change(make_host: MakeHost, publisher: Client, tmp_path: Path) -> None:
    """RULES-2.5: new patterns are subscribed to, old ones no more."""
    host, following = make_host({"match_topic": "a.**", "print": "always"})
    write_rules(tmp_path, {"match_topic": "b.**", "print": "always"})
    until(lambda: host.rules.current().callbacks[0].match_topic == ("b.**",))
    following.follow()
    publisher.publish("a.x", {"text": "old"}, confirm=True)
    publisher.publish("b.x", {"text": "new"}, confirm=True)
    until(lambda: "new" in host.printed.getvalue())
    assert "old" not in host.printed.getvalue()
    write_rules(tmp_path, {"match_type": "x", "print": True})
    until(lambda: host.rules.current().callbacks[0].match_topic is None)
    following.follow()
    assert event_rules.patterns(host.rules.current()) == ()


def test_nothing_is_lost_or_doubled_while_rules_change(
    make_host: MakeHost, publisher: Client, tmp_path: Path
) -> None:
    """RULES-2.7: what both the old and the new rules want comes once, also where they overlap."""
    host, following = make_host({"match_topic": ["a.**", "a.*"], "print": "always"})
    for n in range(60):
        if n % 10 == 5:
            wanted = ["a.**", f"x{n}.**"] if n % 20 == 5 else ["a.**", "a.*"]
            write_rules(tmp_path, {"match_topic": wanted, "print": "always"})
            until(lambda w=wanted: event_rules.patterns(host.rules.current()) == tuple(sorted(w)))  # type: ignore[misc]
            following.follow()
        publisher.publish("a.b", {"text": f"n{n}"})
    until(lambda: "n59\n" in host.printed.getvalue())
    assert host.printed.getvalue().split() == [f"n{n}" for n in range(60)]


def test_very_many_patterns_are_one_subscription(
    make_host: MakeHost, publisher: Client, tmp_path: Path
) -> None:
    """RULES-2.5: not a socket for each of them; what changes is subscribed to anew."""
    many = {"match_topic": [f"p{n}.*" for n in range(1_000)], "print": "always"}
    host, following = make_host(many)
    (first,) = following._subscriptions
    assert len(first.patterns) == 1_000
    publisher.publish("p999.x", {"text": "one"}, confirm=True)
    until(lambda: "one" in host.printed.getvalue())
    write_rules(tmp_path, many, {"match_topic": "q.*", "print": "always"})
    until(lambda: len(event_rules.patterns(host.rules.current())) == 1_001)
    following.follow()
    assert [one.patterns for one in following._subscriptions] == [first.patterns, ("q.*",)]
    write_rules(tmp_path, {"match_topic": ["p7.*", "q.*"], "print": "always"})
    until(lambda: len(event_rules.patterns(host.rules.current())) == 2)
    following.follow()
    publisher.publish("p999.x", {"text": "two"}, confirm=True)
    publisher.publish("p7.x", {"text": "three"}, confirm=True)
    until(lambda: "three" in host.printed.getvalue())
    assert "two" not in host.printed.getvalue()
    write_rules(tmp_path, {"match_topic": "q.*", "print": "always"})
    until(lambda: len(event_rules.patterns(host.rules.current())) == 1)
    following.follow()
    assert [one.patterns for one in following._subscriptions] == [("q.*",)] and first.closed


def test_what_the_bus_says_of_us_starts_nothing(make_host: MakeHost, publisher: Client) -> None:
    """RULES-2.8: a rule for all message states does not feed itself."""
    host, _ = make_host({"match_topic": "bus.message.**", "print": "always"})
    other = f"other-{secrets.token_hex(4)}"
    publisher.send(host.name, "to us", sender="cli", wait=10)
    publisher.send(other, "to another", sender="cli", queue=True)
    until(lambda: other in host.printed.getvalue())
    assert f'"to": "{host.name}"' not in host.printed.getvalue()


def test_turns_that_start_each_other_by_events(
    make_host: MakeHost, shared_broker: Broker, publisher: Client, tmp_path: Path
) -> None:
    """EVENTS-3.5, PROTOCOL-4.15: one that publishes what starts it has four turns, and is told."""
    rule = {"match_topic": "again.*", "context": True, "coalesce_ms": 0}
    root = shared_broker.env["HERMES_BUS_ROOT"]
    command = f'echo >> "$FOLDER/turns"; HERMES_BUS_ROOT={root} wakebus publish again.x'
    host, following = make_host(rule, command=command)
    publisher.publish("again.first", confirm=True)
    until(lambda: following.lost)
    assert (tmp_path / "turns").read_text().count("\n") == 4
    paused = [one for one in publisher.status()["paused"] if one["from"] == host.name]
    assert [(one["to"], "to itself" in one["reason"]) for one in paused] == [(host.name, True)]
    publisher.publish("again.by_a_person", confirm=True)
    until(lambda: (tmp_path / "turns").read_text().count("\n") == 5)


def test_events_of_others_turns_are_no_loop(make_host: MakeHost, publisher: Client) -> None:
    """EVENTS-3.5, PROTOCOL-4.15: as many as come; what looks like a turn and is none, too."""
    host, following = make_host({"match_topic": "busy.*", "print": "always"})
    turns: list[Any] = [{"id": "m1", "hops": 1, "path": ["other"]}] * 8
    turns += [{"id": "m1", "hops": "many", "path": []}, {"hops": 9, "path": [host.name]}, "left"]
    for turn in turns:
        publisher.publish("busy.x", {"turn": turn}, confirm=True)
    until(lambda: host.printed.getvalue().count("\n") == len(turns))
    assert following.lost == 0


def test_two_endpoints_do_not_feed_each_other(make_host: MakeHost, publisher: Client) -> None:
    """RULES-2.8: what an event becomes elsewhere is an event to nobody."""
    rule = {"match_topic": "bus.message.**", "print": "always"}
    hosts = [make_host(rule)[0] for _ in range(2)]
    first = publisher.send("other", "to another", sender="cli", queue=True)
    until(lambda: all(first.id in host.printed.getvalue() for host in hosts))
    last = publisher.send("other", "and again", sender="cli", queue=True)
    until(lambda: all(last.id in host.printed.getvalue() for host in hosts))
    for host in hosts:
        assert len(host.printed.getvalue().splitlines()) == 2


def test_what_is_lost_is_told(make_host: MakeHost, publisher: Client) -> None:
    """RULES-2.7: once, with a count; here the name is no longer ours when the event comes."""
    said: list[str] = []
    host, _ = make_host({"match_topic": "never.**", "print": "always"})
    following = RuleSubscriptions(host.client, host.name, host.rules, said.append)
    host.client.unregister(host.name)
    host.client.register(f"{host.name}-2", lambda delivery: None)
    write_rules(host.folder, {"match_topic": "x.**", "print": "always"})
    until(lambda: event_rules.patterns(host.rules.current()) == ("x.**",))
    following.follow()
    for n in range(3):
        publisher.publish("x.y", {"n": n}, confirm=True)
    until(lambda: following.lost == 3)
    assert len(said) == 1 and "an event on x.y is lost" in said[0]
