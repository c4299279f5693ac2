"""One SQLite file: damage, versions, copies."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wakebus.broker.system import sqlite_file
from wakebus.broker.system.sqlite_file import FileSchema, NewerFile

FIRST, SECOND = "CREATE TABLE t (a); CREATE INDEX i ON t (a);", "ALTER TABLE t ADD COLUMN b;"
OLD, NEW = FileSchema((FIRST,)), FileSchema((FIRST, SECOND), ": all is lost")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "x.db"


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    """A file of the older version."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as found:
        sqlite_file.migrate(found, path, OLD)
        found.execute("INSERT INTO t VALUES (1)")
        yield found


def version(db: sqlite3.Connection) -> int:
    """Return the schema's version."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_an_older_file_gets_what_it_lacks(db: sqlite3.Connection, path: Path) -> None:
    """PROTOCOL-8.8: once, after a copy that is whole, readable by this user only."""
    path.with_name("x.db.version-1.draft").write_text("of a start that was killed")
    for _ in range(2):
        sqlite_file.migrate(db, path, NEW)
    assert db.execute("SELECT a, b FROM t").fetchall() == [(1, None)] and version(db) == 2
    copy = path.with_name("x.db.version-1")
    with closing(sqlite3.connect(copy)) as before:
        assert before.execute("SELECT * FROM t").fetchall() == [(1,)] and version(before) == 1
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not [*path.parent.glob("*.draft")]


def test_a_step_that_fails_leaves_the_file_as_it_was(db: sqlite3.Connection, path: Path) -> None:
    """PROTOCOL-8.8: all of a migration, or nothing."""
    broken = FileSchema((FIRST, SECOND, "CREATE TABLE u (a); CREATE TABLE t (a)"))
    with pytest.raises(sqlite3.OperationalError):
        sqlite_file.migrate(db, path, broken)
    db.close()
    with closing(sqlite3.connect(path)) as again:
        assert version(again) == 1
        assert [row[1] for row in again.execute("PRAGMA table_info(t)")] == ["a"]


def test_two_come_at_once(db: sqlite3.Connection, path: Path) -> None:
    """ADP-6.12: one migrates, the other finds nothing left to do."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sqlite_file.migrate(db, path, NEW)
        other.execute("ROLLBACK")
        sqlite_file.migrate(other, path, NEW)
        sqlite_file.migrate(db, path, NEW)
    assert version(db) == 2


def test_without_a_copy_nothing_is_changed(db: sqlite3.Connection, path: Path) -> None:
    """PROTOCOL-8.8: where the copy cannot be made."""
    path.with_name("x.db.version-1.draft").mkdir()
    with pytest.raises(OSError, match="draft"):
        sqlite_file.migrate(db, path, NEW)
    assert version(db) == 1


def test_a_copy_that_fails_leaves_nothing(
    db: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-8.8: on a full disk, of all times."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sqlite_file, "put_in_place", full)
    with pytest.raises(OSError, match="No space"):
        sqlite_file.migrate(db, path, NEW)
    db.execute("ROLLBACK")
    assert version(db) == 1 and not [*path.parent.glob("*version*")]


def test_a_newer_file_is_not_touched(db: sqlite3.Connection, path: Path) -> None:
    """PROTOCOL-8.5: the error says what to do, and what is lost by it."""
    db.execute("PRAGMA user_version=99")
    with pytest.raises(NewerFile, match=r"x\.db.*99.*2.*install.*all is lost"):
        sqlite_file.migrate(db, path, NEW)
    assert version(db) == 99


def test_what_is_damage(path: Path) -> None:
    """PROTOCOL-8.4: SQLite's word for a bad file, and ours; a busy one is none."""
    path.write_bytes(b"no database at all" * 100)
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.DatabaseError) as caught:
        db.execute("SELECT * FROM t")
    assert sqlite_file.is_damage(caught.value)
    assert sqlite_file.is_damage(sqlite_file.damage("why"))
    assert not sqlite_file.is_damage(sqlite3.OperationalError("database is locked"))


WAL = sqlite_file.WAL_MAGIC[0]


@pytest.mark.parametrize(
    ("head", "log", "journal", "why"),
    [
        (b"", b"", b"", ""),
        (b"", b"\0" * 99, b"", ""),
        (sqlite_file.MAGIC + b"more", WAL, b"", ""),
        (sqlite_file.MAGIC, b"\0" * 99, b"", ""),
        (b"SQLite", b"", b"", "no database"),
        (b"\0" * 4096, b"", b"\0" * 512, "no database"),
        (b"\0" * 4096, b"", sqlite_file.JOURNAL_MAGIC + b"\0" * 504, ""),  # SQLite takes it back
        (sqlite_file.MAGIC, b"garbage", b"", "log is garbage"),
        (b"", WAL, b"", "empty"),
    ],
)
def test_how_a_file_begins(path: Path, head: bytes, log: bytes, journal: bytes, why: str) -> None:
    """PROTOCOL-8.4: looked at before SQLite removes a log, or plays it."""
    for end, data in (("", head), ("-wal", log), ("-journal", journal)):
        Path(f"{path}{end}").write_bytes(data)
    if not why:
        sqlite_file.check_heads(path)
        return
    with pytest.raises(sqlite3.DatabaseError, match=why) as caught:
        sqlite_file.check_heads(path)
    assert sqlite_file.is_damage(caught.value)


def test_a_mark_that_says_nothing(path: Path) -> None:
    """PROTOCOL-8.4: only a name as we give it is followed."""
    for text in ("", "../elsewhere", "\0", "x.db"):
        path.write_text("damaged")
        path.with_name("x.db.setting-aside").write_text(text)
        aside = sqlite_file.finish_set_aside(path)
        assert aside and aside.name.startswith("x.db.corrupt-") and aside.parent == path.parent
    assert len(sqlite_file.names_aside(path)) == 4
    assert sqlite_file.finish_set_aside(path) is None


def test_a_bad_page_is_found(db: sqlite3.Connection, path: Path) -> None:
    """PROTOCOL-8.4: by a look at the whole file."""
    sqlite_file.check_pages(db)
    db.executemany("INSERT INTO t VALUES (?)", [("x" * 500,)] * 100)
    db.close()
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xa5" * 4096 + data[12288:])
    with closing(sqlite3.connect(path)) as again, pytest.raises(sqlite3.DatabaseError) as caught:
        sqlite_file.check_pages(again)
    assert sqlite_file.is_damage(caught.value)


def test_it_is_set_aside_with_its_log(path: Path) -> None:
    """PROTOCOL-8.4: renamed; SQLite would play the log into a new file."""
    for end in ("", "-wal"):
        Path(f"{path}{end}").write_text(f"bytes{end}")
    aside = sqlite_file.set_aside(path)
    assert aside.name.startswith("x.db.corrupt-") and aside.name.endswith("Z")
    assert aside.read_text() == "bytes" and Path(f"{aside}-wal").read_text() == "bytes-wal"
    assert {file.name for file in path.parent.iterdir()} == {aside.name, f"{aside.name}-wal"}
