"""What goes out, what comes back, and what happens while the disk is slow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.core import dispatch
from wakebus.broker.protocol import wire
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def send(bench: Bench, id: str, **fields: object) -> None:
    """Send a message to `e` and store it."""
    payload = posting("e", id, queue=True, id=id, **fields)
    VERBS["send"](bench.hub, bench.request(payload, b"sender"))
    bench.slow.run_all()


def delivered(bench: Bench) -> list[str]:
    """Return the ids that were delivered, in order."""
    frames = [wire.decode(frame) for frame in bench.posted]
    return [f.payload["message"]["id"] for f in frames if f.verb == "deliver"]


def test_a_message_that_is_being_fetched_does_not_expire(bench: Bench) -> None:
    """PROTOCOL-6.10: it is on its way, and arrives."""
    send(bench, "m1", ttl_s=5)
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.pass_time(6)
    endpoint = bench.hub.endpoints["e"]
    assert endpoint.holder is not None
    endpoint.holder.beat = bench.mono
    dispatch.expire(bench.hub)
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]


def test_a_holder_that_comes_back_while_the_disk_is_slow(bench: Bench) -> None:
    """PROTOCOL-5.10: what was being fetched for its old connection is sent once, to the new one."""
    send(bench, "m1")
    bench.greeted(b"c1").names.add("e")
    endpoint = bench.held("e", b"c1")
    endpoint.instance = "a" * 16
    dispatch.dispatch(bench.hub, endpoint)
    bench.greeted(b"c2")
    VERBS["register"](bench.hub, bench.request({"name": "e"}, b"c2"))
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]


def test_a_holder_that_dies_while_the_disk_is_slow(bench: Bench) -> None:
    """PROTOCOL-6.2, PROTOCOL-6.8: nothing was sent, so the next holder gets it as the first."""
    send(bench, "m1")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    endpoint.holder = None
    dispatch.bring_back(bench.hub, endpoint, died=True, why="died")
    bench.slow.run_all()
    assert delivered(bench) == []
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.slow.run_all()
    assert delivered(bench) == ["m1"]
    payload = wire.decode(bench.posted[0]).payload
    assert (payload["attempt"], payload["redelivered"]) == (1, False)


def test_an_ack_before_its_holder_dies_counts(bench: Bench) -> None:
    """PROTOCOL-8.3: although the disk has not taken it yet."""
    send(bench, "m1")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    bench.slow.run_all()
    VERBS["handled"](bench.hub, bench.request({"to": "e", "id": "m1", "epoch": 1}))
    endpoint.holder = None
    dispatch.bring_back(bench.hub, endpoint, died=True, why="died")
    dispatch.dispatch(bench.hub, bench.held("e"))
    bench.slow.run_all()
    assert delivered(bench) == ["m1"] and not endpoint.mailbox.entries
    row = bench.slow.store.find("m1")
    assert row is not None and (row["state"], row["deaths"]) == ("handled", 0)


def test_a_message_that_has_vanished_holds_up_nothing(bench: Bench) -> None:
    """Its lane goes on."""
    send(bench, "m1")
    bench.slow.store._db.execute("DELETE FROM message")
    endpoint = bench.held("e")
    dispatch.dispatch(bench.hub, endpoint)
    bench.slow.run_all()
    send(bench, "m2")
    assert delivered(bench) == ["m2"]
