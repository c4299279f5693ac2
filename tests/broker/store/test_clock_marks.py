"""Bus time in the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from wakebus.broker.store import clock_marks as marks

DAY = 86400


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub whose clocks the test moves."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_bus_time_goes_on_where_it_was(bench: Bench) -> None:
    """PROTOCOL-8.10: the next broker takes it up, whatever the wall clock says by then."""
    marks.keep(bench.hub)
    bench.slow.work()
    before = bench.hub.steady_wall()
    bench.pass_time(60)
    bench.wall += 365 * DAY
    marks.take_up(bench.hub, bench.slow.store)
    assert bench.hub.steady_wall() == pytest.approx(before + 60)


def test_it_is_stored_every_hour_and_at_the_end(bench: Bench) -> None:
    """One row."""
    for act in (marks.keep, marks.keep_last):
        act(bench.hub)
        bench.pass_time(10)
    bench.pass_time(3600)
    bench.hub.run_timers()
    bench.slow.work()
    rows = bench.slow.store.db.execute("SELECT up FROM mark").fetchall()
    assert [row["up"] for row in rows] == [bench.mono]


def test_what_people_read_has_the_right_age(bench: Bench) -> None:
    """PROTOCOL-8.10: by the wall clock of now; what never was stays so."""
    stamp = bench.hub.steady_wall()
    bench.pass_time(100)
    bench.wall -= 30 * DAY
    assert bench.hub.shown(stamp) == pytest.approx(bench.wall - 100)
    assert bench.hub.shown(0.0) == 0.0
