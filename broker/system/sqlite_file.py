"""
One SQLite file of this user: what is looked at before SQLite touches it, damage, versions, copies.

Rule 1: a damaged file is renamed `….corrupt-<utc>` with its log, never deleted and never written
to. Rule 2: a file of a newer version stops whoever opens it, and is not written to. Rule 3: a step
of a schema that was released is never changed; a new file takes them all, an old one those that it
lacks, after a copy of it was made.
"""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.durable_file import put_in_place, sync_folder

MAGIC: Final = b"SQLite format 3\0"  # sqlite.org/fileformat.html, 1.3.1


class NewerFile(WakebusError):
    """The file was written by a newer wakebus."""

    code = "newer_store"


class FileSchema(NamedTuple):
    """
    The steps to the newest tables, each SQL without a `;` in a text; `user_version` counts them.

    `loss`: what is lost with the file, for people: ends a sentence on beginning with an empty one.
    """

    steps: tuple[str, ...]
    loss: str = ""


def is_damage(exc: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is bad."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # without the extended part
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damage(why: str) -> sqlite3.DatabaseError:
    """Return an error as SQLite raises it for a bad file, for what it does not see itself."""
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def check_magic(head: bytes) -> None:
    """Raise damage if a file begins with `head` and is none; before SQLite removes its log."""
    if head[: len(MAGIC)] not in (b"", MAGIC):
        raise damage("it is no database")


def check_pages(db: sqlite3.Connection) -> None:
    """Read the whole file; raise damage if anything is wrong with it."""
    if (found := str(db.execute("PRAGMA quick_check(1)").fetchone()[0])) != "ok":
        raise damage(found)


def set_aside(path: Path) -> Path:
    """Rename a damaged file; return its new path."""
    aside = path.with_name(f"{path.name}.corrupt-{utc_stamp()}")
    # Its log too: SQLite would play it into the new file.
    for end in ("-wal", "-shm", ""):
        if (part := Path(f"{path}{end}")).exists():
            part.rename(f"{aside}{end}")
    sync_folder(path.parent)
    return aside


def utc_stamp() -> str:
    """Return the time of now for a file's name."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def check_version(db: sqlite3.Connection, path: Path, schema: FileSchema) -> int:
    """Return the file's version, 0 for a new one. Raises NewerFile."""
    version, known = int(db.execute("PRAGMA user_version").fetchone()[0]), len(schema.steps)
    if version > known:
        raise NewerFile(
            f"{path} was written by a newer wakebus (schema {version}, this one knows {known}); "
            f"install that version, or move the file away to start empty{schema.loss}"
        )
    return version


def migrate(db: sqlite3.Connection, path: Path, schema: FileSchema) -> None:
    """Make the tables in a new file, or what an older one lacks. Raises NewerFile."""
    if check_version(db, path, schema) == len(schema.steps):
        return
    db.execute("BEGIN IMMEDIATE")  # two processes may come at once
    version = check_version(db, path, schema)
    if 0 < version < len(schema.steps):
        with closing(sqlite3.connect(path)) as before:  # a connection that writes copies nothing
            copy_to(before, path.with_name(f"{path.name}.version-{version}"))
    for step in schema.steps[version:]:
        for statement in step.split(";"):
            db.execute(statement)
    db.execute(f"PRAGMA user_version={len(schema.steps)}")
    db.execute("COMMIT")


def copy_to(db: sqlite3.Connection, copy: Path) -> None:
    """Write the whole file to `copy` (0600), which is there only once it is complete."""
    draft = copy.with_name(f"{copy.name}.draft")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(draft)) as other:
        db.backup(other)
    put_in_place(draft, copy)


def drop_old_copies(path: Path, before: float) -> None:
    """Remove copies that were made before a migration, and before `before` (wall seconds)."""
    for copy in path.parent.glob(f"{path.name}.version-*"):
        if copy.stat().st_mtime < before:
            copy.unlink()
