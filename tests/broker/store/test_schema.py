"""The store's tables."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from wakebus.broker.store import schema
from wakebus.broker.store.recovery import close_store, open_store
from wakebus.broker.store.schema import STORE
from wakebus.broker.system.sqlite_file import NewerFile, UnknownFile, migrate


def test_a_new_file_gets_the_tables_and_the_version() -> None:
    """Twice is harmless."""
    db = sqlite3.connect(":memory:")
    for _ in range(2):
        migrate(db, Path("bus.db"), STORE)
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    assert names == {"message", "endpoint", "machine", "mark"}
    assert db.execute("PRAGMA user_version").fetchone()[0] == len(STORE.steps)
    db.close()


def old(path: Path, version: int) -> sqlite3.Connection:
    """Return a file of an older version, with a message."""
    db = sqlite3.connect(path, isolation_level=None)
    schema.set_up(db)
    for number in range(version):
        db.executescript(f"BEGIN;{STORE.steps[number]}PRAGMA user_version={number + 1};COMMIT")
    db.execute(
        "INSERT INTO message (id, sender, endpoint, lane, type, state, size, accepted, deadline,"
        " message, log) VALUES ('m', 'a', 'b', 'l', '', 'queued', 1, 1, 1, x'00', '')"
    )
    return db


def columns(db: sqlite3.Connection) -> list[Any]:
    """Return the columns and the indexes."""
    indexes = db.execute("SELECT name, sql FROM sqlite_master WHERE type='index' ORDER BY name")
    tables = ("message", "endpoint", "mark", "machine")
    return [*(row for t in tables for row in db.execute(f"PRAGMA table_info({t})")), *indexes]


@pytest.mark.parametrize("version", range(1, len(STORE.steps)))
def test_an_older_file_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    """PROTOCOL-8.8: as a new one, after a copy, which is whole, and readable by this user only."""
    path, copy = tmp_path / "bus.db", tmp_path / f"bus.db.version-{version}"
    (tmp_path / f"bus.db.version-{version}.draft").write_text("of a start that was killed")
    db = old(path, version)
    migrate(db, path, STORE)
    new = sqlite3.connect(":memory:")
    migrate(new, path, STORE)
    assert columns(db) == columns(new)
    assert db.execute("SELECT id, retried, silent FROM message").fetchall() == [("m", 0, 0)]
    before = sqlite3.connect(copy)
    assert before.execute("PRAGMA user_version").fetchone()[0] == version
    assert before.execute("SELECT id FROM message").fetchall() == [("m",)]
    for one in (db, new, before):
        one.close()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not [*tmp_path.glob("*.draft")]


@pytest.mark.parametrize("version", [1, 2])
def test_a_schema_is_as_it_was_released(version: int) -> None:
    """PROTOCOL-8.8: a step that is out is never changed."""
    released = Path(__file__).parents[2] / "conformance" / f"store-version-{version}.sql"
    assert released.read_text(encoding="utf-8") == STORE.steps[version - 1].lstrip("\n")


RELEASED = Path(__file__).parents[2] / "conformance"


def of_the_first_commits(path: Path) -> sqlite3.Connection:
    """Return a store as the first five commits made it: version 1, without the table `machine`."""
    text = (RELEASED / "store-version-1.sql").read_text(encoding="utf-8")
    tables = text.replace("CREATE TABLE machine (boot TEXT NOT NULL);\n", "")
    assert tables != text
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(f"BEGIN;{tables}PRAGMA user_version=1;COMMIT")
    message = '{"id":"m","ts":1.0,"from":"a","to":"b","body":{"text":"hi"}}'
    db.execute(
        "INSERT INTO message (id, sender, endpoint, lane, type, state, size, accepted, deadline,"
        " message, log) VALUES ('m', 'a', 'b', 'l', '', 'queued', 1, 1e9, 9e9, ?, '')",
        (message.encode(),),
    )
    db.execute("INSERT INTO endpoint (name, seen, boot) VALUES ('b', 1e9, 'x/y')")
    return db


def test_a_store_of_the_first_commits(tmp_path: Path) -> None:
    """PROTOCOL-8.8: it has version 1 and lacks a table; all that waits in it is there."""
    path = tmp_path / "bus.db"
    of_the_first_commits(path).close()
    for _ in range(2):
        store = open_store(path, "boot")
        assert [row["id"] for row in store.open_messages()] == ["m"]
        assert [*map(tuple, columns(store.db))] == columns_of_a_new_one()
        close_store(store)


def columns_of_a_new_one() -> list[Any]:
    """Return what `columns` says of a new store."""
    with closing(sqlite3.connect(":memory:")) as new:
        migrate(new, Path("bus.db"), STORE)
        return columns(new)


BROKEN = {
    "no table": "DROP TABLE endpoint",
    "no index": "DROP INDEX message_dead",
    "no column": "ALTER TABLE message DROP COLUMN asks",
    "a column already": "ALTER TABLE message ADD COLUMN silent INTEGER",
    "a table already": "CREATE TABLE mark (x)",
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_what_cannot_be_brought_up_to_date_is_left(tmp_path: Path, how: str, mode: str) -> None:
    """PROTOCOL-8.8: told in a sentence, and not a byte of it is changed; no copy is left."""
    path = tmp_path / "bus.db"
    db = of_the_first_commits(path)
    db.execute(BROKEN[how])
    db.execute(f"PRAGMA journal_mode={mode}")
    db.close()
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(UnknownFile, match=r"bus\.db is not what wakebus wrote as schema 1 \("):
            open_store(path, "boot")
        assert path.read_bytes() == before
        assert not [name for name in os.listdir(tmp_path) if "version" in name or "corrupt" in name]  # noqa: PTH208


def test_a_database_of_another_program(tmp_path: Path) -> None:
    """PROTOCOL-8.8: it has no version; nothing is put into it."""
    path = tmp_path / "bus.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
        db.execute("CREATE VIEW v AS SELECT * FROM bookmarks")
    before = path.read_bytes()
    with pytest.raises(UnknownFile, match=r"has tables already.*move it away"):
        open_store(path, "boot")
    assert path.read_bytes() == before


def test_without_a_copy_nothing_is_changed(tmp_path: Path) -> None:
    """PROTOCOL-8.8: where the copy cannot be made."""
    db = old(tmp_path / "bus.db", 1)
    (tmp_path / "bus.db.version-1.draft").mkdir()
    with pytest.raises(OSError, match="draft"):
        migrate(db, tmp_path / "bus.db", STORE)
    assert db.execute("PRAGMA user_version").fetchone()[0] == 1
    db.close()


def test_only_a_new_file_can_give_space_back(tmp_path: Path) -> None:
    """PROTOCOL-8.6: an old one is not written to for that."""
    db = sqlite3.connect(tmp_path / "bus.db", isolation_level=None)
    db.execute("CREATE TABLE t (a)")
    schema.set_up(db)
    assert db.execute("PRAGMA auto_vacuum").fetchone()[0] == 0
    db.close()
    db = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    schema.set_up(db)
    migrate(db, tmp_path / "new.db", STORE)
    assert db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
    db.close()


def test_a_newer_file_is_not_touched() -> None:
    """PROTOCOL-8.5: the error says what to do."""
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA user_version=99")
    with pytest.raises(NewerFile, match=r"bus\.db.*99.*install"):
        migrate(db, Path("bus.db"), STORE)
    assert not db.execute("SELECT * FROM sqlite_master").fetchall()
    db.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT seq FROM message WHERE sender='a' AND key='k'",
        "SELECT seq FROM message WHERE reply_to='x'",
        "SELECT seq FROM message WHERE cause='x'",
        "SELECT seq FROM message WHERE done < 5",
        "SELECT seq FROM message WHERE id='x'",
    ],
)
def test_hot_queries_use_an_index(query: str) -> None:
    """No request reads the whole table."""
    db = sqlite3.connect(":memory:")
    migrate(db, Path("bus.db"), STORE)
    plan = " ".join(str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
    db.close()
    assert "USING" in plan and "INDEX" in plan
