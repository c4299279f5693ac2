"""
Opening the courier's file (progress.py): SQLite, WAL, `synchronous=FULL`, 0600.

Rule 1: a damaged file is renamed `….corrupt-<utc>` with its log, said, never deleted and never
written to. Rule 2: what is a link, no file or not ours is named and left alone; so is a file that
a newer version wrote. Rule 3: it is small (progress.py purges it), so it is looked through at
each opening. Rule 4: an older one gets what it lacks, after a copy of it was made.
"""

import logging
import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from wakebus.adapters.errors import Unavailable
from wakebus.broker.errors import WakebusError

log = logging.getLogger(__name__)

MAGIC: Final = b"SQLite format 3\0"  # sqlite.org/fileformat.html, 1.3.1
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

# `chat`, `found`: see rows.py. `shut`: until when (Unix seconds) who asked to wait (gate.py).
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

STEPS: Final = (TABLES, SECOND)
VERSION: Final = len(STEPS)


class NewerNotes(WakebusError):
    """The file was written by a newer wakebus."""

    code = "newer_store"


def open_file(path: Path) -> sqlite3.Connection:
    """Return a connection to the file, made anew where it was damaged. Raises NewerNotes,
    Unavailable (no file of ours), and sqlite3.Error where it cannot be opened now."""
    try:
        return _open(path)
    except sqlite3.DatabaseError as exc:
        if not is_damage(exc):
            raise
        _set_aside(path, str(exc))
    return _open(path)


def is_damage(exc: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is bad."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # without the extended part
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _open(path: Path) -> sqlite3.Connection:
    if _head(path) not in (b"", MAGIC):  # seen before SQLite could remove its log
        raise _damage("it is no database")
    db = sqlite3.connect(path, timeout=SHARED_S, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        _check_version(db, path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")  # `begun` must hold over a power cut
        if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise _damage(str(found))
        _migrate(db, path)
        return db
    except BaseException:
        db.close()
        raise


def _damage(why: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _head(path: Path) -> bytes:
    """Make the file 0600 if there is none; return its first bytes. Raises Unavailable."""
    # NONBLOCK: a pipe of this name must not hold the courier.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o600)
    except OSError as exc:
        why = "it is a link" if path.is_symlink() else exc.strerror
        raise Unavailable(f"{path} cannot be opened: {why}") from exc
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_nlink > 1:
            raise Unavailable(f"{path} is no file of this user alone; move it away")
        os.fchmod(file, 0o600)
        return os.pread(file, len(MAGIC), 0)
    finally:
        os.close(file)


def _check_version(db: sqlite3.Connection, path: Path) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise NewerNotes(
            f"{path} was written by a newer wakebus (schema {version}, this one knows {VERSION}); "
            "install that version, or move the file away: then a text whose sending had begun is "
            "told as uncertain"
        )
    return version


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    if 0 < (version := _check_version(db, path)) < VERSION:
        _copy(db, path.with_name(f"{path.name}.version-{version}"))
    db.execute("BEGIN IMMEDIATE")  # two couriers may make it at once
    for step in STEPS[_check_version(db, path) :]:
        for statement in step.split(";"):
            db.execute(statement)
    db.execute(f"PRAGMA user_version={VERSION}")
    db.execute("COMMIT")


def _copy(db: sqlite3.Connection, copy: Path) -> None:
    """Write the whole file to `copy`, which is there only once it is complete."""
    draft = copy.with_name(f"{copy.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(draft)) as other:
        db.backup(other)
    draft.replace(copy)


def _set_aside(path: Path, why: str) -> None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    # Its log too: SQLite would play it into the new file.
    for end in ("-wal", "-shm", ""):
        if (part := Path(f"{path}{end}")).exists():
            part.rename(f"{aside}{end}")
    log.critical(
        "%s is damaged (%s); kept as %s, starting empty: a text whose sending had begun is told "
        "as uncertain",
        *(path, why, aside),
    )
