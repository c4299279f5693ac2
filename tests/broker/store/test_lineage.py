"""What belongs together, without reading all of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.hub import put
from wakebus.broker.store import lineage
from wakebus.broker.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = Store(tmp_path / "bus.db")
    yield found
    found.close()


def test_few_bytes_are_read(store: Store) -> None:
    """PROTOCOL-10.4: what is too large for the rest is told from its columns; no body is shown."""
    large = {"text": "z" * 2_000, "channel": "c:1"}
    store.put(put("m0", body=large, hops=3))
    for n in range(1, 4):
        store.put(put(f"m{n}", body=large, hops=3, reply_to=f"m{n - 1}", key=f"k{n}"))
    store.put(put("m4", reply_to="m3"))
    rows = lineage.related(store._all, "m0", most_bytes=5_000)
    told = [row["message"] for row in rows]
    assert [message["id"] for message in told] == ["m0", "m1", "m2", "m3", "m4"]
    assert [message.get("hops") for message in told] == [3, 3, None, None, None]
    assert [message["channel"] for message in told] == ["c:1", "c:1", "", "", ""]
    assert [row["message"]["reply_to"] for row in rows[1:]] == ["m0", "m1", "m2", "m3"]
    assert told[2].items() >= {"from": "ci", "to": "worker", "key": "k2", "type": ""}.items()
    assert "zzz" not in repr(told) and all("ts" in message for message in told)


def test_a_ring_ends(store: Store) -> None:
    """PROTOCOL-10.4: messages that name each other, and one that names itself."""
    store.put(put("a", reply_to="b", cause="b"))
    store.put(put("b", reply_to="a", cause="b"))
    assert [row["id"] for row in lineage.related(store._all, "b")] == ["a", "b"]
