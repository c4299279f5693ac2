"""What the store keeps, how long and how much."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fakes.hub import put
from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.store import retention
from wakebus.broker.store.store import Store
from wakebus.broker.system.sqlite_file import check_pages


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = Store(tmp_path / "bus.db")
    yield found
    found.close()


def fill(store: Store, count: int, size: int = 100, *, done: float | None = None) -> None:
    """Store messages in one transaction; `done`: the first one's end, a second apart."""
    store.db.execute("BEGIN")
    first = int(store.counts()["messages"])
    for n in range(first, first + count):
        store.put(put(f"m{n}", body={"text": "x" * size}))
        if done is not None:
            store.mark(f"m{n}", "", state="handled", done=done + n)
    store.db.execute("COMMIT")


def tidied_once(store: Store, before: float) -> bool:
    """Take one step."""
    return retention.tidy(store.db, store.path, store.quota, before)


def tidied(store: Store, before: float = 0.0) -> int:
    """Take steps until none is left to take; return how many."""
    steps = 1
    while store.transaction([partial(tidied_once, before=before)]) == [True]:
        steps += 1
    return steps


def test_what_has_ended_goes_in_its_time(store: Store) -> None:
    """PROTOCOL-8.6: in small steps; what is open stays, however old."""
    fill(store, 1)
    fill(store, 450, done=1.0)
    assert tidied(store, before=401.0) == 3 and store.quota.early == 0
    assert store.counts()["messages"] == 52
    assert store.find("m0") is not None


def test_a_step_is_bounded_by_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-8.6: a few large ones at a time, and always one."""
    monkeypatch.setattr(retention, "STEP_BYTES", 5_000)
    fill(store, 6, 2_000, done=1.0)
    assert tidied(store, before=1e9) == 3 + 1
    fill(store, 2, 9_000, done=1.0)
    assert tidied(store, before=1e9) == 2 + 1


def test_over_the_bound_the_oldest_ends_go(store: Store) -> None:
    """PROTOCOL-8.7: before their time, down to nine tenths; what is open stays."""
    fill(store, 10, 50_000)
    fill(store, 100, 50_000, done=1.0)
    store.quota.limit = 4 << 20
    assert store.quota.used() > store.quota.limit
    tidied(store)
    early = store.quota.early
    assert store.quota.used() <= 0.9 * store.quota.limit
    left = [f"m{n}" for n in range(10, 110) if store.find(f"m{n}")]
    assert left == [f"m{n}" for n in range(10 + early, 110)] and 0 < early < 100
    assert len(store.open_messages()) == 10
    assert tidied(store) == 1


def test_a_full_store_refuses_and_takes_again(store: Store) -> None:
    """PROTOCOL-8.7: nothing is stored, a resend has its receipt, acks and notices are stored."""
    store.quota.limit = 2 << 20
    answers = []
    for n in range(60):
        one = put(f"m{n}", body={"text": "x" * 100_000})
        answers += store.transaction([lambda s, one=one: s.put(one)])  # type: ignore[misc]
    refused = [a for a in answers if isinstance(a, BrokerUnavailable)]
    assert refused and refused[0].retry and "wakebus endpoints" in refused[0].text
    assert store.quota.used() < store.quota.limit + 2 * retention.MEASURE_BYTES
    again = put("m0", body={"text": "x" * 100_000})
    assert store.transaction([lambda s: s.put(again)])[0]["fresh"] is False
    assert store.put(put("notice", bounded=False))["fresh"] is True
    store.mark("m0", "", state="handled", done=1.0)
    store.mark("m1", "", state="handled", done=1.0)
    while store.quota.used() > store.quota.limit:
        row = store.open_messages()[0]
        store.mark(row["id"], "", state="handled", done=1.0)
        tidied(store)
    assert store.put(put("more"))["fresh"] is True


def test_space_goes_back_to_the_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-8.6: but for a reserve, in steps."""
    monkeypatch.setattr(retention, "RESERVE_BYTES", 1 << 20)
    fill(store, 60, 100_000, done=1.0)
    store.checkpoint()
    large = store.path.stat().st_size
    steps = tidied(store, before=1e9)
    store.checkpoint()
    assert large > 5 << 20 and steps > 4
    assert store.path.stat().st_size < retention.RESERVE_BYTES + (1 << 20)
    check_pages(store.db)


def test_a_file_that_gives_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-8.6: one of the first schema keeps its size."""
    monkeypatch.setattr(retention, "RESERVE_BYTES", 1 << 20)
    store = Store(tmp_path / "bus.db")
    fill(store, 60, 100_000, done=1.0)
    store.db.execute("PRAGMA auto_vacuum=NONE")
    store.db.execute("VACUUM")
    tidied(store, before=1e9)
    assert store.quota.used() < 1 << 20
    store.checkpoint()
    assert store.path.stat().st_size > 5 << 20
    store.close()


def test_copies_of_old_stores_go_too(store: Store) -> None:
    """PROTOCOL-8.8: after the same time."""
    copy = store.path.with_name("bus.db.version-1")
    copy.touch()
    tidied(store, before=copy.stat().st_mtime - 1)
    assert copy.exists()
    tidied(store, before=copy.stat().st_mtime + 1)
    assert not copy.exists()
