"""What happens later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_timers_run_in_order_and_a_bug_costs_one(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest runs, and the log has what is needed to mend it."""
    ran: list[int] = []
    bench.hub.timers.later(2.0, lambda: ran.append(2))
    bench.hub.timers.later(1.0, lambda: ran.append(1 // 0))
    bench.hub.timers.later(5.0, lambda: ran.append(5))
    bench.pass_time(3.0)
    assert bench.hub.timers.run_due() == pytest.approx(2.0)
    assert ran == [2] and "ZeroDivisionError" in caplog.text


def test_cancelled_timers_do_not_run_or_pile_up(bench: Bench) -> None:
    """Also when one is cancelled twice, after it ran, or by another one."""
    ran: list[int] = []
    kept = bench.hub.timers.later(1.0, lambda: ran.append(1))
    victim = bench.hub.timers.later(2.0, lambda: ran.append(2))
    bench.hub.timers.later(1.5, lambda: bench.hub.timers.cancel(victim))
    for _ in range(2000):
        timer = bench.hub.timers.later(500.0, lambda: ran.append(3))
        bench.hub.timers.cancel(timer)
        bench.hub.timers.cancel(timer)
    assert len(bench.hub.timers._queue) < 200
    bench.pass_time(3.0)
    bench.hub.timers.run_due()
    bench.hub.timers.cancel(kept)
    bench.pass_time(600.0)
    bench.hub.timers.run_due()
    assert ran == [1] and bench.hub.timers._queue == [] and bench.hub.timers._cancelled == 0
