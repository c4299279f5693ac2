"""Restoring a backup: what is kept, what is labelled, what is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fakes.broker import Broker, until
from wakebus.broker import Client, Delivery
from wakebus.broker.backup import restore
from wakebus.broker.backup.backup_file import BackupError, write_backup
from wakebus.broker.backup.restore import restore_backup

Seen = list[tuple[str, bool, int]]


def listen(bus: Client, seen: Seen) -> int:
    """Take all messages for `worker`; return the epoch."""

    def handle(delivery: Delivery) -> None:
        seen.append((delivery.message.text, delivery.redelivered, delivery.attempt))

    return bus.register("worker", handle)


def test_the_bus_is_as_it_was(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: what waited comes again, labelled, uncounted; what was sent since is gone."""
    seen: Seen = []
    with Client(broker.address) as bus:
        old = bus.send("worker", "old", queue=True).id
        write_backup(broker.folder, tmp_path / "b")
        new = bus.send("worker", "new", queue=True).id
        epoch = listen(bus, seen)
        bus.wait(new, 30)
    assert [one[:2] for one in seen] == [("old", False), ("new", False)]
    broker.stop()
    found = restore_backup(tmp_path / "b", broker.folder)
    assert (found.counts.waiting, found.files) == (1, [])
    broker.start()
    with Client(broker.address) as bus:
        assert listen(bus, seen) > epoch
        bus.wait(old, 30)
        assert seen[2:] == [("old", True, 1)]
        assert not [one for one in bus.inbox("worker") if one["id"] == new]
    assert found.kept is not None
    with closing(sqlite3.connect(found.kept)) as db:
        assert {id for (id,) in db.execute("SELECT id FROM message")} == {old, new}


def test_what_was_at_work_counts_no_death(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: a holder of then is none now: attempt 1, and no quarantine."""
    with Client(broker.address) as bus:
        seen: Seen = []
        begun: list[str] = []

        def handle(delivery: Delivery) -> None:
            begun.append(delivery.message.id)
            until(lambda: (tmp_path / "b").exists())

        bus.register("worker", handle)
        id = bus.send("worker", "long").id
        until(lambda: begun)
        write_backup(broker.folder, tmp_path / "b")
        bus.wait(id, 30)
    broker.stop()
    restore_backup(tmp_path / "b", broker.folder)
    broker.start()
    with Client(broker.address) as bus:
        listen(bus, seen)
        bus.wait(id, 30)
        assert seen == [("long", True, 1)]


def test_not_under_a_broker(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: one that runs is named with the step, and loses nothing."""
    with Client(broker.address) as bus:
        bus.declare("worker")
        write_backup(broker.folder, tmp_path / "b")
        with pytest.raises(BackupError, match="a broker is running") as caught:
            restore_backup(tmp_path / "b", broker.folder)
        assert "hermes-busd stop" in caught.value.data["step"]
        assert bus.send("worker", "still there").state == "queued"


def test_no_broker_starts_meanwhile(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.16: a listener that starts one finds the locks held."""
    write_backup(broker.folder, tmp_path / "b")
    broker.stop()
    words: list[str] = []

    def start_one(draft: Path, epochs: object) -> None:
        words.append(broker.start().word)

    monkeypatch.setattr(restore, "_make_store", start_one)
    restore_backup(tmp_path / "b", broker.folder)
    assert words == ["already_running"]


def test_what_lies_here_is_newer(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: files that are here stay as they are."""
    (broker.folder / "wakebus.toml").write_text("stale_s = 7\n")
    write_backup(broker.folder, tmp_path / "b")
    broker.stop()
    (broker.folder / "wakebus.toml").write_text("stale_s = 9\n")
    assert restore_backup(tmp_path / "b", broker.folder).files == []
    assert (broker.folder / "wakebus.toml").read_text() == "stale_s = 9\n"


def test_the_log_of_a_killed_broker_is_kept_and_not_played(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: what it held is in the store that is kept, and not in the restored one."""
    write_backup(broker.folder, tmp_path / "b")
    with Client(broker.address) as bus:
        id = bus.send("worker", "in the log", queue=True).id
    broker.kill()
    assert (broker.folder / "bus.db-wal").stat().st_size
    kept = restore_backup(tmp_path / "b", broker.folder).kept
    assert kept is not None and not (broker.folder / "bus.db-wal").exists()
    for path, count in ((kept, 1), (broker.folder / "bus.db", 0)):
        with closing(sqlite3.connect(path)) as db:
            sql = "SELECT count(*) FROM message WHERE id=?"
            assert db.execute(sql, (id,)).fetchone() == (count,)


def test_a_damaged_store_is_set_aside(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: restoring is what one does then; the damaged one is kept, too."""
    write_backup(broker.folder, tmp_path / "b")
    broker.stop()
    (broker.folder / "bus.db").write_bytes(b"garbage" * 1000)
    kept = restore_backup(tmp_path / "b", broker.folder).kept
    assert kept is not None and ".corrupt-" in kept.name
    assert kept.read_bytes() == b"garbage" * 1000
    assert broker.start().word == "ready"


@pytest.mark.parametrize("name", ["../escaped", "/abs", "files/../x", "broker.log", "a/b", ""])
def test_a_backup_names_no_file_elsewhere(name: str, broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.16: somebody else may have made it: nothing is written, nothing is changed."""
    broker.stop()
    write_backup(broker.folder, tmp_path / "b")
    with closing(sqlite3.connect(tmp_path / "b")) as db:
        db.execute("INSERT INTO backup_file VALUES ('context/ok', x'00')")
        db.execute("INSERT INTO backup_file VALUES (?, x'00')", (name,))
        db.commit()
    before = (broker.folder / "bus.db").read_bytes()
    with pytest.raises(BackupError, match="no file of a bus"):
        restore_backup(tmp_path / "b", broker.folder)
    assert (broker.folder / "bus.db").read_bytes() == before
    assert not (broker.folder / "context" / "ok").exists()
    assert not [*broker.folder.glob("*draft*")]
