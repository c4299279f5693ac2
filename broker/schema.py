"""
The store's tables. One row per message; `log` collects its steps as JSON lines for `trace`.

`user_version` is the schema's version: a newer store stops the start, it is never written to.
"""

import sqlite3
from pathlib import Path
from typing import Final

from wakebus.broker.errors import WakebusError

VERSION: Final = 1

PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",  # a receipt is a promise over a power cut
    "PRAGMA wal_autocheckpoint=0",  # a checkpoint in a commit stalls every sender; done when idle
    "PRAGMA busy_timeout=0",
    "PRAGMA secure_delete=ON",  # a purged body is gone
)

TABLES: Final = """
CREATE TABLE message (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    lane TEXT NOT NULL,
    key TEXT,
    reply_to TEXT,
    cause TEXT,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    size INTEGER NOT NULL,
    accepted REAL NOT NULL,
    deadline REAL NOT NULL,
    deaths INTEGER NOT NULL DEFAULT 0,
    redelivered INTEGER NOT NULL DEFAULT 0,
    started_before INTEGER NOT NULL DEFAULT 0,
    asks INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    token TEXT,
    message BLOB NOT NULL,
    outcome TEXT,
    reason TEXT,
    done REAL,
    log TEXT NOT NULL
);
CREATE INDEX message_open ON message (endpoint) WHERE done IS NULL;
CREATE INDEX message_done ON message (done) WHERE done IS NOT NULL;
CREATE INDEX message_dead ON message (endpoint) WHERE state IN ('dead', 'refused');
CREATE INDEX message_key ON message (sender, key) WHERE key IS NOT NULL;
CREATE INDEX message_reply ON message (reply_to) WHERE reply_to IS NOT NULL;
CREATE INDEX message_cause ON message (cause) WHERE cause IS NOT NULL;
CREATE TABLE machine (boot TEXT NOT NULL);
CREATE TABLE endpoint (
    name TEXT PRIMARY KEY,
    declared INTEGER NOT NULL DEFAULT 0,
    seen REAL NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    instance TEXT NOT NULL DEFAULT '',
    pid INTEGER NOT NULL DEFAULT 0,
    start REAL NOT NULL DEFAULT 0,
    boot TEXT NOT NULL DEFAULT ''
);
"""


class NewerStore(WakebusError):
    """The file was written by a newer wakebus."""

    code = "newer_store"


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file. Raises NewerStore."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise NewerStore(
            f"{path} was written by a newer wakebus (schema {version}, this one knows {VERSION}); "
            "install that version, or move the file away to start empty"
        )
    if version == 0:
        db.executescript(f"BEGIN;{TABLES}PRAGMA user_version={VERSION};COMMIT")
