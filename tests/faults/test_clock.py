"""A wall clock that jumps a year: nothing expires, nothing is deleted, nobody becomes unknown."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.broker import until
from fakes.faulty import FaultyBroker
from fakes.peer import MakePeer, Peer

YEAR = 365 * 86400


@pytest.fixture
def broker(bus_root: Path) -> Iterator[FaultyBroker]:
    """A broker whose wall clock the test sets."""
    found = FaultyBroker(bus_root)
    yield found
    found.kill()


def fill(peer: Peer) -> dict[str, str]:
    """Leave one message that waits, one that ended, one with a key; return their ids."""
    peer.register("worker")
    waits = peer.send("away", "waits", queue=True, sender="worker", ttl_s=90_000)["id"]
    ended = peer.send("worker", "ends", sender="worker")["id"]
    peer.finish()
    keyed = peer.send("away", "once", queue=True, sender="worker", key="k", ttl_s=90_000)["id"]
    peer.ask("unregister", name="worker")
    return {"waits": waits, "ended": ended, "keyed": keyed}


def check(broker: FaultyBroker, peer: Peer, ids: dict[str, str]) -> None:
    """All is as it was, after a look at everything."""
    looks = broker.looks()
    until(lambda: broker.looks() > looks + 1)
    assert peer.ask("trace", id=ids["waits"])["messages"][0]["state"] == "queued"
    assert peer.ask("trace", id=ids["ended"])["messages"][0]["state"] == "handled"
    assert {"worker", "away"} <= {one["name"] for one in peer.ask("list")["endpoints"]}
    peer.register("worker")
    again = peer.send("away", "once", queue=True, sender="worker", key="k")
    assert (again["id"], again["duplicate"]) == (ids["keyed"], True)
    peer.ask("unregister", name="worker")


def seen(peer: Peer, name: str) -> float:
    """Return when the broker says that it saw `name`."""
    return float(next(e["seen"] for e in peer.ask("list")["endpoints"] if e["name"] == name))


def test_a_clock_that_jumps_while_the_broker_runs(broker: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-6.10, PROTOCOL-8.10: a year forwards and two back change only what is read."""
    peer = peers(broker.start())
    ids = fill(peer)
    for wall in (YEAR, -YEAR):
        broker.fault(wall=wall)
        check(broker, peer, ids)
        assert abs(seen(peer, "worker") - time.time() - wall) < 600  # its age is right
    later = peer.send("away", "of another year", queue=True, key="k2")["id"]
    broker.fault(wall=0)
    check(broker, peer, ids)
    assert peer.send("away", "again", queue=True, key="k2")["id"] == later
    assert broker.alive


@pytest.mark.parametrize("boot", ["", "another"])
@pytest.mark.parametrize("wall", [YEAR, -YEAR])
def test_a_clock_that_jumps_between_two_runs(
    broker: FaultyBroker, peers: MakePeer, wall: float, boot: str
) -> None:
    """PROTOCOL-8.10: in the same boot it is not asked; over a boot it counts half a day at most."""
    peer = peers(broker.start())
    ids = fill(peer)
    assert broker.stop() == 0
    broker.fault(wall=wall, boot=boot)
    broker.start()
    check(broker, peers(broker), ids)
    broker.kill()  # and it was the new clock that was wrong
    broker.fault(wall=0, boot=boot and "a third")
    broker.start()
    check(broker, peers(broker), ids)


def test_time_goes_on_over_a_restart(broker: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-8.10: what expires while no broker runs is dead when one does, by the true time."""
    peer = peers(broker.start())
    id = peer.send("away", "soon over", queue=True, ttl_s=0.3)["id"]
    kept = peer.send("away", "kept", queue=True, ttl_s=3600)["id"]
    broker.fault(wall=-YEAR)
    broker.restart()
    again = peers(broker)
    assert again.ask("wait", id=id, state="handled", timeout=15)["state"] == "dead"
    assert again.ask("trace", id=kept)["messages"][0]["state"] == "queued"
