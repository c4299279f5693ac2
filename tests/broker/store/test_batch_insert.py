"""Many at once are what one by one would have been: on a real file."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import put
from wakebus.broker.errors import BrokerUnavailable, Conflict, MailboxFull, UnknownTarget
from wakebus.broker.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = Store(tmp_path / "bus.db")
    yield found
    found.close()


def rows(store: Store) -> list[tuple[Any, ...]]:
    """Return all that is stored, in its order."""
    found = store.db.execute("SELECT * FROM message ORDER BY seq")
    return [tuple(row) for row in found]


@pytest.mark.parametrize("number", [1, 2, 24, 26, 251, 612])
def test_it_is_what_one_by_one_would_be(store: Store, tmp_path: Path, number: int) -> None:
    """Every column, the order and the numbers, across the sizes of the statements."""
    puts = [put(f"m{n}", accepted=5.0 + n, body={"text": f"t{n}"}) for n in range(number)]
    other = Store(tmp_path / "other.db")
    together = store.transaction(puts)
    apart = [other.transaction([one])[0] for one in puts]
    assert together == apart
    assert rows(store) == rows(other)
    other.close()


def test_what_needs_a_look_keeps_its_place(store: Store) -> None:
    """PROTOCOL-7.1: order is that of arrival, whoever went one by one."""
    puts = [put("a"), put("b"), put("c", key="k"), put("d"), put("e"), put("f", key="k"), put("g")]
    results = store.transaction(puts)
    assert [row["id"] for row in results] == ["a", "b", "c", "d", "e", "c", "g"]
    stored = store.db.execute("SELECT id FROM message ORDER BY seq")
    assert [row["id"] for row in stored] == ["a", "b", "c", "d", "e", "g"]


def test_resends_among_new_ones(store: Store) -> None:
    """PROTOCOL-4.5, PROTOCOL-4.6: of what is stored, and twice in one batch."""
    store.transaction([put("a"), put("b")])
    results = store.transaction([put("x"), put("b"), put("y"), put("y"), put("a", body={"n": 1})])
    assert [row["fresh"] for row in results[:4]] == [True, False, True, False]
    assert isinstance(results[4], Conflict)
    assert store.counts()["messages"] == 4


def test_refusals_harm_no_other(store: Store) -> None:
    """PROTOCOL-4.8, PROTOCOL-4.10: each is told by itself."""
    puts = [put("a"), put("b", full="full"), put("c"), put("d", known=False), put("e")]
    results = store.transaction(puts)
    assert [type(results[n]) for n in (1, 3)] == [MailboxFull, UnknownTarget]
    assert [results[n]["fresh"] for n in (0, 2, 4)] == [True] * 3
    assert store.counts()["messages"] == 3


def test_other_work_between(store: Store) -> None:
    """What a function sees is what was before it."""
    seen = store.transaction([put("a"), put("b"), lambda s: s.counts()["messages"], put("c")])
    assert seen[2] == 2


def test_a_row_that_the_store_does_not_take(store: Store) -> None:
    """It fails alone: then one by one."""
    bad = replace(put("bad"), accepted=None)  # type: ignore[arg-type]
    results = store.transaction([put("a"), bad, put("c")])
    assert [isinstance(result, dict) for result in results] == [True, False, True]
    assert store.counts()["messages"] == 2


def test_a_full_store(store: Store) -> None:
    """PROTOCOL-8.8: nothing of the batch comes in, and each is told."""
    store.transaction([put(f"m{n}", accepted=time.time()) for n in range(3)])
    store.quota.limit = 1
    results = store.transaction([put(f"x{n}", body={"text": "t" * 900_000}) for n in range(4)])
    assert any(isinstance(result, BrokerUnavailable) for result in results)
    assert all(isinstance(r, BrokerUnavailable) for r in results[results.index(_first(results)) :])
    assert store.counts()["messages"] <= 6


def _first(results: list[Any]) -> Any:
    return next(result for result in results if isinstance(result, BrokerUnavailable))
