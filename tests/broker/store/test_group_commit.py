"""The writer thread."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import until
from fakes.hub import put
from wakebus.broker.errors import Refused
from wakebus.broker.store import dead_letters, group_commit, schema
from wakebus.broker.store.group_commit import BATCH, QUEUE, Writer
from wakebus.broker.store.store import Store


@pytest.fixture
def woken() -> threading.Event:
    """Set when the thread has results."""
    return threading.Event()


@pytest.fixture
def thread(tmp_path: Path, woken: threading.Event) -> Iterator[Writer]:
    """A thread on an empty store."""
    found = started(Store(tmp_path / "bus.db"), woken)
    yield found
    found.stop()


def started(store: Store, woken: threading.Event) -> Writer:
    """Return a thread that runs."""
    made = Writer(store, woken.set, Store.close)
    made.start()
    return made


def call(act: Callable[[], None]) -> None:
    """Call it."""
    act()


def _number(n: int, _: Store) -> int:
    return n


def _collect_until(thread: Writer, holds: Callable[[], bool]) -> None:
    def collected() -> bool:
        thread.collect(call)
        return holds()

    until(collected)


def test_results_come_in_order_and_when_collected(thread: Writer, woken: threading.Event) -> None:
    """`done` runs in the collecting thread, after the commit."""
    seen: list[Any] = []
    for n in range(50):
        thread.submit(partial(_number, n), seen.append)
    _collect_until(thread, lambda: woken.is_set() and len(seen) == 50)
    assert seen == list(range(50)) and thread.idle()


def test_it_is_idle_only_when_all_is_collected(thread: Writer, woken: threading.Event) -> None:
    """PROTOCOL-1.6: what was accepted is not forgotten at the end."""
    gate = threading.Event()
    thread.submit(lambda _: gate.wait(10), lambda _: None)
    assert not thread.idle()
    gate.set()
    assert woken.wait(10)
    until(lambda: not thread.idle())
    thread.collect(call)
    until(thread.idle)


def test_an_error_is_a_result(thread: Writer, woken: threading.Event) -> None:
    """The one who asked gets it, nobody else."""
    seen: list[Any] = []

    def fails(_: Store) -> None:
        raise Refused("no")

    thread.submit(fails, seen.append)
    thread.submit(lambda _: "fine", seen.append)
    _collect_until(thread, lambda: len(seen) == 2)
    assert isinstance(seen[0], Refused) and seen[1] == "fine"


def test_it_says_when_it_is_full(thread: Writer) -> None:
    """Beyond the queue's limit senders are told `busy`."""
    gate = threading.Event()
    thread.submit(lambda _: gate.wait(10))
    for _ in range(QUEUE + BATCH + 1):
        thread.submit(lambda _: None)
    assert thread.full()
    gate.set()
    until(lambda: not thread.full())


