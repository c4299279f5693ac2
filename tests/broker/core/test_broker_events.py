"""The broker's own publisher."""

import pytest

from wakebus.broker.core.broker_events import REPORTERS, BrokerEvents, MissedEvents, is_ours
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.protocol.event import Event, decode


class Air:
    """The broker's publisher and what was heard of it; `room`: events that its pipe takes."""

    def __init__(self, room: int = 10_000) -> None:
        self.room = room
        self.frames: list[bytes] = []
        self.events = BrokerEvents(lambda: 5.5, self._send)

    def _send(self, frame: bytes) -> bool:
        if len(self.frames) >= self.room:
            return False
        self.frames.append(frame)
        return True

    def want(self, news: bytes) -> None:
        """Tell it of a subscription (`\\x01…`) or its end."""
        self.events.on_subscription(news)

    def heard(self) -> list[Event]:
        """Return all that came."""
        found = [decode(frame) for frame in self.frames]
        self.frames.clear()
        return found


@pytest.fixture
def air() -> Air:
    """A publisher that somebody may hear."""
    return Air()


def entry(**fields: object) -> MailboxEntry:
    """Return a message as the broker knows it."""
    made = MailboxEntry(1, "m1", "ci\nsession", 10, 0.0)
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

    def say() -> None:
        air.events.announce_message("queued", "e", entry())
        air.events.announce_endpoint("e", 7, up=True)

    say()
    air.want(b"\x01" + prefix)
    say()
    air.want(b"\x00" + prefix)
    say()
    air.want(b"\x01bus.")
    say()
    numbers = [event.n for event in air.heard() if event.topic == "bus.message.queued"]
    assert numbers[-1] == 1 + messages
    assert set(air.events._numbers.values()) >= {1 + messages}
    assert sum(air.events._numbers.values()) == 2 + messages + endpoints


def test_a_messages_states(air: Air) -> None:
    """EVENTS-6.3: each once, by the receipt's word; no body; `claimed` and `reason` where so."""
    air.want(b"\x01bus.")
    one = entry(claimed=True)
    for state in ("queued", "delivered", "delivered", "queued", "delivered"):
        air.events.announce_message(state, "e", one)
    air.events.announce_message("dead", "e", one, reason="it expired")
    heard = air.heard()
    words = ["queued", "delivered", "queued", "delivered", "dead"]
    assert [event.envelope["state"] for event in heard] == words
    assert [event.topic for event in heard] == [f"bus.message.{word}" for word in words]
    assert [event.n for event in heard] == [1, 1, 2, 2, 1]
    assert {event.pub for event in heard} == {air.events.pub}
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


def test_nobody_reads() -> None:
    """EVENTS-6.5: what does not go out at once is dropped and counted; nothing waits."""
    air = Air(room=10)
    air.want(b"\x01")
    for n in range(3000):
        air.events.announce_message("queued", "e", entry(id=str(n)))
    heard = len(air.heard())
    assert heard + air.events.dropped == 3000 and air.events.dropped > 1000
    assert air.events.publish(b"x") is True


def test_nonsense_from_below(air: Air) -> None:
    """EVENTS-1.2: what a peer sends upstream that is no subscription counts for nothing."""
    air.want(b"\x02bus.")
    air.events.announce_message("queued", "e", entry())
    assert air.heard() == [] and not air.events._numbers


def test_whose_topics() -> None:
    """EVENTS-6.1: `bus` and all below it."""
    assert is_ours("bus") and is_ours("bus.x") and not is_ours("buss.x") and not is_ours("a.bus")


def test_what_clients_missed() -> None:
    """PROTOCOL-11.5: totals are told again and again; each is counted once, bounded."""
    missed = MissedEvents()
    for who, total in (("a", 3), ("b", 5), ("a", 3), ("a", 10), ("a", 2), ("a", 3)):
        missed.report(who, total)
    assert missed.total == 10 + 5 + 1
    for n in range(REPORTERS + 50):
        missed.report(str(n), 1)
    assert len(missed._told) == REPORTERS and missed.total == 16 + REPORTERS + 50
