"""Opening the store: damage is set aside, never deleted, never written to."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from wakebus.broker import schema
from wakebus.broker.errors import Unavailable
from wakebus.broker.opening import open_store
from wakebus.broker.store import Damaged, Store


def aside(folder: Path) -> list[str]:
    """Return the names of what was set aside, without their time."""
    return sorted(p.name.split("Z")[-1] for p in folder.glob("bus.db.corrupt-*"))


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
    assert aside(tmp_path) == [""]


def test_damage_that_sqlite_meets(tmp_path: Path) -> None:
    """PROTOCOL-8.4: the store ends at once, and the next start looks through the file."""
    path = tmp_path / "bus.db"
    data = bytearray(grown(path))
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    store = Store(path)
    with pytest.raises(Damaged, match=r"bus\.db"):
        store.transaction([lambda s: s.endpoints()])
    assert store.suspect.exists()
    store.abandon()
    again = open_store(path, "boot-1")
    assert again.endpoints() == [] and not again.suspect.exists()
    again.close()
    assert aside(tmp_path) == [""]


def test_a_good_file_is_kept_when_it_was_suspect(tmp_path: Path) -> None:
    """PROTOCOL-8.4: a look is only a look."""
    path = tmp_path / "bus.db"
    grown(path)
    (tmp_path / "bus.db.suspect").touch()
    store = open_store(path, "boot-2")
    assert len(store.endpoints()) == 300 and not store.suspect.exists()
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
    with pytest.raises(schema.NewerStore):
        open_store(path, "boot-1")
    assert path.read_bytes() == before and aside(tmp_path) == []


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    """What is no damage is said, not moved."""
    (tmp_path / "bus.db").mkdir()
    with pytest.raises(Unavailable, match=r"bus\.db"):
        open_store(tmp_path / "bus.db", "boot-1")
    shutil.rmtree(tmp_path / "bus.db")
