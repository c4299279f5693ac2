"""Opening the store: damage is set aside, never deleted, never written to."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from fakes.hub import put
from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.store.recovery import close_store, lost_files, open_store
from wakebus.broker.store.store import Damaged, Store
from wakebus.broker.system.sqlite_file import NewerFile


def aside(folder: Path) -> list[str]:
    """Return the names of what was set aside, without their time; of a log that has anything."""
    found = [p for p in folder.glob("bus.db.corrupt-*") if p.stat().st_size]
    return sorted({p.name.split("Z")[-1] for p in found} - {"-shm"})


def grown(path: Path) -> bytes:
    """Make a store with some pages; return its bytes."""
    store = open_store(path, "boot-1")
    for n in range(300):
        store.save_endpoint(f"endpoint-{n:04}" * 4, seen=1.0)
    store.close()
    return path.read_bytes()


def test_a_new_store(tmp_path: Path) -> None:
    """It remembers the machine's boot."""
    store = open_store(tmp_path / "bus.db", "boot-1")
    assert store.boot() == "boot-1"
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-8.4: renamed with its log, said loudly, and a new one is made."""
    (tmp_path / "bus.db").write_bytes(b"no database at all" * 100)
    (tmp_path / "bus.db-wal").write_bytes(b"old log")
    store = open_store(tmp_path / "bus.db", "boot-1")
    assert store.endpoints() == []
    (name,) = store.counts()["set_aside"]
    store.close()
    assert (tmp_path / name).read_bytes() == b"no database at all" * 100
    assert (tmp_path / f"{name}-wal").read_bytes() == b"old log"
    assert "damaged" in caplog.text and name in caplog.text


def test_damage_inside_is_found_after_another_boot(tmp_path: Path) -> None:
    """PROTOCOL-8.4: the whole file is looked through then, and not after a mere kill."""
    path = tmp_path / "bus.db"
    data = bytearray(grown(path))
    data[8192:12288] = b"\xa5" * 4096
    path.write_bytes(data)
    store = open_store(path, "boot-1")  # the header is good: a kill costs no look
    store.abandon()
    assert aside(tmp_path) == []
    store = open_store(path, "boot-2")
    assert store.endpoints() == [] and store.boot() == "boot-2"
    store.close()
    assert aside(tmp_path) == ["", "-wal"]


def test_damage_that_sqlite_meets(tmp_path: Path) -> None:
    """PROTOCOL-8.4: the store ends at once, and the next start looks through the file."""
    path = tmp_path / "bus.db"
    data = bytearray(grown(path))
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    store = Store(path)
    with pytest.raises(Damaged, match=r"bus\.db"):
        store.transaction([lambda s: s.endpoints()])
    assert store.damage_mark.exists()
    store.abandon()
    again = open_store(path, "boot-1")
    assert again.endpoints() == [] and not again.damage_mark.exists()
    again.close()
    assert aside(tmp_path) == [""]


def test_a_good_file_is_kept_when_it_was_doubted(tmp_path: Path) -> None:
    """PROTOCOL-8.4: a look is only a look."""
    path = tmp_path / "bus.db"
    grown(path)
    (tmp_path / "bus.db.suspect").touch()
    store = open_store(path, "boot-2")
    assert len(store.endpoints()) == 300 and not store.damage_mark.exists()
    store.close()
    assert aside(tmp_path) == []


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    """PROTOCOL-8.5: neither set aside nor changed."""
    path = tmp_path / "bus.db"
    grown(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerFile):
        open_store(path, "boot-1")
    assert path.read_bytes() == before and aside(tmp_path) == []


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    """What is no damage is said, not moved."""
    (tmp_path / "bus.db").mkdir()
    with pytest.raises(BrokerUnavailable, match=r"bus\.db"):
        open_store(tmp_path / "bus.db", "boot-1")
    shutil.rmtree(tmp_path / "bus.db")


def test_a_newer_store_with_a_log_is_left_alone(tmp_path: Path) -> None:
    """PROTOCOL-8.5: its log is not moved into the file, which closing it would do."""
    path, wal = tmp_path / "bus.db", tmp_path / "bus.db-wal"
    store = open_store(path, "boot-1")
    store.db.execute("PRAGMA user_version=99")
    before = path.read_bytes(), wal.read_bytes()
    store.abandon()
    path.write_bytes(before[0])
    wal.write_bytes(before[1])
    with pytest.raises(NewerFile):
        open_store(path, "boot-1")
    assert (path.read_bytes(), wal.read_bytes()) == before


def test_a_garbage_log(tmp_path: Path) -> None:
    """PROTOCOL-8.4: SQLite would drop it without a word; one that was not begun is no damage."""
    path = tmp_path / "bus.db"
    grown(path)
    (tmp_path / "bus.db-wal").write_bytes(b"\0" * 4096)
    store = open_store(path, "boot-1")
    assert len(store.endpoints()) == 300
    store.close()
    (tmp_path / "bus.db-wal").write_bytes(b"garbage" * 1000)
    store = open_store(path, "boot-1")
    assert store.endpoints() == []
    store.close()
    assert aside(tmp_path) == ["", "-wal"]


def test_a_link(tmp_path: Path) -> None:
    """PROTOCOL-8.12: it would make the broker write where its owner wants."""
    (tmp_path / "bus.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BrokerUnavailable, match="move it away"):
        open_store(tmp_path / "bus.db", "boot-1")
    assert not (tmp_path / "elsewhere").exists()


def test_an_empty_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-8.12: nothing is silently empty."""
    (tmp_path / "bus.db").touch()
    open_store(tmp_path / "bus.db", "boot-1").close()
    assert "is empty" in caplog.text


