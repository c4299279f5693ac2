"""Bus time in the store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from wakebus.broker.store.clock_marks import restored_bus_time, save_mark
from wakebus.broker.store.store import Store
from wakebus.broker.system.clock import Mark


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = Store(tmp_path / "bus.db")
    yield found
    found.close()


def test_the_newest_mark_counts(store: Store) -> None:
    """PROTOCOL-8.10: one row; in the same boot bus time goes on with the seconds since it."""
    save_mark(store.db, Mark(50.0, 1_000.0, 5.0, "boot"))
    save_mark(store.db, Mark(60.0, 1_010.0, 15.0, "boot"))
    assert store.db.execute("SELECT count(*) FROM mark").fetchone()[0] == 1
    assert restored_bus_time(store.db, Mark(0.0, 9e9, 20.0, "boot")) == 65.0


def test_without_a_mark_the_newest_time_counts(store: Store) -> None:
    """PROTOCOL-8.10: of a name or a message; a new store begins with the wall clock."""
    now = Mark(0.0, 1_000.0, 5.0, "boot")
    assert restored_bus_time(store.db, now) == 1_000.0
    store.save_endpoint("e", seen=990.0)
    assert restored_bus_time(store.db, now) == 1_000.0
    store.save_endpoint("e", seen=2_000.0)
    assert restored_bus_time(store.db, now) == 2_000.0, "never back"
