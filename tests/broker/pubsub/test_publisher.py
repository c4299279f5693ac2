"""`publisher`: a client's events on their way out, seen from a bare XSUB (EVENTS.md)."""

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import zmq

from fakes.broker import until
from wakebus.broker.errors import BadMessage, BadTopic, NotRunning, Refused, TooBig
from wakebus.broker.protocol.event import Event, decode
from wakebus.broker.pubsub.publisher import Publisher, one_shot
from wakebus.broker.pubsub.sequences import MAX_STREAMS


class Ear:
    """What a broker is to a publisher: a bound XSUB that subscribes. `deaf`: it reads no event."""

    def __init__(self, address: str, *prefixes: bytes, hwm: int = 1000, deaf: bool = False) -> None:
        self._say = deque(b"\x01" + prefix for prefix in (*(prefixes or (b"",)), b"\xff"))
        self.heard: deque[Event] = deque()
        self._hwm, self._deaf, self._closing = hwm, deaf, False
        self._bound = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address,), daemon=True)
        self._thread.start()
        assert self._bound.wait(15)

    def _run(self, address: str) -> None:
        with zmq.Context() as context, context.socket(zmq.XSUB) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVHWM, self._hwm)
            socket.bind(address)
            while not self._closing:
                while self._say:
                    socket.send(self._say.popleft())
                self._bound.set()
                if socket.poll(2):
                    if self._deaf:
                        time.sleep(0.002)
                    else:
                        self.heard.append(decode(socket.recv()))

    def subscribe(self, prefix: bytes) -> None:
        """Subscribe to more."""
        self._say.append(b"\x01" + prefix)

    def next(self) -> Event:
        """Return the next event."""
        until(lambda: self.heard)
        return self.heard.popleft()

    def close(self) -> None:
        """Be gone."""
        self._closing = True
        self._thread.join(15)


@pytest.fixture
def address(bus_root: Path) -> str:
    """Where the ear is."""
    return f"ipc://{bus_root}/in"


@pytest.fixture
def ear(address: str) -> Iterator[Ear]:
    """An ear that hears all."""
    found = Ear(address)
    yield found
    found.close()


@pytest.fixture
def publisher(address: str) -> Iterator[Publisher]:
    """A publisher towards the ear."""
    found = Publisher(address)
    yield found
    found.close()


def heard_after(publisher: Publisher, ear: Ear) -> bool:
    """Publish, and say whether the ear has heard anything yet."""
    publisher.publish("a", None, 0)
    return bool(ear.heard)


def test_the_first_event_is_not_lost(ear: Ear, publisher: Publisher) -> None:
    """EVENTS-4.2: it waits until all that is subscribed is known; a bare PUB loses it."""
    publisher.publish("a.b", {"x": 1}, 15)
    event = ear.next()
    assert (event.topic, event.n, event.envelope["x"]) == ("a.b", 1, 1)
    assert event.type == "a.b" and event.src == "a" and abs(event.ts - time.time()) < 60
    assert publisher.dropped == 0


def test_the_first_event_of_a_program_that_ends_at_once(ear: Ear, address: str) -> None:
    """Twenty of twenty arrive: `close` lets out what is in the pipe."""
    for number in range(20):
        one = Publisher(address)
        one.publish("a.b", {"number": number}, 15)
        one.close()
        assert ear.next().envelope["number"] == number


def test_numbers_count_for_each_topic(ear: Ear, publisher: Publisher) -> None:
    """From 1, and every publisher has a name of its own."""
    for topic in ("a", "b", "a", "a"):
        publisher.publish(topic, None, 15)
    events = [ear.next() for _ in range(4)]
    assert [(e.topic, e.n) for e in events] == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]
    assert len({e.pub for e in events}) == 1


def test_what_is_no_event_raises_and_uses_no_number(ear: Ear, publisher: Publisher) -> None:
    """Before and after the topic is known."""
    for topic in ("", "a..b", "a.*", "ä", None, ["a"], 7):
        with pytest.raises(BadTopic):
            publisher.publish(topic, None, 15)  # type: ignore[arg-type]
    for topic in ("bus", "bus.x", "bus.message.dead"):
        with pytest.raises(Refused, match="the broker's own"):
            publisher.publish(topic, None, 15)
    with pytest.raises(BadMessage):
        publisher.publish("a", {"x": float("nan")}, 15)
    with pytest.raises(BadMessage):
        publisher.publish("a", [1], 15)  # type: ignore[arg-type]
    with pytest.raises(TooBig):
        publisher.publish("a", {"x": "x" * 70_000}, 15)
    publisher.publish("a", None, 15)
    assert ear.next().n == 1


def test_without_a_broker_the_first_publish_waits_and_says_so(publisher: Publisher) -> None:
    """The following ones do not wait; all say that it is not there, until it has been."""
    for timeout in (0.05, 600, 600):
        with pytest.raises(NotRunning, match="no broker takes events at ipc"):
            publisher.publish("a", None, timeout)
    assert publisher.dropped == 0