def test_what_became_of_the_files(tmp_path: Path) -> None:
    """PROTOCOL-8.11: each kind is told by its name."""
    path = tmp_path / "bus.db"
    store = open_store(path, "boot-1")
    assert lost_files(store) == ""
    wal = tmp_path / "bus.db-wal"
    wal.rename(tmp_path / "w")
    assert lost_files(store) == f"{wal} was removed under the broker"
    (tmp_path / "w").rename(wal)
    path.rename(tmp_path / "b")
    assert lost_files(store) == f"{path} was removed under the broker"
    path.touch()
    assert lost_files(store) == f"{path} was replaced under the broker"
    (tmp_path / "b").replace(path)
    store.close()


def test_a_store_that_lost_its_file_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL-8.11: whole, private, and told with what to do."""
    path = tmp_path / "bus.db"
    store = open_store(path, "boot-1")
    store.save_endpoint("e", seen=1.0)
    path.unlink()
    close_store(store)
    (copy,) = tmp_path.glob("bus.db.rescued-*Z")
    assert copy.name in caplog.text and copy.stat().st_mode & 0o077 == 0
    for left in tmp_path.glob("bus.db-*"):
        left.unlink()
    copy.rename(path)
    again = open_store(path, "boot-1")
    assert [row["name"] for row in again.endpoints()] == ["e"]
    close_store(again)


def test_a_close_that_fails_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-8.3: what is in the log stays there; nobody is harmed."""
    store = open_store(tmp_path / "bus.db", "boot-1")
    store.abandon()
    close_store(store)
    assert "not closed cleanly" in caplog.text


@pytest.mark.parametrize("waits", [True, False])
def test_a_folder_that_went(tmp_path: Path, waits: bool) -> None:
    """PROTOCOL-1.12: made again only for what somebody waits for."""
    folder = tmp_path / "bus"
    folder.mkdir()
    store = open_store(folder / "bus.db", "boot-1")
    if waits:
        store.transaction([lambda s: s.put(put())])
    shutil.rmtree(folder)
    close_store(store)
    assert folder.exists() is waits
    assert len(list(tmp_path.glob("bus/bus.db.rescued-*Z"))) == waits


