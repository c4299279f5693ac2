"""Files run out: who is connected goes on, new clients wait, nobody takes the broker down."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fakes.broker import until
from fakes.faulty import FaultyBroker
from fakes.peer import MakePeer, Peer

LIMIT = 256


@pytest.fixture
def broker(bus_root: Path) -> Iterator[FaultyBroker]:
    """A broker whose limit of open files the test sets."""
    found = FaultyBroker(bus_root)
    yield found
    found.kill()


def test_more_clients_than_files(broker: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-1.11: the last places are kept free; who waits gets in when others leave."""
    broker.fault(files=LIMIT).start()
    address = broker.address
    first = peers(broker)
    first.register("e")
    inside: list[Peer] = []
    while not (broker.folder / "broker.sock.full").exists():
        inside.append(peers(broker))
        inside[-1].ask("list")
        assert len(inside) < LIMIT
    outside = [Peer(address) for _ in range(300 - len(inside))]
    waiting = [peer.request("list") for peer in outside]
    try:
        assert "ulimit -n" in broker.log
        id = inside[0].send("e", "work", sender="ci")["id"]
        assert first.finish() == ["work"]
        assert first.ask("trace", id=id)["messages"][0]["state"] == "handled"
        before = psutil.Process(broker.pid).cpu_times()
        assert not outside[0].socket.poll(500)
        after = psutil.Process(broker.pid).cpu_times()
        assert sum(after[:2]) - sum(before[:2]) < 0.4  # it waits, it does not spin
        for peer in inside[20:]:
            peer.close()
        answered = [peer for peer in outside if peer.socket.poll(0)]
        until(lambda: any(peer.socket.poll(0) for peer in outside))
        assert not answered and waiting
        first.ask("beat")
        assert broker.stop() == 0
    finally:
        for peer in outside:
            peer.close()
    assert not [path for path in broker.folder.iterdir() if "sock" in path.name]


def test_a_limit_that_is_too_low(broker: FaultyBroker) -> None:
    """PROTOCOL-1.11: the start says how to raise it."""
    word = broker.fault(files=64).start().word
    assert "the limit of open files is 64" in word and "ulimit -n 256" in word


def test_the_limit_is_raised(broker: FaultyBroker) -> None:
    """PROTOCOL-1.11: as far as the system lets it; a shell's 1,024 would be few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1_024:
        pytest.skip("this system has no room to raise it")
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        broker.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    raised, _ = psutil.Process(broker.pid).rlimit(resource.RLIMIT_NOFILE)
    assert raised == min(hard, 65_536)
    assert os.getpid() != broker.pid


def test_hundreds_that_connect_at_once(broker: FaultyBroker, peers: MakePeer) -> None:
    """PROTOCOL-1.11: hundreds that connect in one moment all get in, one after the other."""
    broker.start()
    address = broker.address
    crowd = [Peer(address) for _ in range(400)]
    try:
        numbers = [peer.request("list") for peer in crowd]
        for peer, number in zip(crowd, numbers, strict=True):
            peer.answer(number, 60)
    finally:
        for peer in crowd:
            peer.close()
    assert peers(broker).ask("status")["endpoints"] == []
