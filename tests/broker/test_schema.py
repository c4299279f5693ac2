"""The store's tables."""

import sqlite3
from pathlib import Path

import pytest

from wakebus.broker import schema


def test_a_new_file_gets_the_tables_and_the_version() -> None:
    """Twice is harmless."""
    db = sqlite3.connect(":memory:")
    for _ in range(2):
        schema.migrate(db, Path("bus.db"))
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    assert names == {"message", "endpoint", "machine"}
    assert db.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION
    db.close()


def test_a_newer_file_is_not_touched() -> None:
    """PROTOCOL-8.5: the error says what to do."""
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA user_version=99")
    with pytest.raises(schema.NewerStore, match=r"bus\.db.*99.*install"):
        schema.migrate(db, Path("bus.db"))
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
    schema.migrate(db, Path("bus.db"))
    plan = " ".join(str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}"))
    db.close()
    assert "USING" in plan and "INDEX" in plan
