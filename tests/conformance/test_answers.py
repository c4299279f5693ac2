"""
PROTOCOL.md rule 3.5: no answer leaves before the commit that holds what it says.

The disk is held up while two requests come that say the same, or the one after the other's end:
neither is answered before the first is stored. A disk that takes nothing at all is one whose write
lock another process has.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.faulty import FaultyBroker
from fakes.peer import MakePeer, Peer, posting, reference

FIELDS: dict[str, dict[str, Any]] = {"later": {"after_s": 60}, "refused": {"reason": "no"}}
Words = tuple[Peer, str, dict[str, Any]]  # who asks for what


@pytest.fixture
def broker(bus_root: Path) -> Iterator[FaultyBroker]:
    """A broker whose disk can be held up."""
    found = FaultyBroker(bus_root, stale_s=60)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def slow(broker: FaultyBroker, peers: MakePeer) -> Iterator[tuple[Peer, Peer]]:
    """Return two peers of it; the first holds `e`."""
    one, two = peers(broker), peers(broker)
    one.register("e")
    yield one, two


def answers(broker: FaultyBroker, *words: Words) -> list[str]:
    """Ask while no commit ends; check that none is answered before; return the codes, "" for ok."""
    broker.fault(stall="")
    asked: list[tuple[Peer, int]] = []
    for peer, verb, payload in words:
        asked.append((peer, peer.request(verb, payload)))
        peer.unanswered()  # it is read before what another one says next
    until(broker.stalled)
    for peer, number in asked:
        assert peer.unanswered(number) == [number], "answered before the commit"
    broker.mend("stall")
    return [peer.code(number) for peer, number in asked]


@pytest.mark.parametrize("second", ["got", "started", "later", "handled", "refused"])
@pytest.mark.parametrize("first", ["got", "started", "later", "handled", "refused"])
def test_what_is_said_of_a_delivery(
    broker: FaultyBroker, slow: tuple[Peer, Peer], first: str, second: str
) -> None:
    """PROTOCOL-3.5, PROTOCOL-6.3: twice the same, or one after the other."""
    peer, sender = slow
    sender.send("e")
    told = reference(peer.take())
    words = [(peer, word, {**told, **FIELDS.get(word, {})}) for word in (first, second)]
    assert answers(broker, *words) == ["", ""]


def test_a_word_on_what_is_being_cancelled(broker: FaultyBroker, slow: tuple[Peer, Peer]) -> None:
    """PROTOCOL-3.5: its end is not stored yet, by whomever."""
    peer, other = slow
    id = other.send("e")["id"]
    told = reference(peer.take())
    peer.ask("later", **told, after_s=60)
    words = [(peer, word, {**told, **FIELDS.get(word, {})}) for word in ("handled", "later", "got")]
    found = answers(broker, (other, "cancel", {"id": id}), *words)
    assert found == [""] * 4


@pytest.mark.parametrize("verb", ["handled", "refused"])
def test_what_has_ended_cannot_be_taken_back(
    broker: FaultyBroker, slow: tuple[Peer, Peer], verb: str
) -> None:
    """PROTOCOL-3.5, PROTOCOL-10.11: that it has ended is said once that is stored."""
    peer, other = slow
    id = other.send("e")["id"]
    told = reference(peer.take())
    found = answers(broker, (peer, verb, told), (other, "cancel", {"id": id}))
    assert found == ["", "refused"]


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_send_twice(broker: FaultyBroker, slow: tuple[Peer, Peer], by: str) -> None:
    """PROTOCOL-3.5, PROTOCOL-4.5, PROTOCOL-4.7: the second is a duplicate of what is stored."""
    _, other = slow
    one, two = (posting("e", **({"key": "k"} if by == "key" else {})) for _ in "12")
    again = one if by == "id" else two
    assert answers(broker, (other, "send", one), (other, "send", again)) == ["", ""]
    assert other.ask("status")["messages"] == 1


@pytest.mark.parametrize(
    ("verb", "codes"),
    [
        ("cancel", ["", "refused"]),
        ("retry", ["", ""]),
        ("purge", ["", ""]),
        ("register", ["", ""]),
        ("declare", ["", ""]),
        ("unregister", ["", ""]),
        ("forget", [""]),
    ],
)
def test_what_is_asked_twice(
    broker: FaultyBroker, slow: tuple[Peer, Peer], verb: str, codes: list[str]
) -> None:
    """PROTOCOL-3.5, PROTOCOL-5.2: the second answer tells what the first has done."""
    peer, other = slow
    waiting = other.send("nobody", queue=True)["id"]
    dead = other.send("nobody", session="s", queue=True)["id"]
    other.ask("cancel", id=dead)
    other.ask("declare", name="unused")
    peer.register("f")
    asked: dict[str, tuple[Peer, list[dict[str, Any]]]] = {
        "cancel": (other, [{"id": waiting}] * 2),
        "retry": (other, [{"ids": [dead]}] * 2),
        "purge": (other, [{"ids": [dead]}] * 2),
        "register": (peer, [{"name": "e"}] * 2),
        "declare": (other, [{"name": "new"}] * 2),
        "unregister": (peer, [{"name": "e"}, {"name": "f"}]),
        "forget": (other, [{"name": "unused"}]),
    }
    who, payloads = asked[verb]
    assert answers(broker, *((who, verb, one) for one in payloads)) == codes


@contextmanager
def full_disk(broker: Broker) -> Iterator[None]:
    """Inside, nothing can be stored."""
    with closing(sqlite3.connect(broker.folder / "bus.db", isolation_level=None, timeout=10)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


@pytest.mark.parametrize("verb", ["got", "started", "handled", "refused", "later", "unregister"])
def test_a_disk_that_takes_nothing(
    broker: FaultyBroker, slow: tuple[Peer, Peer], verb: str
) -> None:
    """PROTOCOL-3.5, PROTOCOL-8.3: what has happened is answered when there is room."""
    peer, sender = slow
    sender.send("e")
    told = {"name": "e"} if verb == "unregister" else {**reference(peer.take()), "after_s": 60}
    with full_disk(broker):
        numbers = [peer.request(verb, told)]
        if verb != "unregister":
            numbers.append(peer.request(verb, told))
        until(lambda: "cannot write" in broker.log)
        assert peer.unanswered(*numbers) == numbers
    assert [peer.code(number) for number in numbers] == [""] * len(numbers)
