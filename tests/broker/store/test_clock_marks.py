"""Bus time in the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench
from wakebus.broker.server.housekeeping import (
    CLOCK_S,
    checkpoint_clock,
    checkpoint_hourly,
    restore_clock,
)

DAY = 86400


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub whose clocks the test moves."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_bus_time_goes_on_where_it_was(bench: Bench) -> None:
    """PROTOCOL-8.10: the next broker takes it up, whatever the wall clock says by then."""
    checkpoint_clock(bench.hub)
    bench.slow.run_all()
    before = bench.hub.bus_time()
    bench.pass_time(60)
    bench.wall += 365 * DAY
    restore_clock(bench.hub, bench.slow.store)
    assert bench.hub.bus_time() == pytest.approx(before + 60)


def test_it_is_stored_every_hour_and_at_the_end(bench: Bench) -> None:
    """One row."""
    for act in (checkpoint_hourly, checkpoint_clock):
        act(bench.hub)
        bench.pass_time(10)
    bench.pass_time(CLOCK_S)
    bench.hub.timers.run_due()
    bench.slow.run_all()
    rows = bench.slow.store.db.execute("SELECT up FROM mark").fetchall()
    assert [row["up"] for row in rows] == [bench.mono]


def test_what_people_read_has_the_right_age(bench: Bench) -> None:
    """PROTOCOL-8.10: by the wall clock of now; what never was stays so."""
    stamp = bench.hub.bus_time()
    bench.pass_time(100)
    bench.wall -= 30 * DAY
    assert bench.hub.shown(stamp) == pytest.approx(bench.wall - 100)
    assert bench.hub.shown(0.0) == 0.0
