"""What the router thread does by the clock."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench, put
from wakebus.broker.server.housekeeping import (
    CLOCK_S,
    TIDY_S,
    checkpoint_clock,
    checkpoint_hourly,
    restore_clock,
    tidy_store,
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


def test_the_bound_is_said_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-8.7: in the log; every message is counted; it looks again by itself."""
    store = bench.slow.store
    for n in range(50):
        store.put(put(f"m{n}", body={"text": "x" * 50_000}))
        store.mark(f"m{n}", "", state="handled", done=1.8e9 + n)
    store.quota.limit = 2 << 20
    with caplog.at_level(logging.WARNING):
        tidy_store(bench.hub)
        for _ in range(10):
            bench.slow.run_all()
            bench.pass_time(TIDY_S)
            bench.hub.timers.run_due()
        bench.slow.run_all()
    assert store.quota.early > 5 and store.quota.used() < store.quota.limit
    assert caplog.text.count("store_bytes") == 1
