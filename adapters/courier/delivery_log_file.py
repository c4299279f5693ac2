"""
Opening the courier's file (delivery_log.py): SQLite, WAL, `synchronous=FULL`, 0600.

Rule 1: damage, versions and copies are those of every SQLite file here (system/sqlite_file.py).
Rule 2: what is a link, no file or not ours is named and left alone. Rule 3: it is small
(delivery_log.py purges it), so it is looked through at each opening.
"""

import logging
import os
import sqlite3
from pathlib import Path
from typing import Final

from wakebus.adapters.errors import Unavailable
from wakebus.broker.system import sqlite_file
from wakebus.broker.system.private_files import CannotStart, open_private

log = logging.getLogger(__name__)

SHARED_S: Final = 5.0  # a second courier writes beside us while it takes over

TABLES: Final = """
CREATE TABLE message (
    id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX message_at ON message (ended, at);
CREATE TABLE part (
    message TEXT NOT NULL,
    number INTEGER NOT NULL,
    word TEXT NOT NULL,
    id TEXT NOT NULL,
    first REAL NOT NULL,
    PRIMARY KEY (message, number)
) WITHOUT ROWID;
"""

# `chat`, `found`: see delivery_log_rows.py. `shut`: until when (Unix seconds) who asked to wait.
SECOND: Final = """
ALTER TABLE message ADD COLUMN chat TEXT NOT NULL DEFAULT '';
ALTER TABLE message ADD COLUMN found TEXT NOT NULL DEFAULT '';
CREATE TABLE shut (
    platform TEXT NOT NULL,
    chat TEXT NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (platform, chat)
) WITHOUT ROWID;
"""

LOSS: Final = ": a text whose sending had begun is told as uncertain"
DELIVERY_LOG: Final = sqlite_file.FileSchema((TABLES, SECOND), LOSS)


def open_file(path: Path) -> sqlite3.Connection:
    """
    Return a connection to the file, made anew where it was damaged.

    Raises NewerFile, UnknownFile, Unavailable (no file of ours), sqlite3.Error where it cannot be
    opened now.
    """
    try:
        return sqlite_file.open_or_set_aside(path, DELIVERY_LOG, lambda: _open(path), log.critical)
    except OSError as exc:
        raise Unavailable(f"{path} cannot be opened: {exc}") from exc


def _open(path: Path) -> sqlite3.Connection:
    _check_owner(path)
    sqlite_file.check_heads(path)

    def check(db: sqlite3.Connection) -> None:
        sqlite_file.check_steps(db, path, DELIVERY_LOG)
        sqlite_file.check_pages(db)

    looked = sqlite_file.check_read_only(path, check)
    db = sqlite3.connect(path, timeout=SHARED_S, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        if not looked:
            check(db)
        sqlite_file.make_durable(db)  # `begun` must hold over a cut of power
        sqlite_file.migrate(db, path, DELIVERY_LOG)
        return db
    except BaseException:
        sqlite_file.close_as_it_is(db, path)
        raise


def _check_owner(path: Path) -> None:
    """Make the file 0600, also if there is none. Raises Unavailable."""
    try:
        file = open_private(path, os.O_RDWR)
    except CannotStart as exc:
        raise Unavailable(exc.text) from exc
    try:
        if os.fstat(file).st_nlink > 1:
            raise Unavailable(f"{path} has other names too; move it away")
    finally:
        os.close(file)
