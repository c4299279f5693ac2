"""Making a backup: whole or nothing, private, checked, and while a broker writes."""

import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from fakes.broker import Broker
from wakebus.broker import Client
from wakebus.broker.backup import backup_file
from wakebus.broker.backup.backup_file import (
    BackupError,
    check_backup,
    count_messages,
    write_backup,
)
from wakebus.broker.backup.restore import restore_backup
from wakebus.broker.errors import WakebusError
from wakebus.broker.system.sqlite_file import NewerFile


def ids(path: Path) -> set[str]:
    """Return the ids of the messages in a store."""
    with closing(sqlite3.connect(path)) as db:
        return {id for (id,) in db.execute("SELECT id FROM message")}


@pytest.fixture
def folder(broker: Broker) -> Path:
    """The folder of a broker that runs, with three messages that wait."""
    with Client(broker.address) as bus:
        for number in range(3):
            bus.send("worker", f"text {number}", queue=True)
    return broker.folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder for backups."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def test_every_receipt_is_in_a_backup_under_load(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-8.15, 8.16: three backups while four senders send; each restored elsewhere."""
    receipts: list[str] = []
    stop = threading.Event()

    def send() -> None:
        with Client(broker.address) as bus:
            while not stop.is_set():
                receipts.append(bus.send("worker", "x" * 2000, queue=True).id)

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    try:
        for number in range(3):
            before = len(receipts)
            while len(receipts) < before + 100:
                stop.wait(0.01)
            known, target = set(receipts), tmp_path / f"bus{number}.backup"
            counts = write_backup(broker.folder, target)
            restored = restore_backup(target, tmp_path / str(number))
            found = ids(tmp_path / str(number) / "bus.db")
            assert known <= found and len(known) >= 100
            assert counts == restored.counts and counts.waiting == len(found)
    finally:
        stop.set()
        for sender in senders:
            sender.join()
    assert broker.alive


def test_it_is_private_and_alone(folder: Path, here: Path) -> None:
    """PROTOCOL-8.15: 0600 whatever the umask says; no draft and no log beside it."""
    old = os.umask(0)
    try:
        write_backup(folder, here / "b")
    finally:
        os.umask(old)
    assert stat.S_IMODE((here / "b").stat().st_mode) == 0o600
    assert [one.name for one in here.iterdir()] == ["b"]


@pytest.mark.parametrize("name", ["b" * 255, "é" * 127, "b\udcff", "a b?#%41"])
def test_any_name_that_a_file_may_have(name: str, folder: Path, here: Path) -> None:
    """PROTOCOL-8.15: as long as the system takes, of any bytes; read back, and nothing beside."""
    counts = write_backup(folder, here / name)
    assert check_backup(here / name) == counts
    assert [one.name for one in here.iterdir()] == [name]


@pytest.mark.skipif(os.getuid() == 0, reason="root may read and write everything")
def test_what_may_not_be_read_or_written_is_told_so(folder: Path, here: Path) -> None:
    """PROTOCOL-8.15: a folder, and a file that is no bad backup because of that."""
    write_backup(folder, here / "b")
    (here / "b").chmod(0)
    with pytest.raises(BackupError, match="b may not be read"):
        check_backup(here / "b")
    here.chmod(0o500)
    with pytest.raises(BackupError, match="may not be written to"):
        write_backup(folder, here / "c")


@pytest.mark.parametrize("kind", ["file", "link", "folder", "no parent"])
def test_nothing_is_overwritten(kind: str, folder: Path, here: Path) -> None:
    """PROTOCOL-8.15: what has the name stays, and is named."""
    target = here / "b"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        target.symlink_to(here / "elsewhere")
    elif kind == "folder":
        target.mkdir()
    else:
        target = here / "none" / "b"
    before = sorted(here.iterdir())
    with pytest.raises(BackupError) as caught:
        write_backup(folder, target)
    assert caught.value.data["step"] and str(target.parent) in caught.value.text
    assert sorted(here.iterdir()) == before
    assert kind != "file" or target.read_text() == "mine"


