"""The broker's own publisher."""

from collections.abc import Iterator

import pytest
import zmq

from wakebus.broker.core.broker_events import REPORTERS, Announcer, Missed, is_ours
from wakebus.broker.core.hub import Endpoint
from wakebus.broker.core.mailbox import Entry
from wakebus.broker.protocol.event import Event, decode
from wakebus.broker.settings import Settings

Bytes = zmq.Socket[bytes]


class Air:
    """An announcer and what it is connected to, without a proxy between."""

    def __init__(self) -> None:
        self.context: zmq.Context[Bytes] = zmq.Context()
        self.ear: Bytes = self.context.socket(zmq.XSUB)
        self.ear.setsockopt(zmq.RCVHWM, 10)
        self.ear.bind("inproc://air")
        self.announcer = Announcer(lambda: 5.5)
        self.announcer.connect(self.context, "inproc://air")

    def want(self, news: bytes) -> None:
        """Tell the announcer of a subscription (`\\x01…`) or its end, and wait until it knows."""
        self.ear.send(news)
        assert self.announcer.socket is not None and self.announcer.socket.poll(15_000)
        self.announcer.learn()

    def heard(self) -> list[Event]:
        """Return all that came."""
        found = []
        while self.ear.poll(0):
            found.append(decode(self.ear.recv()))
        return found


@pytest.fixture
def air() -> Iterator[Air]:
    """An announcer that somebody may hear."""
    found = Air()
    yield found
    found.announcer.close()
    found.ear.close(0)
    found.context.term()


def entry(**fields: object) -> Entry:
    """Return a message as the broker knows it."""
    made = Entry(1, "m1", "ci\nsession", 10, 0.0)
    made.type = "directive"
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("prefix", "messages", "endpoints"),
    [
        (b"", True, True),
        (b"bus.", True, True),
        (b"bus.message.dead\0", True, False),
        (b"bus.message.", True, False),
        (b"bus.endpoint.up\0", False, True),
        (b"bus\0", False, False),
        (b"bus.probe.", False, False),
        (b"\xff", False, False),
        (b"a.", False, False),
    ],
)
def test_who_listens(air: Air, prefix: bytes, messages: bool, endpoints: bool) -> None:
    """EVENTS-6.5: what no subscription can reach is not even written, so it uses no number."""
    endpoint = Endpoint("e", Settings())

    def say() -> None:
        air.announcer.message("queued", "e", entry())
        air.announcer.name(endpoint, 7, up=not endpoint.up)

    say()
    air.want(b"\x01" + prefix)
    say()
    air.want(b"\x00" + prefix)
    say()
    air.want(b"\x01bus.")
    say()
    numbers = [event.n for event in air.heard() if event.topic == "bus.message.queued"]
    assert numbers[-1] == 1 + messages
    assert set(air.announcer._numbers.values()) >= {1 + messages}
    assert sum(air.announcer._numbers.values()) == 2 + messages + endpoints


def test_a_messages_states(air: Air) -> None:
    """EVENTS-6.3: each once, by the receipt's word; no body; `claimed` and `reason` where so."""
    air.want(b"\x01bus.")
    one = entry(claimed=True)
    for state in ("queued", "delivered", "delivered", "queued", "delivered"):
        air.announcer.message(state, "e", one)
    air.announcer.message("dead", "e", one, reason="it expired")
    heard = air.heard()
    words = ["queued", "delivered", "queued", "delivered", "dead"]
    assert [event.envelope["state"] for event in heard] == words
    assert [event.topic for event in heard] == [f"bus.message.{word}" for word in words]
    assert [event.n for event in heard] == [1, 1, 2, 2, 1]
    assert {event.pub for event in heard} == {air.announcer.pub}
    assert heard[-1].envelope == {
        "type": "directive",
        "ts": 5.5,
        "src": "bus",
        "id": "m1",
        "from": "ci",
        "to": "e",
        "state": "dead",
        "claimed": True,
        "reason": "it expired",
    }


def test_a_name_comes_and_goes(air: Air) -> None:
    """EVENTS-6.2: what was told already is not told again."""
    air.want(b"\x01bus.endpoint.")
    endpoint = Endpoint("e", Settings())
    for up in (False, True, True, False, False, True):
        air.announcer.name(endpoint, 7, up=up)
    assert [(event.topic, event.n) for event in air.heard()] == [
        *(("bus.endpoint.up", 1), ("bus.endpoint.down", 1), ("bus.endpoint.up", 2)),
    ]


def test_nobody_reads(air: Air) -> None:
    """EVENTS-6.5: what does not go out at once is dropped and counted; nothing waits."""
    air.want(b"\x01")
    for n in range(3000):
        air.announcer.message("queued", "e", entry(id=str(n)))
    heard = len(air.heard())
    assert heard + air.announcer.dropped == 3000 and air.announcer.dropped > 1000
    assert air.announcer.hand(b"x") is True


def test_nonsense_from_below(air: Air) -> None:
    """EVENTS-1.2: what a peer sends upstream that is no subscription counts for nothing."""
    air.want(b"\x02bus.")
    air.announcer.message("queued", "e", entry())
    assert air.heard() == [] and not air.announcer._numbers


def test_without_a_socket() -> None:
    """EVENTS-6.5: a hub that has no proxy announces to nobody."""
    announcer = Announcer(lambda: 0.0)
    announcer.learn()
    announcer.probe("a" * 16)
    announcer.message("queued", "e", entry())
    assert announcer.hand(b"x") and announcer.dropped == 0
    announcer.close()


def test_whose_topics() -> None:
    """EVENTS-6.1: `bus` and all below it."""
    assert is_ours("bus") and is_ours("bus.x") and not is_ours("buss.x") and not is_ours("a.bus")


def test_what_clients_missed() -> None:
    """PROTOCOL-11.5: totals are told again and again; each is counted once, bounded."""
    missed = Missed()
    for who, total in (("a", 3), ("b", 5), ("a", 3), ("a", 10), ("a", 2), ("a", 3)):
        missed.report(who, total)
    assert missed.total == 10 + 5 + 1
    for n in range(REPORTERS + 50):
        missed.report(str(n), 1)
    assert len(missed._told) == REPORTERS and missed.total == 16 + REPORTERS + 50
