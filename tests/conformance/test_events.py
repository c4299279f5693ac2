"""EVENTS.md, and PROTOCOL.md section 11: events through real brokers, over bare sockets."""

import itertools
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from fakes.broker import Broker, MakeBroker, until
from fakes.peer import MakePeer, Peer, posting
from wakebus import broker as package
from wakebus.broker.protocol.event import Event, decode, encode, stamp
from wakebus.broker.protocol.topics import filters

assert package.__file__
PAGE = (Path(package.__file__).parent / "EVENTS.md").read_text(encoding="utf-8")
RULES = re.findall(r"^\*\*(EVENTS-\d+\.\d+)\*\*", PAGE, re.M)

PUB = "5be1c2a09d6f4711"
PROBE = "ab" * 4

Bytes = zmq.Socket[bytes]
Open = Callable[..., Bytes]


def address(broker: Broker) -> dict[str, Any]:
    """Return what the broker wrote of itself."""
    found: dict[str, Any] = json.loads((broker.folder / "address.json").read_text())
    return found


@pytest.fixture
def publisher() -> Iterator[Open]:
    """Return a maker of bare publishers that know all subscriptions."""
    made: list[Bytes] = []

    def make(broker: Broker) -> Bytes:
        socket: Bytes = zmq.Context.instance().socket(zmq.XPUB)
        made.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address(broker)["events_in"])
        while take(socket) != b"\x01\xff":
            pass
        return socket

    yield make
    for socket in made:
        socket.close(0)


@pytest.fixture
def subscriber() -> Iterator[Open]:
    """Return a maker of bare subscribers, whose subscriptions work."""
    made: list[Bytes] = []

    def make(broker: Broker, peer: Peer, *prefixes: bytes) -> Bytes:
        socket: Bytes = zmq.Context.instance().socket(zmq.SUB)
        made.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address(broker)["events_out"])
        for prefix in prefixes:
            socket.setsockopt(zmq.SUBSCRIBE, prefix)
        prove(socket, peer)
        return socket

    yield make
    for socket in made:
        socket.close(0)


def prove(socket: Bytes, peer: Peer) -> None:
    """Wait until the subscriptions of a socket work (PROTOCOL-11.4), and nothing is on its way."""
    stem, numbers = f"bus.probe.{PROBE}".encode(), itertools.count()
    socket.setsockopt(zmq.SUBSCRIBE, stem)

    def came() -> bool:
        instance = f"{PROBE}{next(numbers):08x}"  # the newest one comes after all that were late
        assert peer.ask("probe", instance=instance) == {}
        while socket.poll(50):
            if socket.recv().startswith(f"bus.probe.{instance}\0".encode()):
                return True
        return False

    until(came)
    socket.setsockopt(zmq.UNSUBSCRIBE, stem)


def take(socket: Bytes) -> bytes:
    """Return the next frame."""
    assert socket.poll(15_000), "nothing came"
    return socket.recv()


def message_events(socket: Bytes, count: int) -> list[Event]:
    """Return the next events."""
    return [decode(take(socket)) for _ in range(count)]


def test_the_page_and_the_tests_name_the_same_rules() -> None:
    """Numbered in order, each named by a test; no test names one that is not there."""
    named = set[str]()
    for file in Path(__file__).parents[1].rglob("test_*.py"):
        named |= set(re.findall(r"EVENTS-\d+\.\d+", file.read_text(encoding="utf-8")))
    assert set(RULES) == named
    numbers = [tuple(map(int, re.findall(r"\d+", rule))) for rule in RULES]
    assert numbers == sorted(set(numbers))
    for line in re.findall(r"^    (\S+\\0.*)$", PAGE, re.M):
        decode(line.replace("\\0", "\0").encode())