def test_one_that_came_meanwhile_stays(
    folder: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.15: also where the name was free when it was looked at."""
    check = backup_file.check_backup

    def check_slowly(path: Path) -> backup_file.StoreCounts:
        (here / "b").write_text("mine")
        return check(path)

    monkeypatch.setattr(backup_file, "check_backup", check_slowly)
    with pytest.raises(BackupError, match="exists"):
        write_backup(folder, here / "b")
    assert [one.name for one in here.iterdir()] == ["b"]
    assert (here / "b").read_text() == "mine"


def test_a_backup_that_fails_leaves_nothing(
    folder: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.15: a full disk, a copy that is none: no file of the name, no draft."""

    def fail(path: Path) -> bytes:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(backup_file, "_content", fail)
    with pytest.raises(BackupError, match="No space left"):
        write_backup(folder, here / "b")
    monkeypatch.undo()
    monkeypatch.setattr(backup_file, "TABLES", ("CREATE TABLE other (x)",))
    with pytest.raises(BackupError, match="no such table: backup"):
        write_backup(folder, here / "b")
    assert [*here.iterdir()] == []


def test_the_files_beside_the_store(folder: Path, tmp_path: Path) -> None:
    """PROTOCOL-8.15: the courier's, notes, copies of files, settings; no link, no log."""
    (folder / "context").mkdir()
    (folder / "context" / "worker.jsonl").write_text("{}\n")
    (folder / "conversations").mkdir()
    (folder / "conversations" / "worker.json").write_text("{}\n")
    (folder / "files").mkdir()
    (folder / "files" / "a.bin").write_bytes(b"\0\xff")
    (folder / "files" / "link").symlink_to("/etc/passwd")
    (folder / "files" / "folder").mkdir()
    (folder / "wakebus.toml").write_text("stale_s = 7\n")
    courier = sqlite3.connect(folder / "courier.db", isolation_level=None)
    courier.execute("PRAGMA journal_mode=WAL")
    courier.execute("CREATE TABLE part (word TEXT)")
    courier.execute("INSERT INTO part VALUES ('sent')")  # in the log alone, and open
    write_backup(folder, tmp_path / "b")
    courier.close()
    found = restore_backup(tmp_path / "b", tmp_path / "bus")
    kept = ["context/worker.jsonl", "conversations/worker.json"]
    assert found.files == [*kept, "courier.db", "files/a.bin", "wakebus.toml"]
    assert (tmp_path / "bus" / "files" / "a.bin").read_bytes() == b"\0\xff"
    with closing(sqlite3.connect(tmp_path / "bus" / "courier.db")) as db:
        assert db.execute("SELECT word FROM part").fetchall() == [("sent",)]


def test_a_bus_without_a_broker(broker: Broker, folder: Path, here: Path) -> None:
    """Stopped or killed: what the log of the store holds is in the backup, too."""
    broker.kill()
    assert write_backup(folder, here / "killed").waiting == 3
    broker.start()
    broker.stop()
    assert write_backup(folder, here / "stopped").waiting == 3
    assert count_messages(folder).waiting == 3


def test_no_bus(tmp_path: Path) -> None:
    """Is no empty backup."""
    with pytest.raises(BackupError, match="nothing to back up"):
        write_backup(tmp_path, tmp_path / "b")
    assert not (tmp_path / "b").exists() and count_messages(tmp_path) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["text", "another database", "damaged", "newer", "cut"])
def test_what_is_no_backup(kind: str, folder: Path, tmp_path: Path) -> None:
    """PROTOCOL-8.16: is told as such before anything is changed."""
    path = tmp_path / "b"
    write_backup(folder, path)
    data = path.read_bytes()
    if kind == "text":
        path.write_text("no database at all, but long enough to be one" * 100)
    elif kind == "another database":
        path.unlink()
        with closing(sqlite3.connect(path)) as db:
            db.execute("CREATE TABLE a (b)")
    elif kind == "damaged":
        path.write_bytes(data[:8192] + bytes(range(256)) * 48 + data[20480:])
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version=99")
    with pytest.raises(WakebusError) as caught:
        check_backup(path)
    assert isinstance(caught.value, NewerFile if kind == "newer" else BackupError)
    with pytest.raises(WakebusError):
        restore_backup(path, tmp_path / "bus")
    assert not (tmp_path / "bus").exists()
