"""What the courier remembers: parts, whose they are, and what becomes of them over a restart."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wakebus.adapters.base import Part, Progress
from wakebus.adapters.courier import delivery_log as module
from wakebus.adapters.courier import delivery_log_rows as rows_module
from wakebus.adapters.courier.delivery_log import Book, Notes, Overtaken
from wakebus.adapters.delivery.retry import Stopped
from wakebus.adapters.errors import Unavailable


class Clock:
    """Running time, set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "courier.db"


@pytest.fixture
def book(path: Path, clock: Clock) -> Iterator[Book]:
    found = Book(path, ticks=clock)
    yield found
    found.close()


@pytest.fixture
def after(path: Path, clock: Clock) -> Iterator[Book]:
    """The book as another process finds it."""
    found = Book(path, ticks=clock)
    yield found
    found.close()


def rows(path: Path, table: str) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        db.close()


def test_it_is_the_progress_of_deliver(book: Book) -> None:
    """ADP-6.8: what `deliver` writes to."""
    found: Progress = book.take("m1", 1)
    assert found.parts() == {}


def test_parts_are_kept_over_a_restart(book: Book, after: Book) -> None:
    """ADP-6.8: a sent part with its id; a begun one with the time of its first try."""
    notes = book.take("m1", 1)
    notes.begin_part(0, 100.0)
    notes.end_part(0, "sent", "om_1")
    notes.begin_part(1, 105.0)
    assert notes.parts() == {0: Part("sent", "om_1", 100.0), 1: Part("begun", "", 105.0)}
    assert after.take("m1", 2).parts() == notes.parts()


def test_not_sent_is_as_if_never_begun(book: Book, after: Book) -> None:
    """ADP-6.8: what was certainly not accepted leaves nothing."""
    notes = book.take("m1", 1)
    notes.begin_part(0, 100.0)
    notes.end_part(0, "not_sent")
    assert notes.parts() == {} == after.take("m1", 2).parts()


def test_a_doubt_stays(book: Book, after: Book) -> None:
    """ADP-6.8: `not_sent` of a later try does not undo that an earlier one may be accepted."""
    notes = book.take("m1", 1)
    notes.begin_part(0, 100.0)
    notes.end_part(0, "uncertain")
    notes.begin_part(0, 160.0)
    notes.end_part(0, "not_sent")
    assert notes.parts() == {0: Part("begun", "", 100.0)} == after.take("m1", 2).parts()
    again = after.take("m1", 2)
    again.begin_part(0, 200.0)
    again.end_part(0, "sent", "om_1")
    assert again.parts() == {0: Part("sent", "om_1", 100.0)} == book.take("m1", 2).parts()


def test_the_chat_of_what_was_begun(book: Book, after: Book) -> None:
    """ADP-6.26: it is kept with the first part; while nothing is begun, it may be another."""
    notes = book.take("m1", 1, "x:a")
    assert (notes.chat, notes.found(), book.chat("m1")) == ("x:a", "", "")
    assert book.take("m1", 1, "x:b").chat == "x:b"
    notes.begin_part(0, 1.0, "x:looked-up")
    for kept in (book, after):
        assert kept.chat("m1") == "x:b"
        again = kept.take("m1", 2, "x:c")
        assert (again.chat, again.found()) == ("x:b", "x:looked-up")
    again.end_part(0, "not_sent")
    assert (after.chat("m1"), after.take("m1", 2, "x:c").chat) == ("", "x:c")
    assert book.chat("m2") == ""


def test_messages_do_not_mix(book: Book) -> None:
    """ADP-6.8: parts belong to one message."""
    book.take("m1", 1).begin_part(0, 1.0)
    assert book.take("m2", 1).parts() == {}


def test_what_was_known_is_lost(book: Book, after: Book) -> None:
    """ADP-6.7: begun under notes that are gone: only then `lost`."""
    assert not book.take("m1", 1).lost
    assert not after.take("m1", 2, begun=True).lost
    assert not book.take("m2", 1).lost
    assert book.take("m3", 1, begun=True).lost


