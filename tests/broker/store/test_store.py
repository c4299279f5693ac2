"""The store, as methods on a real file."""

import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import put
from wakebus.broker.errors import (
    BrokerUnavailable,
    Conflict,
    MailboxFull,
    UnknownTarget,
    WakebusError,
)
from wakebus.broker.store.rows import LOG_BYTES, Put
from wakebus.broker.store.store import Operation, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = Store(tmp_path / "bus.db")
    yield found
    found.close()


def run(store: Store, *works: Operation) -> list[Any]:
    """Run in one transaction."""
    return store.transaction(list(works))


def stored(store: Store, one: Put) -> Any:
    """Store one message; return the result."""
    return run(store, lambda s: s.put(one))[0]


def test_a_message_is_stored_once(store: Store) -> None:
    """PROTOCOL-4.5: the second time it is not fresh."""
    assert stored(store, put())["fresh"] is True
    assert stored(store, put())["fresh"] is False
    assert store.counts()["messages"] == 1


def test_another_content_is_a_conflict(store: Store) -> None:
    """PROTOCOL-4.6: with the same id."""
    stored(store, put())
    assert isinstance(stored(store, put(body={"text": "ho"})), Conflict)


def test_a_resend_is_recognised_before_any_refusal(store: Store) -> None:
    """PROTOCOL-4.5: a full mailbox or a forgotten target does not deny what is stored."""
    stored(store, put())
    assert stored(store, put(full="full"))["fresh"] is False
    assert stored(store, put(known=False))["fresh"] is False
    assert isinstance(stored(store, put("m2", full="full")), MailboxFull)
    assert isinstance(stored(store, put("m3", known=False)), UnknownTarget)


def test_a_key_holds_for_24_hours(store: Store) -> None:
    """PROTOCOL-4.7: per sender."""
    now = time.time()
    stored(store, put("m1", key="k", accepted=now - 90_000))
    assert stored(store, put("m2", key="k"))["fresh"] is True
    again = stored(store, put("m3", key="k", body={"text": "other"}))
    assert (again["id"], again["fresh"]) == ("m2", False)
    assert stored(store, put("m4", key="k", **{"from": "another"}))["fresh"] is True


def test_a_bad_function_fails_alone(store: Store) -> None:
    """A bug or a refused row costs nothing to others of its batch."""

    def bug(_: Store) -> None:
        store.put(put("half"))
        raise RecursionError("a bug")

    def twice(s: Store) -> None:
        s._db.execute("INSERT INTO endpoint (name, seen) VALUES ('a', 1), ('a', 1)")

    one, two, three, four = run(
        store, lambda s: s.put(put("m1")), bug, twice, lambda s: s.put(put("m2"))
    )
    assert one["fresh"] and four["fresh"]
    assert isinstance(two, WakebusError) and isinstance(three, WakebusError)
    assert not two.retry, "what cannot be stored must not be tried for ever"
    assert store.find("half") is None


def test_deep_bodies_do_not_end_the_store(store: Store) -> None:
    """A resend compares bodies: the deepest that is allowed is no danger."""
    value: Any = "x"
    for _ in range(31):
        value = [value]
    stored(store, put(body={"v": value}))
    assert stored(store, put(body={"v": value}))["fresh"] is False


def test_a_file_that_cannot_be_written(store: Store) -> None:
    """PROTOCOL-8.3: the whole batch is `unavailable`; afterwards it goes on."""
    store._db.execute("PRAGMA query_only=ON")
    results = run(store, lambda s: s.put(put("m1")), lambda s: s.put(put("m2")))
    assert [type(r) for r in results] == [BrokerUnavailable, BrokerUnavailable]
    store._db.execute("PRAGMA query_only=OFF")
    assert stored(store, put("m1"))["fresh"] is True


def test_marks_are_for_open_messages(store: Store) -> None:
    """What has ended is not changed any more."""
    stored(store, put())
    run(store, lambda s: s.mark("m1", "a\n", state="handled", done=1.0))
    run(store, lambda s: s.mark("m1", "b\n", state="queued"))
    row = store.find("m1")
    assert row is not None and row["state"] == "handled" and row["log"] == "a\n"
    assert store.open_messages() == []


def test_the_steps_of_a_message_have_a_limit(store: Store) -> None:
    """PROTOCOL-6.7: `later` every second for a week does not fill the disk; the end is told."""
    stored(store, put())
    line = "x" * 999 + "\n"
    run(store, *[lambda s: s.mark("m1", line)] * 100)
    run(store, lambda s: s.mark("m1", "end\n", state="handled", done=1.0))
    row = store.find("m1")
    assert row is not None
    assert len(row["log"]) < LOG_BYTES + 1_100 and row["log"].endswith("end\n")


def test_an_answer_is_kept_for_an_asker_without_a_name(store: Store) -> None:
    """PROTOCOL-9.4: only for the one who asked, and only for an answer."""
    stored(store, put("m1", asks=True))
    answer = {"to": "ci", "from": "worker", "reply_to": "m1", "known": False}
    assert isinstance(stored(store, put("a0", body={"type": "ack"}, **answer)), UnknownTarget)
    assert stored(store, put("a1", body={"type": "answer"}, **answer))["state"] == "handled"
    wrong = {**answer, "to": "another"}
    assert isinstance(stored(store, put("a2", body={"type": "answer"}, **wrong)), UnknownTarget)
    stored(store, put("a3", body={"type": "answer"}, claimed=True, **answer))
    claimed = store.answer_to("m1", claimed=True)
    assert claimed is not None and claimed["id"] == "a3"
    found = store.answer_to("m1")
    assert found is not None and found["id"] == "a1"
    assert [row["id"] for row in store.open_messages()] == ["m1"]


def test_what_belongs_together(store: Store) -> None:
    """PROTOCOL-10.4: up and down both links, oldest first, without bodies."""
    stored(store, put("a", body={"text": "secret", "channel": "c:1"}))
    stored(store, put("b", cause="a"))
    stored(store, put("c", reply_to="b"))
    stored(store, put("d"))
    stored(store, put("e", cause="gone"))
    rows = store.related("c")
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    assert rows[0]["message"]["channel"] == "c:1" and "secret" not in repr(rows[0]["message"])
    assert store.related("nothing") == []
    assert [row["id"] for row in store.related("e")] == ["e"]


def test_endpoints(store: Store) -> None:
    """Saved, changed, forgotten."""
    store.save_endpoint("a", seen=1.0, epoch=2)
    store.save_endpoint("a", seen=3.0, declared=True)
    (row,) = store.endpoints()
    assert (row["epoch"], row["seen"], row["declared"]) == (2, 3.0, 1)
    store.forget_endpoint("a")
    assert store.endpoints() == []


def test_the_file_survives_without_a_close(tmp_path: Path) -> None:
    """PROTOCOL-8.1: what was committed is read from the log."""
    one = Store(tmp_path / "bus.db")
    stored(one, put())
    assert (tmp_path / "bus.db-wal").stat().st_size > 0
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in tmp_path.glob("bus.db*"):
        (copy / file.name).write_bytes(file.read_bytes())
    two = Store(copy / "bus.db")
    assert two.find("m1") is not None
    for store in (one, two):
        store.checkpoint()
        store.close()
    assert stat.S_ISREG((copy / "bus.db").stat().st_mode)