def test_the_address(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-11.1, EVENTS-1.2: two sockets of this user alone, and who the broker is."""
    found = address(broker)
    assert re.fullmatch("[0-9a-f]{16}", found["bus_pub"])
    for field, name in (("events_in", "pub.sock"), ("events_out", "sub.sock")):
        path = Path(found[field].removeprefix("ipc://"))
        assert path == broker.folder / name and stat.S_ISSOCK(path.lstat().st_mode)
    assert stat.S_IMODE(broker.folder.stat().st_mode) == 0o700
    assert broker.stop() == 0
    assert not list(broker.folder.glob("*.sock"))


def test_the_bytes_pass_as_they_are(
    shared_broker: Broker, peer: Peer, publisher: Open, subscriber: Open
) -> None:
    """EVENTS-3.1, EVENTS-3.4: one frame, also one that is no event: the broker does not look."""
    socket = subscriber(shared_broker, peer, b"t1.")
    source = publisher(shared_broker)
    frames = [
        b't1.a\x005be1c2a09d6f4711 1\x00{"type":"t1.a","ts":1.5,"src":"t1"}',
        b"t1.a nonsense\xff",
    ]
    for frame in frames:
        source.send(frame)
    assert [take(socket) for _ in frames] == frames
    assert socket.getsockopt(zmq.RCVMORE) == 0


@pytest.mark.parametrize(
    ("pattern", "got"),
    [
        ("t2.a", ["t2.a"]),
        ("t2.a.**", ["t2.a", "t2.a.b"]),
        ("t2.*.b", ["t2.a", "t2.a.b", "t2.ab"]),  # the filter; the client matches in full
    ],
)
def test_filters(
    shared_broker: Broker,
    peer: Peer,
    publisher: Open,
    subscriber: Open,
    pattern: str,
    got: list[str],
) -> None:
    """EVENTS-2.3: what comes through the filters of a pattern."""
    socket = subscriber(shared_broker, peer, *filters(pattern), b"t2.end\0")
    source = publisher(shared_broker)
    for topic in ("t2", "t2.a", "t2.a.b", "t2.ab", "t3.a", "t2.end"):
        source.send(encode(topic, PUB, 1, stamp(topic, None, 1.0)))
    topics = []
    while (event := decode(take(socket))).topic != "t2.end":
        topics.append(event.topic)
    assert topics == got


def test_a_confirmed_publish_arrives(shared_broker: Broker, peer: Peer, subscriber: Open) -> None:
    """PROTOCOL-11.2: as the publisher gave it, from a connection that holds no name."""
    socket = subscriber(shared_broker, peer, b"ci.build.done\0")
    given = {"topic": "ci.build.done", "event": {"commit": "79d4366", "ts": 1.5}}
    assert peer.ask("publish", **given, pub=PUB, n=9) == {"topic": "ci.build.done"}
    assert take(socket) == (
        b'ci.build.done\x005be1c2a09d6f4711 9\x00{"type":"ci.build.done","ts":1.5,"src":"ci",'
        b'"commit":"79d4366"}'
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "bus.message.dead"}, "refused"),
        ({"topic": "a b"}, "bad_topic"),
        ({"event": {"text": "x" * 65_536}}, "too_big"),
        ({"event": 1}, "bad_message"),
        ({"n": -1}, "bad_message"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_refused_events(peer: Peer, change: dict[str, Any], code: str) -> None:
    """PROTOCOL-11.3: each by its code."""
    given = {"topic": "a", "event": {}, "pub": PUB, "n": 1, **change}
    assert peer.error("publish", **given).code == code


def test_namespaces_are_free(peer: Peer) -> None:
    """EVENTS-2.4: all but `bus`."""
    for topic in ("session.start", "agent.turn.done", "gateway.x", "tui.x", "mine.x", "buss.x"):
        assert peer.ask("publish", topic=topic, event={}, pub=PUB, n=1) == {"topic": topic}


def test_numbers_show_what_is_missing(
    shared_broker: Broker, peer: Peer, publisher: Open, subscriber: Open
) -> None:
    """EVENTS-5.1: the broker keeps the numbers and the order of a publisher."""
    socket = subscriber(shared_broker, peer, b"t5.")
    source = publisher(shared_broker)
    for n in (1, 2, 5, 6):
        source.send(encode("t5.a", PUB, n, {}))
    assert [event.n for event in message_events(socket, 4)] == [1, 2, 5, 6]


def test_the_life_of_a_message(broker: Broker, peers: MakePeer, subscriber: Open) -> None:
    """EVENTS-6.2, EVENTS-6.3: a name comes, a message goes its way, another one dies."""
    watcher, worker, sender = peers(broker), peers(broker), peers(broker)
    socket = subscriber(broker, watcher, b"bus.endpoint.", b"bus.message.")
    worker.register("worker")
    up = decode(take(socket))
    assert up[:3] == ("bus.endpoint.up", address(broker)["bus_pub"], 1)
    assert up.envelope == {
        "type": "bus.endpoint.up", "ts": up.ts, "src": "bus", "name": "worker", "pid": os.getpid()
    }  # fmt: skip
    first = sender.send("worker", "secret", body={"type": "directive"})["id"]
    delivery = worker.take()
    for verb in ("got", "started", "handled"):
        worker.say(verb, delivery)
    second = sender.send("worker", "secret")["id"]
    delivery = worker.take()
    worker.say("got", delivery)
    worker.say("later", delivery, after_s=0)
    worker.say("refused", worker.take(), reason="no hands")
    worker.ask("unregister", name="worker")
    heard = message_events(socket, 8)
    states = [(e.envelope["state"], e.envelope["id"]) for e in heard[:7]]
    assert states == [
        *((word, first) for word in ("queued", "delivered", "handled")),
        *((word, second) for word in ("queued", "delivered", "queued", "dead")),
    ]
    assert [e.topic for e in heard[:7]] == [f"bus.message.{state}" for state, _ in states]
    envelope = heard[0].envelope
    assert (envelope["from"], envelope["to"], envelope["claimed"]) == ("tester", "worker", True)
    assert envelope["type"] == "directive" and heard[3].envelope["type"] == ""
    assert heard[6].envelope["reason"] == "no hands" and "reason" not in envelope
    assert (heard[7].topic, heard[7].envelope["name"]) == ("bus.endpoint.down", "worker")
    assert "secret" not in str(heard)


def test_an_event_of_a_turn(broker: Broker, peers: MakePeer, subscriber: Open) -> None:
    """PROTOCOL-11.2, EVENTS-3.5: whose turn published it; of none that is open, nothing is said."""
    worker, peer = peers(broker), peers(broker)
    worker.register("worker")
    id = peer.send("worker")["id"]
    delivery = worker.take()
    worker.say("started", delivery, token="the-workers-token", hops=2, path=["human"])
    socket = subscriber(broker, peer, b"t9.")
    for n, token in enumerate(("the-workers-token", "never-was-a-token", None, 5), 1):
        payload = {"topic": "t9.a", "event": {"turn": "mine"}, "pub": PUB, "n": n}
        peer.ask("publish", **payload, token=token)
    turns = [decode(take(socket)).envelope["turn"] for _ in range(4)]
    assert turns == [{"id": id, "hops": 3, "path": ["human", "worker"]}, *["mine"] * 3]


def test_a_paused_loop(broker: Broker, peers: MakePeer, subscriber: Open) -> None:
    """EVENTS-6.6: once per pause, with the message that was one too many."""
    peer = peers(broker)
    peer.ask("declare", name="a")
    socket = subscriber(broker, peer, b"bus.loop.")
    for n in range(6):
        payload = posting("a", sender="a", hops=1, id=f"m{n}")
        assert (
            (peer.error("send", **payload).code == "loop") if n > 2 else peer.ask("send", **payload)
        )
    peer.ask("resume")
    for n in range(6, 10):
        peer.request("send", posting("a", sender="a", hops=1, id=f"m{n}"))
    heard = [decode(take(socket)) for _ in range(2)]
    assert [(e.topic, e.envelope["id"]) for e in heard] == [
        ("bus.loop.paused", "m3"),
        ("bus.loop.paused", "m9"),
    ]
    envelope = heard[0].envelope
    assert (envelope["from"], envelope["to"]) == ("a", "a") and "itself" in envelope["reason"]
    assert envelope["until"] > envelope["ts"]


def test_states_over_a_restart(broker: Broker, peers: MakePeer, subscriber: Open) -> None:
    """EVENTS-1.3, EVENTS-6.3: another `bus_pub`; what was told before is not told again."""
    sender, before = peers(broker), address(broker)
    sender.ask("declare", name="worker")
    id = sender.send("worker", body={"type": "directive"})["id"]
    broker.restart()
    assert address(broker)["bus_pub"] != before["bus_pub"]
    worker = peers(broker)
    socket = subscriber(broker, peers(broker), b"bus.message.")
    worker.register("worker")
    worker.finish()
    found = message_events(socket, 1)[0]
    assert (found.topic, found.n) == ("bus.message.handled", 1)
    assert (found.envelope["id"], found.envelope["type"]) == (id, "directive")


def test_a_forged_event_shows_its_publisher(
    shared_broker: Broker, peer: Peer, publisher: Open, subscriber: Open
) -> None:
    """EVENTS-6.1: it passes, like all of this user's; its `pub` is not the broker's."""
    socket = subscriber(shared_broker, peer, b"bus.message.dead\0")
    publisher(shared_broker).send(encode("bus.message.dead", PUB, 1, {"id": "m1"}))
    while (event := decode(take(socket))).envelope["id"] != "m1":
        assert event.pub == address(shared_broker)["bus_pub"]  # of another test's message
    assert event.pub == PUB != address(shared_broker)["bus_pub"]


def test_a_probe(shared_broker: Broker, peer: Peer, subscriber: Open) -> None:
    """PROTOCOL-11.4, EVENTS-6.4: from the broker, once for each time it was asked."""
    socket = subscriber(shared_broker, peer, b"bus.probe.0")
    for _ in range(2):
        peer.ask("probe", instance="0" * 16)
        event = decode(take(socket))
        assert event[:3] == ("bus.probe." + "0" * 16, address(shared_broker)["bus_pub"], 1)
    assert peer.error("probe", instance="x").code == "bad_message"


def test_reports_of_missed_events(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-11.5, EVENTS-5.2: with a name or without; in `status` as a sum."""
    named, unnamed = peers(broker), peers(broker)
    named.register("e")
    assert named.ask("beat", missed=3) == named.ask("beat", missed=4) == {}
    for _ in range(2):
        assert unnamed.error("beat", missed=10, instance="1" * 16).code == "not_registered"
    back = peers(broker)
    assert back.error("beat", missed=11, instance="1" * 16).code == "not_registered"
    assert named.ask("status")["events"]["missed"] == 4 + 11
    assert named.error("beat", missed=-1).code == "bad_message"


def test_status(broker: Broker, peers: MakePeer, publisher: Open, subscriber: Open) -> None:
    """PROTOCOL-11.6: what passed, exactly; `hermes-busd status` shows it."""
    peer = peers(broker)
    socket = subscriber(broker, peer, b"a")
    source, before = publisher(broker), peer.ask("status")["events"]
    for n in range(1, 11):
        source.send(encode("a", PUB, n, {}))
        source.send(encode("nobody.hears.it", PUB, n, {}))
    message_events(socket, 10)
    size = sum(len(encode("a", PUB, n, {})) for n in range(1, 11))
    after = peer.ask("status")["events"]
    grown = {key: after[key] - before[key] for key in after}
    passed = {"in": 10, "out": 10, "bytes_in": size, "bytes_out": size}
    assert grown == {**passed, "missed": 0, "dropped": 0}
    peer.error("beat", missed=7)
    page = broker.command("status").stdout
    assert f"events:   {after['in']} passed on" in page and "7 missed" in page


@pytest.mark.parametrize("name", ["pub.sock", "sub.sock"])
def test_a_users_file_at_a_socket(bus_root: Path, name: str) -> None:
    """PROTOCOL-1.3: it stops the start by its name, and stays."""
    broker = Broker(bus_root)
    broker.folder.mkdir(0o700)
    path = broker.folder / name
    path.write_text("mine")
    assert str(path) in broker.start().word
    assert path.read_text() == "mine" and not broker.alive


def test_a_long_path(bus_root: Path, publisher: Open, subscriber: Open, peers: MakePeer) -> None:
    """PROTOCOL-1.4: events pass there too, and nothing is left."""
    root = bus_root / ("long" * 25)
    root.mkdir()
    broker = Broker(root).start()
    try:
        socket = subscriber(broker, peers(broker), b"a\0")
        publisher(broker).send(encode("a", PUB, 1, {}))
        assert decode(take(socket)).topic == "a"
        folder = Path(address(broker)["events_in"].removeprefix("ipc://")).parent
        assert folder != broker.folder and broker.stop() == 0 and not folder.exists()
    finally:
        broker.kill()


def test_events_after_a_kill(make_broker: MakeBroker, peers: MakePeer, subscriber: Open) -> None:
    """EVENTS-1.1, EVENTS-1.3: sockets of a killed broker are replaced; a SUB comes back."""
    broker = make_broker()
    socket = subscriber(broker, peers(broker), b"a")
    broker.restart()
    peer = peers(broker)
    prove(socket, peer)
    peer.ask("publish", topic="a", event={}, pub=PUB, n=1)
    assert decode(take(socket)).topic == "a"
