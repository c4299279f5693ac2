"""Names are granted, and told so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from fakes.peer import posting
from wakebus.broker.errors import Fenced
from wakebus.broker.protocol import wire
from wakebus.broker.verbs import VERBS, registration


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
    assert bench.answers == [] and holder is not None and not holder.granted
    bench.slow.run_all()
    assert bench.answers == [{"name": "e", "epoch": 1, "ended": []}] and holder.granted
    (row,) = bench.slow.store.endpoints()
    assert (row["name"], row["epoch"]) == ("e", 1)


def test_a_beat_before_a_grant_is_stored_delivers_nothing(bench: Bench) -> None:
    """PROTOCOL-5.2: the answer comes first, also while the client beats for its other names."""
    VERBS["send"](bench.hub, bench.request(posting("e", queue=True), b"sender"))
    bench.slow.run_all()
    register(bench, "e", b"c", "a" * 16)
    VERBS["beat"](bench.hub, bench.request({}, b"c"))
    assert not any(entry.out for entry in bench.hub.endpoints["e"].mailbox.entries.values())
    bench.slow.run_all()
    assert [wire.decode(frame).verb for frame in bench.posted] == ["deliver"]
    assert bench.answers[-1] == {"name": "e", "epoch": 1, "ended": []}


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
