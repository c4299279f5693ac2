"""Names: what is remembered of them, and for how long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from wakebus.broker.errors import Fenced
from wakebus.broker.verbs import registration as registering

DAY = 86400.0


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def register(bench: Bench, name: str, conn: bytes, instance: str, **fields: object) -> None:
    """Register, without waiting for the store."""
    bench.greeted(conn, instance)
    registering.register(bench.hub, bench.request({"name": name, **fields}, conn))


def test_reconnects_leave_nothing_behind(bench: Bench) -> None:
    """A client that comes back two hundred times costs one record."""
    for n in range(200):
        register(bench, "e", f"c{n}".encode(), "a" * 16)
        bench.slow.work()
        bench.pass_time(1)
    registering.forget_conns(bench.hub)
    left = bench.hub.conns
    assert len(left) <= 61 and sum(bool(conn.names) for conn in left.values()) == 1
    bench.pass_time(100)
    registering.forget_conns(bench.hub)
    assert list(left) == [b"c199"]


def test_a_grant_is_told_after_it_is_stored(bench: Bench) -> None:
    """PROTOCOL-5.2: and nothing is delivered before."""
    register(bench, "e", b"c", "a" * 16)
    holder = bench.hub.endpoints["e"].holder
    assert bench.answers == [] and holder is not None and holder.blocked
    bench.slow.work()
    assert bench.answers == [{"name": "e", "epoch": 1, "ended": []}] and not holder.blocked
    (row,) = bench.slow.store.endpoints()
    assert (row["name"], row["epoch"]) == ("e", 1)


def test_a_grant_that_was_lost_before_it_was_stored(bench: Bench) -> None:
    """PROTOCOL-5.5: the loser is not told the winner's epoch as its own."""
    register(bench, "e", b"c1", "a" * 16)
    register(bench, "e", b"c2", "b" * 16, takeover=True)
    bench.slow.work()
    lost, won = bench.answers
    assert isinstance(lost, Fenced) and won["epoch"] == 2


def test_names_in_use_stay_known(bench: Bench) -> None:
    """PROTOCOL-4.8: a holder of forty days is known after a kill of the broker."""
    endpoint = bench.held("e")
    bench.greeted().names.add("e")
    for _ in range(40):
        bench.pass_time(DAY)
        registering.beat(bench.hub, bench.request({}))
        registering.look_after_names(bench.hub)
        bench.slow.work()
    (row,) = bench.slow.store.endpoints()
    assert row["seen"] == endpoint.seen == bench.hub.steady_wall()
    before = len(bench.slow._queue)
    registering.look_after_names(bench.hub)
    assert len(bench.slow._queue) == before, "not at every look"


def test_names_that_nobody_knows_are_dropped(bench: Bench) -> None:
    """Neither memory nor the store grows with names that came once."""
    for n in range(50):
        name, conn = f"e{n}", f"c{n}".encode()
        register(bench, name, conn, "a" * 16)
        registering.unregister(bench.hub, bench.request({"name": name}, conn))
    bench.hub.endpoint("never-came")
    bench.slow.work()
    bench.pass_time(31 * DAY)
    registering.look_after_names(bench.hub)
    bench.slow.work()
    assert bench.hub.endpoints == {} and bench.slow.store.endpoints() == []


def test_a_stated_pid_where_the_kernel_does_not_tell() -> None:
    """PROTOCOL-5.1: only such a number, and never on Linux."""
    for bad in (None, True, -1, 0, 2**31, "5", 1.0):
        assert registering._stated(bad) == 0


def test_what_a_connection_lost_is_remembered(bench: Bench) -> None:
    """PROTOCOL-4.11: as long as its process lives; a name that it has again is not lost."""
    register(bench, "e", b"c1", "a" * 16)
    register(bench, "e", b"c2", "b" * 16, takeover=True)
    assert bench.hub.conns[b"c1"].lost == {"e"} and not bench.hub.conns[b"c2"].lost
    registering.register(bench.hub, bench.request({"name": "e", "takeover": True}, b"c1"))
    assert not bench.hub.conns[b"c1"].lost and bench.hub.conns[b"c2"].lost == {"e"}
