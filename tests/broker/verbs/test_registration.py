"""Names are granted, and told so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from wakebus.broker.errors import Fenced
from wakebus.broker.verbs import registration


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


def test_a_grant_is_told_after_it_is_stored(bench: Bench) -> None:
    """PROTOCOL-5.2: and nothing is delivered before."""
    register(bench, "e", b"c", "a" * 16)
    holder = bench.hub.endpoints["e"].holder
    assert bench.answers == [] and holder is not None and holder.blocked
    bench.slow.run_all()
    assert bench.answers == [{"name": "e", "epoch": 1, "ended": []}] and not holder.blocked
    (row,) = bench.slow.store.endpoints()
    assert (row["name"], row["epoch"]) == ("e", 1)


def test_a_grant_that_was_lost_before_it_was_stored(bench: Bench) -> None:
    """PROTOCOL-5.5: the loser is not told the winner's epoch as its own."""
    register(bench, "e", b"c1", "a" * 16)
    register(bench, "e", b"c2", "b" * 16, takeover=True)
    bench.slow.run_all()
    lost, won = bench.answers
    assert isinstance(lost, Fenced) and won["epoch"] == 2


def test_a_stated_pid_where_the_kernel_does_not_tell() -> None:
    """PROTOCOL-5.1: only such a number, and never on Linux."""
    for bad in (None, True, -1, 0, 2**31, "5", 1.0):
        assert registration._stated(bad) == 0