def test_all_around_it_went(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-1.12: nobody's folder is made again somewhere else's place; it is told."""
    folder = tmp_path / "root" / "bus"
    folder.mkdir(parents=True)
    store = open_store(folder / "bus.db", "boot-1")
    store.transaction([lambda s: s.put(put())])
    shutil.rmtree(tmp_path / "root")
    close_store(store)
    assert not (tmp_path / "root").exists() and "1 waiting messages are lost" in caplog.text


def waiting(path: Path, count: int = 300) -> tuple[bytes, bytes]:
    """Leave a store of a killed broker, all of it in the log; return file and log."""
    store = open_store(path, "boot-1")
    for n in range(count):
        store.transaction([lambda s, n=n: s.put(put(f"m{n:020}"))])  # type: ignore[misc]
    store.abandon()
    return path.read_bytes(), Path(f"{path}-wal").read_bytes()


def test_a_damaged_store_is_not_written_to(tmp_path: Path) -> None:
    """PROTOCOL-8.4: neither the file nor its log, byte for byte, wherever the damage is met."""
    path = tmp_path / "bus.db"
    grown(path)
    data, log = waiting(path)
    data = data[:4096] + b"\xa5" * (len(data) - 4096)  # the log holds some of these pages, not all
    for boot in ("boot-1", "boot-2"):
        (tmp_path / "bus.db.suspect").touch()
        path.write_bytes(data)
        Path(f"{path}-wal").write_bytes(log)
        store = open_store(path, boot)
        assert store.open_messages() == []
        name = store.set_aside()[-1]
        store.close()
        assert (tmp_path / name).read_bytes() == data
        assert (tmp_path / f"{name}-wal").read_bytes() == log


def test_damage_that_is_met_later_leaves_the_log(tmp_path: Path) -> None:
    """PROTOCOL-8.4: closing does not move the log into a file that is damaged."""
    path = tmp_path / "bus.db"
    before = waiting(path)
    Store(path).abandon()
    assert (path.read_bytes(), Path(f"{path}-wal").read_bytes()) == before


@pytest.mark.parametrize("renames", range(4))
def test_a_cut_while_a_store_is_set_aside(
    tmp_path: Path, renames: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL-8.4: between any two renames; the next start finishes it, and tells it."""
    path = tmp_path / "bus.db"
    waiting(path)
    path.write_bytes(b"no database" * 1000)
    before = path.read_bytes(), Path(f"{path}-wal").read_bytes()

    class Cut(BaseException):
        pass

    left = iter(range(renames))
    real = Path.rename

    def rename(self: Path, target: str) -> Path:
        if next(left, None) is None:
            raise Cut
        return real(self, target)

    with monkeypatch.context() as patch, pytest.raises(Cut):
        patch.setattr(Path, "rename", rename)
        open_store(path, "boot-1")
    store = open_store(path, "boot-2")
    (name,) = store.set_aside()
    assert store.open_messages() == [] and name in caplog.text and "CRITICAL" in caplog.text
    store.close()
    found = (tmp_path / name).read_bytes(), (tmp_path / f"{name}-wal").read_bytes()
    assert found == before
    caplog.clear()
    open_store(path, "boot-2").close()
    assert caplog.text == "" and not list(tmp_path.glob("*.setting-aside"))


def test_a_log_without_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-8.4: SQLite would delete it without a word."""
    path = tmp_path / "bus.db"
    _, log = waiting(path)
    for empty in (False, True):
        path.unlink()
        if empty:
            path.touch()
        Path(f"{path}-wal").write_bytes(log)
        store = open_store(path, "boot-1")
        name = store.set_aside()[-1]
        store.close()
        assert (tmp_path / f"{name.removesuffix('-wal')}-wal").read_bytes() == log
        assert name in caplog.text


def test_two_damaged_stores_in_a_second(tmp_path: Path) -> None:
    """PROTOCOL-8.4: each keeps its name; none is replaced by the other."""
    path = tmp_path / "bus.db"
    for text in (b"one" * 100, b"two" * 100):
        path.write_bytes(text)
        store = open_store(path, "boot-1")
        names = store.set_aside()
        store.close()
    assert [(tmp_path / name).read_bytes()[:3] for name in names] == [b"one", b"two"]


def test_a_cut_in_the_very_first_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PROTOCOL-8.12: nothing was stored, so nothing is said to be gone; no draft stays."""
    for name in ("bus.db.draft", "bus.db.draft-journal", "bus.db.version-1.draft"):
        (tmp_path / name).write_bytes(b"half of it")
    open_store(tmp_path / "bus.db", "boot-1").close()
    assert caplog.text == ""
    assert [file.name for file in tmp_path.iterdir()] == ["bus.db"]


def test_what_macos_needs(tmp_path: Path) -> None:
    """PROTOCOL-8.1: fsync(2) stops at the drive's cache there; SQLite is told to go further."""
    store = open_store(tmp_path / "bus.db", "boot-1")
    for name, value in (("fullfsync", 1), ("checkpoint_fullfsync", 1), ("synchronous", 2)):
        assert store.db.execute(f"PRAGMA {name}").fetchone()[0] == value
    store.close()


def test_every_start_commits(tmp_path: Path) -> None:
    """PROTOCOL-8.14: also in the same boot, so that its fsync covers what a killed broker wrote."""
    path, log = tmp_path / "bus.db", tmp_path / "bus.db-wal"
    store = open_store(path, "boot-1")
    store.transaction([put()])
    for start in range(3):
        # As a kill leaves them: closing the store would move the log into the file.
        killed = tmp_path / str(start)
        killed.mkdir()
        before = log.stat().st_size
        shutil.copy(path, killed)
        shutil.copy(log, killed)
        store.close()
        path, log = killed / "bus.db", killed / "bus.db-wal"
        store = open_store(path, "boot-1")
        assert log.stat().st_size > before, "no commit, and so no fsync of the log"
    store.close()
