"""`subscriber`: the events thread and its sockets, towards a bare XPUB (EVENTS.md)."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from fakes.broker import until
from wakebus.broker.address import TopicAddresses
from wakebus.broker.errors import NotRunning
from wakebus.broker.protocol.event import Event, encode, stamp
from wakebus.broker.pubsub.subscriber import Probe, Subscriber, new_probe_id

BUS, NEW_BUS, PUB = "b" * 16, "c" * 16, "a" * 16


class Mouth:
    """What a broker is to a subscriber: a bound XPUB, with a thread of its own."""

    def __init__(self, address: str) -> None:
        self.subscribed: deque[bytes] = deque()
        self._say: deque[bytes] = deque()
        self._closing = False
        self._bound = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address,), daemon=True)
        self._thread.start()
        assert self._bound.wait(15)

    def _run(self, address: str) -> None:
        with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.bind(address)
            self._bound.set()
            while not self._closing:
                if socket.poll(2):
                    self.subscribed.append(socket.recv())
                while self._say:
                    socket.send(self._say.popleft())

    def say(self, topic: str, n: int = 1, pub: str = PUB) -> None:
        """Publish an event."""
        self._say.append(encode(topic, pub, n, stamp(topic, None, 1.0)))

    def close(self) -> None:
        """Be gone."""
        self._closing = True
        self._thread.join(15)


class World:
    """A mouth, a subscriber, and what it is told of the broker."""

    def __init__(self, root: Path) -> None:
        self.addresses = TopicAddresses("ipc://unused", f"ipc://{root}/out", BUS)
        self.mouth = Mouth(self.addresses.events_out)
        self.subscriber = Subscriber(lambda: self.addresses)
        self.got: list[Event] = []

    def probe(self, mouth: Mouth | None = None, seconds: float = 15) -> Probe:
        """Return a probe that a mouth answers."""
        topic = f"bus.probe.{new_probe_id()}"

        def asked() -> Iterator[int]:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                (mouth or self.mouth).say(topic, pub=BUS)
                yield 5
            raise NotRunning("nobody")

        return Probe(f"{topic}\0".encode(), asked, lambda: None)

    def close(self) -> None:
        """End both."""
        self.subscriber.close(15)
        self.mouth.close()


@pytest.fixture
def world(bus_root: Path) -> Iterator[World]:
    """A world of the test's own."""
    found = World(bus_root)
    yield found
    found.close()


def test_the_socket_subscribes_to_prefixes(world: World) -> None:
    """Those of all patterns, once each; the probe's is taken away again."""
    world.subscriber.subscribe(("a.b", "c.**", "c.*.d"), world.got.append, None, world.probe())
    until(lambda: any(frame.startswith(b"\0bus.probe.") for frame in world.mouth.subscribed))
    seen = {f for f in world.mouth.subscribed if b"bus.probe." not in f}
    assert seen == {b"\x01a.b\0", b"\x01c\0", b"\x01c."}


def test_events_that_came_before_the_proof_are_not_lost(world: World) -> None:
    """They are handed out first."""

    probe = world.probe()

    def late() -> Iterator[int]:
        until(lambda: b"\x01a\0" in world.mouth.subscribed)
        world.mouth.say("a", 1)
        yield from probe.asked()

    world.subscriber.subscribe(("a",), world.got.append, None, probe._replace(asked=late))
    world.mouth.say("a", 2)
    until(lambda: len(world.got) == 2)
    assert [event.n for event in world.got] == [1, 2]


def test_a_subscription_without_proof_leaves_nothing(world: World) -> None:
    """The probe's own error comes out, and the socket is closed."""
    deaf = Mouth(world.addresses.events_out.replace("/out", "/deaf"))
    with pytest.raises(NotRunning, match="nobody"):
        world.subscriber.subscribe(("a",), print, None, world.probe(deaf, 0.1))
    deaf.close()
    until(lambda: b"\0a\0" in world.mouth.subscribed)


def test_it_follows_the_broker_to_another_address(world: World, bus_root: Path) -> None:
    """Open subscriptions are connected there."""
    world.subscriber.subscribe(("a",), world.got.append, None, world.probe())
    other = Mouth(f"ipc://{bus_root}/other")
    world.addresses = world.addresses._replace(events_out=f"ipc://{bus_root}/other")
    world.subscriber.move_to(world.addresses)
    until(lambda: b"\x01a\0" in other.subscribed)
    other.say("a", 7)
    until(lambda: world.got)
    assert world.got[0].n == 7
    other.close()


def test_the_word_of_a_new_broker_is_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is looked up when an unknown one speaks of the bus; the old one is nobody then."""
    monkeypatch.setattr("wakebus.broker.pubsub.subscriber.LOCATE_S", 0.0)
    world.subscriber.subscribe(("bus.**",), world.got.append, None, world.probe())
    world.mouth.say("bus.endpoint.up", 1, BUS)
    world.mouth.say("bus.endpoint.up", 1, PUB)
    world.mouth.say("bus.endpoint.up", 2, BUS)
    until(lambda: len(world.got) == 2)
    world.addresses = world.addresses._replace(bus_pub=NEW_BUS)
    world.mouth.say("bus.endpoint.up", 1, NEW_BUS)
    world.mouth.say("bus.endpoint.up", 3, BUS)
    world.mouth.say("bus.endpoint.up", 2, NEW_BUS)
    until(lambda: len(world.got) == 4)
    assert [event.pub for event in world.got] == [BUS, BUS, NEW_BUS, NEW_BUS]


def test_a_closed_subscriber(world: World) -> None:
    """Closes its sockets, takes no subscription, and may be closed and woken again."""
    subscription = world.subscriber.subscribe(("a",), print, None, world.probe())
    world.subscriber.close(15)
    until(lambda: b"\0a\0" in world.mouth.subscribed)
    world.subscriber.close(15)
    subscription.close()
    with pytest.raises(NotRunning, match="closed"):
        world.subscriber.subscribe(("a",), print, None, world.probe())


def test_close_ends_a_subscribe_that_waits(world: World) -> None:
    """Whoever waits for the proof is told that the client is closed."""
    said: list[str] = []
    deaf = Mouth(world.addresses.events_out.replace("/out", "/deaf"))

    def wait() -> None:
        try:
            world.subscriber.subscribe(("a",), print, None, world.probe(deaf, 60))
        except NotRunning as exc:
            said.append(str(exc))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: b"\x01a\0" in world.mouth.subscribed)
    world.subscriber.close(15)
    thread.join(15)
    deaf.close()
    assert said == ["this client is closed"]


def test_an_address_that_is_none() -> None:
    """Is told as a broker that is not there."""
    subscriber = Subscriber(lambda: TopicAddresses("", "nonsense", BUS))
    probe = Probe(b"x", lambda: iter(()), lambda: None)
    with pytest.raises(NotRunning, match="no broker can be at nonsense"):
        subscriber.subscribe(("a",), print, None, probe)
    subscriber.close(15)
