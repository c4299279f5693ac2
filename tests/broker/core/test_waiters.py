"""Waits leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench, put
from wakebus.broker.core.waiters import answer_waiters
from wakebus.broker.verbs import VERBS


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub without sockets, whose store holds m1."""
    found = Bench(tmp_path)
    found.slow.store.put(put("m1"))
    yield found
    found.close()


def wait(bench: Bench, **fields: object) -> None:
    """Wait for m1 for a day, until the store has been asked."""
    payload = {"id": "m1", "state": "handled", "timeout": 86400.0, **fields}
    VERBS["wait"](bench.hub, bench.request(payload))
    bench.slow.run_all()


def test_a_settled_wait_leaves_no_timer(bench: Bench) -> None:
    """PROTOCOL-9.1: thousands that were settled do not stay until their time."""
    for _ in range(50):
        for _ in range(20):
            wait(bench)
        bench.slow.store.mark("m1", "", state="handled")
        answer_waiters(bench.hub, "m1")
        bench.slow.run_all()
        bench.slow.store.mark("m1", "", state="queued")
    assert len(bench.answers) == 1000
    assert len(bench.hub.timers._queue) <= 110
    assert bench.hub.waiters == {} and not bench.hub.waits


def test_each_wait_is_counted_until_its_answer(bench: Bench) -> None:
    """PROTOCOL-9.5: whatever that is."""
    wait(bench, id="unknown")
    wait(bench, state="answer", timeout=5.0)
    wait(bench)
    assert bench.hub.waits == {b"c": 2}
    bench.pass_time(6)
    bench.hub.timers.run_due()
    bench.slow.run_all()
    assert bench.hub.waits == {b"c": 1} and len(bench.hub.waiters["m1"]) == 1
    assert [error.code for error in bench.answers] == ["unknown_id", "timeout"]


def test_the_same_wait_twice_gets_two_answers(bench: Bench) -> None:
    """PROTOCOL-3.1: also where a client uses a sequence again."""
    for _ in range(2):
        wait(bench)
    bench.slow.store.mark("m1", "", state="handled")
    answer_waiters(bench.hub, "m1")
    bench.slow.run_all()
    assert len(bench.answers) == 2
