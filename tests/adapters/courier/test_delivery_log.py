"""What the courier remembers: parts, whose they are, and what becomes of them over a restart."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wakebus.adapters.base import Part, Progress
from wakebus.adapters.courier import delivery_log, delivery_log_rows
from wakebus.adapters.courier.delivery_log import DeliveryLog, MessageRecord, Overtaken
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
def log(path: Path, clock: Clock) -> Iterator[DeliveryLog]:
    found = DeliveryLog(path, ticks=clock)
    yield found
    found.close()


@pytest.fixture
def after(path: Path, clock: Clock) -> Iterator[DeliveryLog]:
    """The log as another process finds it."""
    found = DeliveryLog(path, ticks=clock)
    yield found
    found.close()


def rows(path: Path, table: str) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    finally:
        db.close()


def test_it_is_the_progress_of_deliver(log: DeliveryLog) -> None:
    """ADP-6.8: what `deliver` writes to."""
    found: Progress = log.claim("m1", 1)
    assert found.parts() == {}


def test_parts_are_kept_over_a_restart(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.8: a sent part with its id; a begun one with the time of its first try."""
    record = log.claim("m1", 1)
    record.begin_part(0, 100.0)
    record.end_part(0, "sent", "om_1")
    record.begin_part(1, 105.0)
    assert record.parts() == {0: Part("sent", "om_1", 100.0), 1: Part("begun", "", 105.0)}
    assert after.claim("m1", 2).parts() == record.parts()


