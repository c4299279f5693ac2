"""Who holds a name: what is remembered of it, and for how long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from wakebus.broker.core import holders
from wakebus.broker.core.holders import check_claim
from wakebus.broker.core.model import Holder
from wakebus.broker.errors import NameTaken
from wakebus.broker.system.processes import Process
from wakebus.broker.verbs import registration

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
    registration.register(bench.hub, bench.request({"name": name, **fields}, conn))


def test_reconnects_leave_nothing_behind(bench: Bench) -> None:
    """A client that comes back two hundred times costs one record."""
    for n in range(200):
        register(bench, "e", f"c{n}".encode(), "a" * 16)
        bench.slow.run_all()
        bench.pass_time(1)
    holders.forget_connections(bench.hub)
    left = bench.hub.conns
    assert len(left) <= 61 and sum(bool(conn.names) for conn in left.values()) == 1
    bench.pass_time(100)
    holders.forget_connections(bench.hub)
    assert list(left) == [b"c199"]


def test_names_in_use_stay_known(bench: Bench) -> None:
    """PROTOCOL-4.8: a holder of forty days is known after a kill of the broker."""
    endpoint = bench.held("e")
    bench.greeted().names.add("e")
    for _ in range(40):
        bench.pass_time(DAY)
        registration.beat(bench.hub, bench.request({}))
        holders.look_after_names(bench.hub)
        bench.slow.run_all()
    (row,) = bench.slow.store.endpoints()
    assert row["seen"] == endpoint.seen == bench.hub.bus_time()
    before = len(bench.slow._queue)
    holders.look_after_names(bench.hub)
    assert len(bench.slow._queue) == before, "not at every look"


def test_names_that_nobody_knows_are_dropped(bench: Bench) -> None:
    """Neither memory nor the store grows with names that came once."""
    for n in range(50):
        name, conn = f"e{n}", f"c{n}".encode()
        register(bench, name, conn, "a" * 16)
        registration.unregister(bench.hub, bench.request({"name": name}, conn))
    bench.hub.endpoint("never-came")
    bench.slow.run_all()
    bench.pass_time(31 * DAY)
    holders.look_after_names(bench.hub)
    bench.slow.run_all()
    assert bench.hub.endpoints == {} and bench.slow.store.endpoints() == []


def test_what_a_connection_lost_is_remembered(bench: Bench) -> None:
    """PROTOCOL-4.11: as long as its process lives; a name that it has again is not lost."""
    register(bench, "e", b"c1", "a" * 16)
    register(bench, "e", b"c2", "b" * 16, takeover=True)
    assert bench.hub.conns[b"c1"].lost == {"e"} and not bench.hub.conns[b"c2"].lost
    registration.register(bench.hub, bench.request({"name": "e", "takeover": True}, b"c1"))
    assert not bench.hub.conns[b"c1"].lost and bench.hub.conns[b"c2"].lost == {"e"}


def test_who_may_have_a_name() -> None:
    """PROTOCOL-5.4, PROTOCOL-5.5: the same instance, a free name, a takeover; nobody else."""
    holder = Holder("a", Process(77), 3, b"c")
    check_claim("e", holder, "a", takeover=False, free=False)
    check_claim("e", holder, "b", takeover=True, free=False)
    check_claim("e", holder, "b", takeover=False, free=True)
    with pytest.raises(NameTaken, match="77") as caught:
        check_claim("e", holder, "b", takeover=False, free=False)
    assert caught.value.data == {"pid": 77, "epoch": 3}
