"""The hub, filled from the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import Bench, put
from wakebus.broker.core.restore import restore_hub


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A hub and a store."""
    found = Bench(tmp_path)
    yield found
    found.close()


def test_deadlines_are_those_of_bus_time(bench: Bench) -> None:
    """PROTOCOL-8.10: a wall clock that is wrong at the start makes nothing expire."""
    bus = bench.hub.bus_time()
    one = put(accepted=bus, deadline=bus + 60)
    bench.slow.store.transaction([lambda s: s.put(one)])
    bench.wall += 365 * 86400
    restore_hub(bench.hub, bench.slow.store)
    (entry,) = bench.hub.endpoints["worker"].mailbox.entries.values()
    assert entry.deadline == pytest.approx(bench.mono + 60)


def test_who_held_a_name_may_come_back(bench: Bench) -> None:
    """PROTOCOL-5.11, PROTOCOL-8.2: for `reclaim_s`; after another boot it is gone."""
    columns = {"seen": 5.0, "epoch": 3, "instance": "a" * 16, "pid": 1, "start": 0.0}
    store = bench.slow.store
    for name, boot in (("here", "boot/0"), ("elsewhere", "other/0")):
        store.save_endpoint(name, **columns, boot=boot)
    restore_hub(bench.hub, store)
    here, elsewhere = bench.hub.endpoints["here"], bench.hub.endpoints["elsewhere"]
    assert here.holder and elsewhere.holder
    assert (here.epoch, here.holder.process.pid, here.holder.conn) == (3, 1, None)
    assert elsewhere.holder.process.pid == 2**31 - 1
    settings = bench.hub.settings
    assert not here.holder.silent(bench.mono + settings.reclaim_s - 0.1, settings.stale_s)
    assert here.holder.silent(bench.mono + settings.reclaim_s + 0.1, settings.stale_s)
