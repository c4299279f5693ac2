"""A disk that is full or slow: senders are told, acks are kept, nobody is silenced or lost."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.broker import Broker, until
from fakes.faulty import FaultyBroker
from fakes.peer import MakePeer, posting

QUEUE = 300

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process can be set on Linux only"
)


@pytest.fixture
def faulty(bus_root: Path) -> Iterator[FaultyBroker]:
    """A broker whose disk the test spoils."""
    found = FaultyBroker(bus_root, stale_s=1)
    yield found
    found.kill()


@contextmanager
def no_room(broker: Broker) -> Iterator[None]:
    """No file of the broker may grow: the kernel refuses its writes, as on a full disk."""
    both = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, both[1]))
    try:
        yield
    finally:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, both)


def test_a_full_disk_while_it_runs(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-8.3: sends are refused and not stored; an ack is kept and stored when it can be."""
    peer, other = peers(broker), peers(broker)
    peer.register("e")
    other.register("other")
    id = peer.send("e", "work", sender="e")["id"]
    peer.take()
    with no_room(broker):
        ack = peer.request("handled", {"to": "e", "id": id, "epoch": 1})
        error = peer.error("send", **posting("e", "no", sender="e"))
        assert (error.code, error.retry) == ("unavailable", True)
        assert "write" in error.text
        name = other.error("register", name="another")
        assert name.code == "unavailable"
        # The log and the address are written to the same disk.
        (broker.folder / "address.json").unlink()
        other.ask("beat")
        assert peer.ask("trace", id=id)["messages"][0]["state"] == "queued"
    assert peer.answer(ack) == {"id": id}
    until((broker.folder / "address.json").exists)
    assert peer.ask("trace", id=id)["messages"][0]["state"] == "handled"
    assert peer.send("e", "yes", sender="e")["state"] == "queued"
    assert peer.finish() == ["yes"]
    assert peer.ask("status")["messages"] == 2
    assert broker.stop() == 0 and "stopped" in broker.log


def test_a_stop_on_a_full_disk(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.6, PROTOCOL-8.3: it ends, and what had a receipt is there afterwards."""
    peers(broker).send("e", "kept", queue=True)
    with no_room(broker):
        assert broker.process is not None
        broker.process.terminate()
        broker.process.wait(30)
        broker.start()
    peer = peers(broker)
    peer.register("e")
    assert peer.finish() == ["kept"]


def test_a_start_on_a_full_disk(faulty: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-8.3: a new store cannot be made: the start says so; with room it starts."""
    limit = "import resource as r, sys, runpy; r.setrlimit(r.RLIMIT_FSIZE, (%d, -1));"
    run = "sys.argv = sys.argv[1:]; runpy.run_module('wakebus.broker', run_name='__main__')"
    real, faulty.program = faulty.program, ("-c", limit % 20_000 + run, "busd")
    word = faulty.start().word
    assert "bus.db cannot be opened" in word and "make room" in word
    assert not faulty.alive and not list(faulty.folder.glob("bus.db*"))
    faulty.program = ("-c", limit % 40 + run, "busd")
    assert "cannot be" in faulty.start().word
    faulty.program = real
    assert faulty.start().word == "ready"
    assert peers(faulty).send("e", queue=True)["state"] == "queued"


def test_a_store_that_has_no_page_left(faulty: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-8.3: SQLite's own word for it is told; what fits goes on."""
    peer = peers(faulty.fault(full="").start())
    error = peer.error("send", **posting("e", "x" * 200_000, queue=True))
    assert (error.code, error.retry) == ("unavailable", True) and "full" in error.text
    assert peer.ask("status")["messages"] == 0


def test_a_slow_disk_silences_nobody(faulty: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-8.9: receipts wait for it; beats and queries do not, and no name goes stale."""
    sender, holder, other = (peers(faulty if faulty.alive else faulty.start()) for _ in range(3))
    holder.register("e")
    faulty.fault(stall="")
    slow = [sender.request("send", posting("e", str(n))) for n in range(3)]
    claim = other.request("hello", {"min": 1, "max": 1, "instance": other.instance})
    other.answer(claim)
    for _ in range(25):  # 2.5 s, stale after 1
        holder.ask("beat")
        (one,) = [e for e in other.ask("list")["endpoints"] if e["name"] == "e"]
        assert one["state"] == "live"
        assert not holder.socket.poll(100)  # no delivery before its commit
    assert other.error("register", name="e").code == "name_taken"
    assert not sender.socket.poll(0)
    faulty.mend("stall")
    assert [sender.answer(number)["state"] for number in slow] == ["queued"] * 3
    assert holder.finish(3) == ["0", "1", "2"]


def test_a_disk_that_is_too_slow(faulty: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-8.9: with its queue full the broker says `busy`; afterwards it takes more."""
    flood, sender = peers(faulty.fault(queue=QUEUE).start()), peers(faulty)
    sender.send("e", queue=True)
    faulty.fault(stall="")
    first = flood.request("send", posting("e", "first", queue=True))
    until(faulty.stalled)
    for _ in range(QUEUE):
        flood.request("send", posting("e", session="s", queue=True))
    flood.ask("list")  # it has read them all
    error = sender.error("send", **posting("e", queue=True))
    assert (error.code, error.retry) == ("busy", True)
    faulty.mend("stall")
    assert flood.answer(first, 60)["state"] == "queued"
    assert sender.send("another", queue=True)["state"] == "queued"