def test_not_sent_is_as_if_never_begun(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.8: what was certainly not accepted leaves nothing."""
    record = log.claim("m1", 1)
    record.begin_part(0, 100.0)
    record.end_part(0, "not_sent")
    assert record.parts() == {} == after.claim("m1", 2).parts()


def test_a_doubt_stays(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.8: `not_sent` of a later try does not undo that an earlier one may be accepted."""
    record = log.claim("m1", 1)
    record.begin_part(0, 100.0)
    record.end_part(0, "uncertain")
    record.begin_part(0, 160.0)
    record.end_part(0, "not_sent")
    assert record.parts() == {0: Part("begun", "", 100.0)} == after.claim("m1", 2).parts()
    again = after.claim("m1", 2)
    again.begin_part(0, 200.0)
    again.end_part(0, "sent", "om_1")
    assert again.parts() == {0: Part("sent", "om_1", 100.0)} == log.claim("m1", 2).parts()


def test_the_chat_of_what_was_begun(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.26: it is kept with the first part; while nothing is begun, it may be another."""
    record = log.claim("m1", 1, "x:a")
    assert (record.chat, record.chat_token(), log.chat("m1")) == ("x:a", "", "")
    assert log.claim("m1", 1, "x:b").chat == "x:b"
    record.begin_part(0, 1.0, "x:looked-up")
    for kept in (log, after):
        assert kept.chat("m1") == "x:b"
        again = kept.claim("m1", 2, "x:c")
        assert (again.chat, again.chat_token()) == ("x:b", "x:looked-up")
    again.end_part(0, "not_sent")
    assert (after.chat("m1"), after.claim("m1", 2, "x:c").chat) == ("", "x:c")
    assert log.chat("m2") == ""


def test_messages_do_not_mix(log: DeliveryLog) -> None:
    """ADP-6.8: parts belong to one message."""
    log.claim("m1", 1).begin_part(0, 1.0)
    assert log.claim("m2", 1).parts() == {}


def test_what_was_known_is_lost(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.7: begun under record that are gone: only then `lost`."""
    assert not log.claim("m1", 1).lost
    assert not after.claim("m1", 2, begun=True).lost
    assert not log.claim("m2", 1).lost
    assert log.claim("m3", 1, begun=True).lost


def test_damage_while_it_runs(
    log: DeliveryLog, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.12, ADP-6.7: set aside at the next step; what this process worked on is `lost`."""
    record = log.claim("m1", 1)
    record.begin_part(0, 1.0)
    log.close()
    log._closed = False
    path.write_bytes(b"garbage" * 100)
    assert log.claim("m1", 1).lost
    assert not log.claim("m2", 1).lost
    assert "is damaged" in caplog.text


def test_an_older_courier_begins_nothing(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.10: once a higher epoch took the message, the older one is fenced by the record."""
    loser = log.claim("m1", 1)
    loser.begin_part(0, 100.0)
    winner = after.claim("m1", 2)
    assert winner.parts() == {0: Part("begun", "", 100.0)}
    with pytest.raises(Overtaken):
        loser.begin_part(1, 101.0)
    with pytest.raises(Overtaken):
        log.claim("m1", 1)
    assert log.claim("m1", 1, force=True).parts() == winner.parts()


def test_an_older_courier_takes_nothing_away(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.10: its `not_sent` does not undo what the winner began; its `sent` is believed."""
    loser, other = log.claim("m1", 1), log.claim("m2", 1)
    loser.begin_part(0, 100.0)
    other.begin_part(0, 100.0)
    after.claim("m1", 2).begin_part(0, 101.0)
    after.claim("m2", 2)
    loser.end_part(0, "not_sent")
    other.end_part(0, "sent", "om_2")
    assert after.claim("m1", 2).parts() == {0: Part("begun", "", 100.0)}
    assert after.claim("m2", 2).parts() == {0: Part("sent", "om_2", 100.0)}


def test_told_to_stop(log: DeliveryLog) -> None:
    """ADP-6.11: nothing more begins."""
    record = log.claim("m1", 1)
    record.halt = threading.Event()
    record.begin_part(0, 1.0)
    record.halt.set()
    with pytest.raises(Stopped):
        record.begin_part(1, 2.0)
    record.end_part(0, "sent", "om_1")
    assert record.sent == 1


def test_what_is_over_is_known_for_a_day(
    log: DeliveryLog, path: Path, clock: Clock, after: DeliveryLog
) -> None:
    """ADP-6.8: the broker may not have stored its end; it comes again, and nothing is sent."""
    record = log.claim("m1", 1)
    record.begin_part(0, 1.0)
    record.end_part(0, "sent", "om_1")
    record.finish()
    clock.at = delivery_log_rows.ENDED_S - 1
    assert log.purge() == 0
    assert after.claim("m1", 2).parts() == {0: Part("sent", "om_1", 1.0)}
    after.claim("m1", 2).finish()
    clock.at *= 3
    assert log.purge() == 1
    assert (rows(path, "message"), rows(path, "part")) == (0, 0)


def test_what_was_refused_may_be_retried(
    log: DeliveryLog, clock: Clock, after: DeliveryLog
) -> None:
    """ADP-6.8: what was sent of it stays known for as long as a message lives."""
    record = log.claim("m1", 1)
    record.begin_part(0, 1.0)
    record.end_part(0, "sent", "om_1")
    record.finish(again=True)
    clock.at = 7 * 86_400
    assert log.purge() == 0 and after.claim("m1", 1).sent == 1


def test_leftovers_go_after_eight_days(log: DeliveryLog, after: DeliveryLog, clock: Clock) -> None:
    """ADP-6.12: of running time; what this process has in hand stays."""
    log.claim("m1", 1).begin_part(0, 1.0)
    after.open()
    clock.at = delivery_log_rows.LEFT_S + 1
    assert log.purge() == 0
    assert after.purge() == 1


def test_the_clock_stands_while_nothing_runs(log: DeliveryLog, path: Path, clock: Clock) -> None:
    """ADP-6.12: neither a wall clock nor a machine that boots makes rows old."""
    clock.at = 1e9
    log.claim("m1", 1).begin_part(0, 1.0)
    later = DeliveryLog(path, ticks=lambda: 5.0)
    assert later.purge() == 0 and later.claim("m1", 2).parts()
    later.close()


def test_it_is_bounded(
    log: DeliveryLog, path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """ADP-6.12: beyond a number of ended messages the oldest go early."""
    monkeypatch.setattr(delivery_log_rows, "MAX_ENDED", 3)
    monkeypatch.setattr(delivery_log, "PURGE_EVERY", 10)
    monkeypatch.setattr(delivery_log, "MAX_OPEN", 4)
    for number in range(30):
        clock.at += 1
        log.claim(f"m{number}", 1).finish()
        log.claim(f"n{number}", 1)
    assert rows(path, "message") <= 30 + 3 + 10
    assert len(log._open) == 4


def _lock(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("BEGIN IMMEDIATE")
    return db


def test_a_disk_that_does_not_write(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.12: nothing begins; what has ended is known, and stored as soon as it can be."""
    monkeypatch.setattr("wakebus.adapters.courier.delivery_log_file.SHARED_S", 0.05)
    log, after = DeliveryLog(path, ticks=clock), DeliveryLog(path, ticks=clock)
    record = log.claim("m1", 1)
    record.begin_part(0, 1.0)
    lock = _lock(path)
    record.end_part(0, "sent", "om_1")
    with pytest.raises(Unavailable, match=r"courier\.db cannot be written"):
        record.begin_part(1, 2.0)
    assert record.parts() == {0: Part("sent", "om_1", 1.0)}
    assert "the end of part 1 is not stored yet" in caplog.text
    lock.execute("ROLLBACK")
    lock.close()
    log.claim("m2", 1)
    assert after.claim("m1", 2).parts() == record.parts()
    log.close()
    after.close()


def test_after_its_end(log: DeliveryLog) -> None:
    """ADP-6.11: a handler that is still there when the courier ends begins nothing."""
    record = log.claim("m1", 1)
    log.close()
    with pytest.raises(Unavailable, match="the courier ends"):
        record.begin_part(0, 1.0)


def test_many_threads(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.8: lanes write at the same time."""

    def work(number: int) -> MessageRecord:
        record = log.claim(f"m{number}", 1)
        for part in range(5):
            record.begin_part(part, float(part))
            record.end_part(part, "sent", f"om_{part}")
        return record

    with ThreadPoolExecutor(16) as pool:
        assert [record.sent for record in pool.map(work, range(64))] == [5] * 64
    assert {after.claim(f"m{number}", 2).sent for number in range(64)} == {5}


def test_long_waits(log: DeliveryLog, after: DeliveryLog) -> None:
    """ADP-6.28: what platforms asked for is there after a restart, as it was said last."""
    assert log.cooldowns() == {}
    log.save_cooldowns({("x",): 5.0, ("x", "a"): 7.0})
    assert after.cooldowns() == {("x",): 5.0, ("x", "a"): 7.0}
    log.save_cooldowns({("y", "b"): 9.0})
    assert after.cooldowns() == {("y", "b"): 9.0}
    log.close()
    log.save_cooldowns({})