def test_a_fault_ends_the_process(tmp_path: Path) -> None:
    """A mute broker is worse than none: exit status 70, at once."""
    script = (
        "from pathlib import Path\n"
        "from wakebus.broker.store.store import Store\n"
        "from wakebus.broker.store.group_commit import Writer\n"
        f"store = Store(Path({str(tmp_path / 'bus.db')!r}))\n"
        "store.transaction = lambda works: 1 / 0\n"
        "writer = Writer(store, lambda: None, Store.close)\n"
        "writer.start()\n"
        "writer.submit(lambda s: None)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert found.returncode == 70


def test_a_log_that_cannot_be_moved_waits(
    tmp_path: Path, woken: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL-8.3: on a full disk; nothing is lost by it, and the broker goes on."""
    store = Store(tmp_path / "bus.db")
    for n in range(400):
        store.save_endpoint(f"{n}" * 200, seen=1.0)
    store.db.execute("BEGIN IMMEDIATE")  # a checkpoint in a transaction is an error
    store.checkpoint()
    store.db.execute("COMMIT")
    assert "cannot be moved" in caplog.text
    thread = started(store, woken)
    seen: list[Any] = []
    thread.submit(lambda s: len(s.endpoints()), seen.append)
    _collect_until(thread, lambda: seen == [400])
    thread.stop()


class Counted(Store):
    """A store that tells when its log was moved into the file."""

    moved = 0

    def checkpoint(self, *, erase: bool = False) -> bool:
        self.moved += 1
        return super().checkpoint(erase=erase)


def test_the_log_is_moved_in_a_pause(
    tmp_path: Path, woken: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for what was written, however often it is looked at; never for what was only read."""
    monkeypatch.setattr(group_commit, "PAUSE_BYTES", group_commit.COMMIT_BYTES)
    monkeypatch.setattr(group_commit, "PAUSE_S", 0.01)
    store = Counted(tmp_path / "bus.db")
    thread = started(store, woken)
    until(lambda: store.moved == 1)  # what a killed broker may have left
    for n in range(2):
        thread.submit(lambda s, n=n: s.save_endpoint(f"e{n}", seen=1.0))  # type: ignore[misc]
        until(thread.idle)
    until(lambda: store.moved == 2)
    seen: list[Any] = []
    for _ in range(20):
        thread.submit(lambda s: len(s.endpoints()), seen.append)
        until(lambda: not thread._queue)
    _collect_until(thread, lambda: seen == [2] * 20)
    assert store.moved == 2
    thread.stop()


def test_a_long_log_is_moved_without_a_pause(
    tmp_path: Path, woken: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a broker that is never idle would fill the disk."""
    monkeypatch.setattr(group_commit, "CHECKPOINT_BYTES", group_commit.COMMIT_BYTES)
    monkeypatch.setattr(group_commit, "PAUSE_S", 60.0)
    store = Counted(tmp_path / "bus.db")
    thread = started(store, woken)
    for n in range(5):
        thread.submit(lambda s, n=n: s.save_endpoint(f"e{n}", seen=1.0))  # type: ignore[misc]
        until(thread.idle)
    until(lambda: store.moved == 3)
    thread.stop()


BODY = b"a body that somebody wants to be gone"


def holding(store: Store) -> list[str]:
    """Return which files hold the body."""
    files = sorted(store.path.parent.glob(f"{store.path.name}*"))
    return [file.name for file in files if BODY in file.read_bytes()]


def filled(folder: Path, woken: threading.Event) -> tuple[Writer, Store]:
    """Return a thread whose store has the body, often enough for pages of its own, in its file."""
    store = Store(folder / "bus.db")
    thread = started(store, woken)
    text = BODY.decode() * 500
    seen: list[Any] = []
    for n in range(20):
        ended = put(f"m{n}", body={"text": text})
        thread.submit(ended, seen.append)
        thread.submit(partial(_end, f"m{n}"), seen.append)
    _collect_until(thread, lambda: len(seen) == 40)
    assert holding(store)
    return thread, store


def _end(id: str, store: Store) -> None:
    store.mark(id, "", state="refused", done=1.0)


def _purge(store: Store) -> list[Any]:
    return dead_letters.purge(store.db, [f"m{n}" for n in range(20)]).rows


def test_what_is_purged_is_in_no_file_when_that_is_told(
    tmp_path: Path, woken: threading.Event
) -> None:
    """PROTOCOL-10.9: neither in the store, nor in its log; a send beside it is told before."""
    thread, store = filled(tmp_path, woken)
    told: list[Any] = []
    thread.submit(_purge, lambda rows: told.append((len(rows), holding(store))), erases=True)
    _collect_until(thread, lambda: told != [])
    assert told == [(20, [])]
    thread.stop()


def test_a_reader_of_another_program_delays_the_erasing_not_the_answer(
    tmp_path: Path,
    woken: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PROTOCOL-10.9: it is told in the log, once, and done when the reader has gone."""
    monkeypatch.setattr(group_commit, "PAUSE_S", 0.01)
    monkeypatch.setattr(group_commit, "BLOCKED_S", 0.01)
    thread, store = filled(tmp_path, woken)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM message").fetchone()
        told: list[Any] = []
        for _ in range(2):
            thread.submit(_purge, told.append, erases=True)
        _collect_until(thread, lambda: len(told) == 2)
        assert holding(store) and caplog.text.count("another program reads it") == 1
        reader.execute("COMMIT")
    until(lambda: holding(store) == [])
    thread.stop()


def test_what_a_killed_broker_deleted_is_erased_by_the_next_one(
    tmp_path: Path, woken: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.6: its log is there still."""
    monkeypatch.setattr(group_commit, "PAUSE_S", 60.0)
    thread, store = filled(tmp_path, woken)
    seen: list[Any] = []
    thread.submit(_purge, seen.append)
    _collect_until(thread, lambda: seen != [])
    left = tmp_path / "left"
    left.mkdir()
    for end in ("", "-wal"):
        (left / f"bus.db{end}").write_bytes(Path(f"{store.path}{end}").read_bytes())
    thread.stop()
    monkeypatch.setattr(group_commit, "PAUSE_S", 0.01)
    store = Store(left / "bus.db")
    assert holding(store)
    thread = started(store, woken)
    until(lambda: holding(store) == [])
    thread.stop()


def test_what_retention_deletes_is_erased_in_the_next_pause(
    tmp_path: Path, woken: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.6: nobody waits for it."""
    monkeypatch.setattr(group_commit, "PAUSE_S", 0.01)
    thread, store = filled(tmp_path, woken)
    thread.submit(lambda s: s.quota.delete_ends("done IS NOT NULL", (), 1 << 30))
    until(lambda: holding(store) == [])
    until(lambda: not store.quota.unerased)
    thread.stop()


def test_the_log_stays_short_however_much_is_deleted(
    tmp_path: Path, woken: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.6: without a pause, and however little the operations say that they write."""
    monkeypatch.setattr(group_commit, "PAUSE_S", 60.0)
    monkeypatch.setattr(schema, "KEPT_LOG", 1 << 20)
    store = Store(tmp_path / "bus.db")
    store.db.execute(f"PRAGMA journal_size_limit={1 << 20}")
    thread = started(store, woken)
    seen: list[Any] = []
    for n in range(40):
        thread.submit(put(f"m{n}", body={"text": "x" * 200_000}), seen.append, 200_000)
        thread.submit(partial(_end, f"m{n}"), seen.append)
    _collect_until(thread, lambda: len(seen) == 80)
    log = Path(f"{store.path}-wal")
    longest = 0
    for _ in range(20):
        thread.submit(lambda s: s.quota.delete_ends("done IS NOT NULL", (), 500_000), seen.append)
        count = len(seen) + 1
        _collect_until(thread, lambda count=count: len(seen) == count)  # type: ignore[misc]
        longest = max(longest, log.stat().st_size)
    assert sum(seen[80:]) == 40 and longest < 4 << 20
    thread.stop()


def test_what_may_wait_shares_the_next_commit(
    tmp_path: Path, woken: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its order; and alone it does not wait for ever."""
    monkeypatch.setattr(group_commit, "GATHER_S", 30.0)
    store = Store(tmp_path / "bus.db")
    commits: list[int] = []
    transaction = store.transaction

    def counted(works: Any) -> list[Any]:
        commits.append(len(works))
        return transaction(works)

    monkeypatch.setattr(store, "transaction", counted)
    thread = started(store, woken)
    seen: list[Any] = []
    thread.submit(lambda s: "got", seen.append, urgent=False)
    thread.submit(lambda s: "handled", seen.append)
    _collect_until(thread, lambda: seen == ["got", "handled"])
    assert commits == [2]
    monkeypatch.setattr(group_commit, "GATHER_S", 0.01)
    thread.submit(lambda s: "late", seen.append, urgent=False)
    _collect_until(thread, lambda: seen[2:] == ["late"])
    thread.stop()
