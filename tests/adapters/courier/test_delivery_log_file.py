"""The courier's file: made 0600, set aside when damaged, left alone when newer or not ours."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wakebus.adapters.courier.delivery_log import DeliveryLog
from wakebus.adapters.courier.delivery_log_file import DELIVERY_LOG, TABLES, open_file
from wakebus.adapters.errors import Unavailable
from wakebus.broker.system.sqlite_file import JOURNAL_MAGIC, NewerFile

VERSION = len(DELIVERY_LOG.steps)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "courier.db"


def fill(path: Path, rows: int = 1) -> None:
    with closing(open_file(path)) as db:
        for number in range(rows):
            db.execute(
                "INSERT INTO message (id, epoch, ended, at) VALUES (?, 1, 0, 0.0)",
                (f"m{number:04}",),
            )


def count(path: Path) -> int:
    with closing(open_file(path)) as db:
        return int(db.execute("SELECT count(*) FROM message").fetchone()[0])


def test_a_new_file(path: Path) -> None:
    """ADP-6.12: it is 0600, its log too, in WAL mode with full synchronisation."""
    with closing(open_file(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert db.execute("PRAGMA fullfsync").fetchone()[0] == 1  # macOS
        modes = {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {0o600}


def test_a_file_that_is_too_open(path: Path) -> None:
    """ADP-6.12: a wider mode is narrowed."""
    fill(path)
    path.chmod(0o644)
    assert count(path) == 1
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["no database", "a page", "cut"])
def test_damaged(path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.12: it is renamed with its bytes, said loudly, and a new one begins."""
    fill(path, 500)
    held = path.read_bytes()
    if damage == "no database":
        held = b"this is no database, whatever its name says"
    elif damage == "a page":
        held = held[:4096] + b"\xff" * 4096 + held[8192:]
    else:
        held = held[: len(held) // 2]
    path.write_bytes(held)
    assert count(path) == 0
    (aside,) = path.parent.glob("courier.db.corrupt-*Z")
    assert aside.read_bytes() == held
    assert "is damaged" in caplog.text and aside.name in caplog.text


@pytest.mark.parametrize("met", ["at the start", "later"])
def test_damaged_with_a_log(path: Path, met: str, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.12: neither the file nor its log is written to before it is set aside."""
    fill(path, 500)
    log = DeliveryLog(path)
    log.claim("m", 1)
    held = path.read_bytes()[:8192] + b"\xff" * (path.stat().st_size - 8192)
    if met == "later":
        path.write_bytes(held)
        before = Path(f"{path}-wal").read_bytes()
        with pytest.raises(Unavailable, match="malformed"):
            for number in range(500):
                log.claim(f"m{number:04}", 2)
    else:
        before = Path(f"{path}-wal").read_bytes()
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as last:
            last.execute("PRAGMA user_version").fetchone()
            log.close()
        path.write_bytes(held)
    assert path.read_bytes() == held
    assert count(path) == 0
    (aside,) = path.parent.glob("courier.db.corrupt-*Z")
    assert aside.read_bytes() == held
    assert Path(f"{aside}-wal").read_bytes().startswith(before)
    assert "is damaged" in caplog.text and aside.name in caplog.text


def test_a_cut_in_the_very_first_opening(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.12: SQLite takes back what was begun; nothing was there, so nothing is lost."""
    for head in (b"", b"\0" * 4096):
        path.write_bytes(head)
        fields = (0).to_bytes(4, "big") * 2 + b"\0" * 4 + (512).to_bytes(4, "big")
        journal = JOURNAL_MAGIC + fields + (4096).to_bytes(4, "big")
        Path(f"{path}-journal").write_bytes(journal.ljust(512, b"\0"))
        assert count(path) == 0 and caplog.text == ""
        path.unlink()


def test_newer(path: Path) -> None:
    """ADP-6.12: a file of a newer version is refused by name and not touched."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerFile, match=r"courier\.db was written by a newer wakebus"):
        open_file(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["courier.db"]


def test_older(path: Path) -> None:
    """ADP-6.12: it gets what it lacks, keeps what it has, and a copy of it stays, 0600."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{TABLES} PRAGMA user_version=1")
        db.execute("INSERT INTO message VALUES ('m1', 1, 0, 0.0)")
        db.commit()
    with closing(open_file(path)) as db:
        assert [tuple(row) for row in db.execute("SELECT id, chat, found FROM message")] == [
            ("m1", "", "")
        ]
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    copy = path.with_name("courier.db.version-1")
    with closing(sqlite3.connect(copy)) as db:
        assert db.execute("SELECT * FROM message").fetchall() == [("m1", 1, 0, 0.0)]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert count(path) == 1


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "hard link"])
def test_not_ours(path: Path, kind: str) -> None:
    """ADP-6.12: what is no file of this user alone is named and left alone."""
    other = path.with_name("other")
    other.write_text("mine")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.hardlink_to(other)
    with pytest.raises(Unavailable, match=r"courier\.db"):
        open_file(path)
    assert other.read_text() == "mine"


def test_no_folder(path: Path) -> None:
    """ADP-6.12: a folder that is missing is no damage; it is said."""
    with pytest.raises(Unavailable, match="cannot be opened"):
        open_file(path.parent / "missing" / "courier.db")