def test_damage_while_it_runs(
    book: Book, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.12, ADP-6.7: set aside at the next step; what this process worked on is `lost`."""
    notes = book.take("m1", 1)
    notes.begin_part(0, 1.0)
    book.close()
    book._closed = False
    path.write_bytes(b"garbage" * 100)
    assert book.take("m1", 1).lost
    assert not book.take("m2", 1).lost
    assert "is damaged" in caplog.text


def test_an_older_courier_begins_nothing(book: Book, after: Book) -> None:
    """ADP-6.10: once a higher epoch took the message, the older one is fenced by the notes."""
    loser = book.take("m1", 1)
    loser.begin_part(0, 100.0)
    winner = after.take("m1", 2)
    assert winner.parts() == {0: Part("begun", "", 100.0)}
    with pytest.raises(Overtaken):
        loser.begin_part(1, 101.0)
    with pytest.raises(Overtaken):
        book.take("m1", 1)
    assert book.take("m1", 1, force=True).parts() == winner.parts()


def test_an_older_courier_takes_nothing_away(book: Book, after: Book) -> None:
    """ADP-6.10: its `not_sent` does not undo what the winner began; its `sent` is believed."""
    loser, other = book.take("m1", 1), book.take("m2", 1)
    loser.begin_part(0, 100.0)
    other.begin_part(0, 100.0)
    after.take("m1", 2).begin_part(0, 101.0)
    after.take("m2", 2)
    loser.end_part(0, "not_sent")
    other.end_part(0, "sent", "om_2")
    assert after.take("m1", 2).parts() == {0: Part("begun", "", 100.0)}
    assert after.take("m2", 2).parts() == {0: Part("sent", "om_2", 100.0)}


def test_told_to_stop(book: Book) -> None:
    """ADP-6.11: nothing more begins."""
    notes = book.take("m1", 1)
    notes.halt = threading.Event()
    notes.begin_part(0, 1.0)
    notes.halt.set()
    with pytest.raises(Stopped):
        notes.begin_part(1, 2.0)
    notes.end_part(0, "sent", "om_1")
    assert notes.sent == 1


def test_what_is_over_is_known_for_a_day(book: Book, path: Path, clock: Clock, after: Book) -> None:
    """ADP-6.8: the broker may not have stored its end; it comes again, and nothing is sent."""
    notes = book.take("m1", 1)
    notes.begin_part(0, 1.0)
    notes.end_part(0, "sent", "om_1")
    notes.over()
    clock.at = rows_module.ENDED_S - 1
    assert book.purge() == 0
    assert after.take("m1", 2).parts() == {0: Part("sent", "om_1", 1.0)}
    after.take("m1", 2).over()
    clock.at *= 3
    assert book.purge() == 1
    assert (rows(path, "message"), rows(path, "part")) == (0, 0)


def test_what_was_refused_may_be_retried(book: Book, clock: Clock, after: Book) -> None:
    """ADP-6.8: what was sent of it stays known for as long as a message lives."""
    notes = book.take("m1", 1)
    notes.begin_part(0, 1.0)
    notes.end_part(0, "sent", "om_1")
    notes.over(again=True)
    clock.at = 7 * 86_400
    assert book.purge() == 0 and after.take("m1", 1).sent == 1


def test_leftovers_go_after_eight_days(book: Book, after: Book, clock: Clock) -> None:
    """ADP-6.12: of running time; what this process has in hand stays."""
    book.take("m1", 1).begin_part(0, 1.0)
    after.open()
    clock.at = rows_module.LEFT_S + 1
    assert book.purge() == 0
    assert after.purge() == 1


def test_the_clock_stands_while_nothing_runs(book: Book, path: Path, clock: Clock) -> None:
    """ADP-6.12: neither a wall clock nor a machine that boots makes rows old."""
    clock.at = 1e9
    book.take("m1", 1).begin_part(0, 1.0)
    later = Book(path, ticks=lambda: 5.0)
    assert later.purge() == 0 and later.take("m1", 2).parts()
    later.close()


def test_it_is_bounded(
    book: Book, path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """ADP-6.12: beyond a number of ended messages the oldest go early."""
    monkeypatch.setattr(rows_module, "MAX_ENDED", 3)
    monkeypatch.setattr(module, "PURGE_EVERY", 10)
    monkeypatch.setattr(module, "MAX_OPEN", 4)
    for number in range(30):
        clock.at += 1
        book.take(f"m{number}", 1).over()
        book.take(f"n{number}", 1)
    assert rows(path, "message") <= 30 + 3 + 10
    assert len(book._open) == 4


def _lock(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("BEGIN IMMEDIATE")
    return db


def test_a_disk_that_does_not_write(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.12: nothing begins; what has ended is known, and stored as soon as it can be."""
    monkeypatch.setattr("wakebus.adapters.courier.delivery_log_file.SHARED_S", 0.05)
    book, after = Book(path, ticks=clock), Book(path, ticks=clock)
    notes = book.take("m1", 1)
    notes.begin_part(0, 1.0)
    lock = _lock(path)
    notes.end_part(0, "sent", "om_1")
    with pytest.raises(Unavailable, match=r"courier\.db cannot be written"):
        notes.begin_part(1, 2.0)
    assert notes.parts() == {0: Part("sent", "om_1", 1.0)}
    assert "the end of part 1 is not stored yet" in caplog.text
    lock.execute("ROLLBACK")
    lock.close()
    book.take("m2", 1)
    assert after.take("m1", 2).parts() == notes.parts()
    book.close()
    after.close()


def test_after_its_end(book: Book) -> None:
    """ADP-6.11: a handler that is still there when the courier ends begins nothing."""
    notes = book.take("m1", 1)
    book.close()
    with pytest.raises(Unavailable, match="the courier ends"):
        notes.begin_part(0, 1.0)


def test_many_threads(book: Book, after: Book) -> None:
    """ADP-6.8: lanes write at the same time."""

    def work(number: int) -> Notes:
        notes = book.take(f"m{number}", 1)
        for part in range(5):
            notes.begin_part(part, float(part))
            notes.end_part(part, "sent", f"om_{part}")
        return notes

    with ThreadPoolExecutor(16) as pool:
        assert [notes.sent for notes in pool.map(work, range(64))] == [5] * 64
    assert {after.take(f"m{number}", 2).sent for number in range(64)} == {5}


def test_long_waits(book: Book, after: Book) -> None:
    """ADP-6.28: what platforms asked for is there after a restart, as it was said last."""
    assert book.waits() == {}
    book.keep_waits({("x",): 5.0, ("x", "a"): 7.0})
    assert after.waits() == {("x",): 5.0, ("x", "a"): 7.0}
    book.keep_waits({("y", "b"): 9.0})
    assert after.waits() == {("y", "b"): 9.0}
    book.close()
    book.keep_waits({})