def test_a_broker_that_comes_late(publisher: Publisher, address: str) -> None:
    """From then on events go out; nobody had to ask for it."""
    with pytest.raises(NotRunning):
        publisher.publish("a", None, 0.01)
    ear = Ear(address)

    def published() -> bool:
        try:
            publisher.publish("a", None, 0)
        except NotRunning:
            return False
        return True

    until(published)
    assert ear.next().topic == "a"
    ear.close()


def test_while_the_broker_is_away_events_are_dropped_and_counted(
    publisher: Publisher, address: str
) -> None:
    """Never raised, never waited for; their numbers are used up, so that the gap is seen."""
    ear = Ear(address)
    publisher.publish("a", None, 15)
    assert ear.next().n == 1
    ear.close()

    def dropped() -> int:
        publisher.publish("a", None, 0)
        return publisher.dropped

    until(dropped)
    ear = Ear(address)
    until(partial(heard_after, publisher, ear))
    event = ear.next()
    # What was on its way when the ear closed is lost too, and in no count but the gap's.
    assert event.n > publisher.dropped >= 1
    ear.close()


def test_a_broker_that_reads_nothing_costs_bounded_memory(
    publisher: Publisher, address: str
) -> None:
    """The pipe fills, then events are dropped and counted; nothing waits."""
    ear = Ear(address, hwm=10, deaf=True)
    publisher.publish("a", None, 15)
    body, sent = {"x": "x" * 10_000}, 1
    while not publisher.dropped:
        publisher.publish("a", body, 0)
        sent += 1
        assert sent < 40_000
    publisher.publish("a", body, 0)
    assert publisher.dropped >= 2
    ear.close()


def test_it_follows_a_broker_to_another_address(
    ear: Ear, publisher: Publisher, bus_root: Path
) -> None:
    """A new folder after a restart: the next look connects there."""
    publisher.publish("a", None, 15)
    other = Ear(f"ipc://{bus_root}/other")
    publisher.move_to(f"ipc://{bus_root}/other")
    until(partial(heard_after, publisher, other))
    assert other.next().topic == "a"
    other.close()


def test_it_waits_until_a_subscription_is_here(ear: Ear, publisher: Publisher) -> None:
    """So that what is published next is not missed by whoever just subscribed."""
    publisher.publish("a", None, 15)
    threading.Timer(0.05, ear.subscribe, [b"bus.probe.x\0"]).start()
    publisher.wait_for_probe(b"bus.probe.x\0", 15)
    assert b"bus.probe.x\0" in publisher._probes


def test_news_of_subscriptions_do_not_pile_up(ear: Ear, publisher: Publisher) -> None:
    """Also when nobody publishes: the heartbeat reads them, and waits for nobody."""
    publisher.publish("a", None, 15)
    ear.subscribe(b"bus.probe.y\0")

    def read() -> bool:
        publisher.read_news()
        return b"bus.probe.y\0" in publisher._probes

    until(read)
    with publisher._lock:
        thread = threading.Thread(target=publisher.read_news)
        thread.start()
        thread.join(15)
        assert not thread.is_alive()


def test_closed_is_closed(ear: Ear, publisher: Publisher) -> None:
    """Also for one who waits for a broker just then; twice is once."""
    publisher.publish("a", None, 15)
    publisher.close()
    publisher.close()
    publisher.read_news()
    publisher.wait_for_probe(b"x", 15)
    with pytest.raises(NotRunning, match="closed"):
        publisher.publish("a", None, 15)


def test_close_ends_a_wait(publisher: Publisher) -> None:
    """Whoever waits for a broker is told that the client is closed."""
    said: list[str] = []

    def wait() -> None:
        try:
            publisher.publish("a", None, 60)
        except NotRunning as exc:
            said.append(str(exc))

    thread = threading.Thread(target=wait)
    thread.start()
    publisher.close()
    thread.join(15)
    assert said == ["this client is closed"]


def test_an_address_that_is_none() -> None:
    """Is told as a broker that is not there, and leaves no socket."""
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    with pytest.raises(NotRunning, match="no broker can be at"):
        Publisher("nonsense")
    assert len(os.listdir("/dev/fd")) <= before  # noqa: PTH208


def test_many_topics_are_bounded(ear: Ear, publisher: Publisher) -> None:
    """After 10,000 topics the publisher has another name, and counts from 1."""
    publisher.publish("a", None, 15)
    for number in range(MAX_STREAMS):
        publisher._counters.add(f"t{number}")
    publisher.publish("a", None, 15)
    first, second = ear.next(), ear.next()
    assert (first.n, second.n) == (1, 1) and first.pub != second.pub


def test_a_confirmed_event_is_a_publisher_of_its_own() -> None:
    """Number 1 of a name that nobody else has; checked as any other."""
    first, second = one_shot("a.b", {"x": 1}), one_shot("a.b", None)
    assert first["topic"] == "a.b" and first["n"] == 1 and first["pub"] != second["pub"]
    assert first["event"]["x"] == 1 and first["event"]["type"] == "a.b"
    with pytest.raises(Refused):
        one_shot("bus.x", None)
    with pytest.raises(BadTopic):
        one_shot("a b", None)
    with pytest.raises(TooBig):
        one_shot("a", {"x": "x" * 70_000})
