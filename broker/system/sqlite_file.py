"""
One SQLite file of this user: what is looked at before SQLite touches it, damage, versions, copies.

Rule 1: a damaged file is renamed `….corrupt-<utc>` with its log, never deleted and never written
to: whoever looks for damage does it on a connection that only reads, and who meets it later closes
without moving the log into the file. Rule 2: a file of a newer version stops whoever opens it, and
is not written to. Rule 3: a step of a schema that was released is never changed; a new file takes
them all, an old one those that it lacks, after a copy of it was made. Rule 4: a cut of power at any
moment leaves what the next start can finish (tests/powercut).
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.durable_file import put_in_place, replace_file, sync_folder

T = TypeVar("T")

# sqlite.org/fileformat.html, 1.3.1, 3 and 4.1; a write-ahead log that was not begun is 0.
MAGIC: Final = b"SQLite format 3\0"
JOURNAL_MAGIC: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
WAL_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")

# Of each file: what is committed is on disk; on macOS also out of the drive's cache, where
# fsync(2) stops (durable_file.py). Elsewhere the last two do nothing.
DURABLE: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA fullfsync=1",
    "PRAGMA checkpoint_fullfsync=1",
)
# The file last: while it has its name, what belongs to it is looked for.
ENDS: Final = ("-wal", "-shm", "-journal", "")


class NewerFile(WakebusError):
    """The file was written by a newer wakebus."""

    code = "newer_store"


class UnknownFile(WakebusError):
    """The file has other tables than its version says: another program's, or changed by hand."""

    code = "unknown_store"


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


def make_durable(db: sqlite3.Connection) -> None:
    """Let what `db` commits outlive a cut of power."""
    for pragma in DURABLE:
        db.execute(pragma)


def check_heads(path: Path) -> None:
    """Raise damage if the file or its log is none; before SQLite removes the log, or plays it."""
    if _head(path, "-journal").startswith(JOURNAL_MAGIC):
        return  # SQLite takes back what was begun: at the start of a file, all
    head, log = _head(path), _head(path, "-wal")[:4]
    if head not in (b"", MAGIC):
        raise damage("it is no database")
    if log not in (b"", b"\0" * 4, *WAL_MAGIC):
        raise damage("its write-ahead log is garbage")
    if not head and log in WAL_MAGIC:
        raise damage("it is empty, and its write-ahead log is not")


def _head(path: Path, end: str = "") -> bytes:
    try:
        with Path(f"{path}{end}").open("rb") as file:
            return file.read(len(MAGIC))
    except FileNotFoundError:
        return b""


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that changes neither the file nor its log, also when it is closed."""
    return sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)


def check_read_only(path: Path, check: Callable[[sqlite3.Connection], None]) -> bool:
    """Call `check` with a connection that only reads, and return whether that could be had."""
    try:
        with closing(connect_to_read(path)) as db:
            check(db)
        return True
    except sqlite3.Error as exc:
        if is_damage(exc):
            raise
        return False  # opening it to write does more, and tells what is wrong


def close_as_it_is(db: sqlite3.Connection, path: Path) -> None:
    """Close without moving the log into the file, as SQLite does at the last connection's end."""
    try:
        with closing(connect_to_read(path)) as last:
            last.execute("PRAGMA user_version").fetchone()
            db.close()
    except sqlite3.Error:
        pass
    db.close()  # twice is once


def open_or_set_aside(
    path: Path, schema: FileSchema, open_file: Callable[[], T], say: Callable[[str], None]
) -> T:
    """
    Return what `open_file` returns; a damaged file is set aside first, and `say` is told.

    Before that, what a cut of power left of it is done. Raises OSError, and what `open_file` does.
    """
    empty = f"starting empty{schema.loss}"
    if aside := finish_set_aside(path):
        say(f"{path} was damaged when the machine went down; kept as {aside}, {empty}")
    drop_drafts(path)
    try:
        return open_file()
    except sqlite3.Error as exc:
        if not is_damage(exc):
            raise
        say(f"{path} is damaged ({exc}); kept as {set_aside(path)}, {empty}")
    return open_file()


def check_pages(db: sqlite3.Connection) -> None:
    """Read the whole file; raise damage if anything is wrong with it."""
    if (found := str(db.execute("PRAGMA quick_check(1)").fetchone()[0])) != "ok":
        raise damage(found)


def set_aside(path: Path) -> Path:
    """
    Rename a damaged file with all that belongs to it; return its new path. Raises OSError.

    Several renames: until all are on disk a file beside it tells the new name, and
    `finish_set_aside` goes on after a cut of power. Without it the next start would take a file
    whose log is gone, or a log whose file is gone, for a whole one.
    """
    mark = _mark(path)
    aside = _begun(path) or free_name(path, "corrupt")
    replace_file(mark, aside.name.encode())
    for end in ENDS:
        try:
            Path(f"{path}{end}").rename(f"{aside}{end}")
        except FileNotFoundError:
            pass
    sync_folder(path.parent)
    mark.unlink(missing_ok=True)
    sync_folder(path.parent)  # found again, it would take away the file that is made now
    return aside if aside.exists() else Path(f"{aside}-wal")


def finish_set_aside(path: Path) -> Path | None:
    """Do what a cut of power left of `set_aside`; return the new path, if there was any of it."""
    return set_aside(path) if _mark(path).exists() else None


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.setting-aside")


def _begun(path: Path) -> Path | None:
    try:
        name = _mark(path).read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return path.with_name(name) if name.startswith(f"{path.name}.corrupt-") else None


def names_aside(path: Path) -> list[str]:
    """Return what was set aside or rescued, oldest first; a log whose file was gone by its own."""
    names = {file.name for file in path.parent.glob(f"{path.name}.[cr]*-*Z*")}
    files = {name for name in names if name.endswith("Z")}
    logs = {name for name in names if name.endswith("Z-wal") and name[:-4] not in files}
    return sorted(files | logs)


def free_name(path: Path, kind: str) -> Path:
    """Return `….<kind>-<utc>`, a second later where one of that name is."""
    for later in count():
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + later))
        found = path.with_name(f"{path.name}.{kind}-{stamp}")
        if not [*found.parent.glob(f"{found.name}*")]:
            return found
    raise AssertionError("not reached")


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
    """
    Make the tables in a new file, or what an older one lacks: all of it, or, once closed, nothing.

    Raises NewerFile, UnknownFile (other tables than its version says), sqlite3.Error, OSError.
    """
    if check_version(db, path, schema) == len(schema.steps):
        return
    db.execute("BEGIN IMMEDIATE")  # two processes may come at once
    version = check_version(db, path, schema)
    if 0 < version < len(schema.steps):
        with closing(connect_to_read(path)) as before:  # one that writes copies nothing
            copy_to(before, path.with_name(f"{path.name}.version-{version}"))
    _take_steps(db, path, schema, version)
    db.execute("COMMIT")


def check_steps(db: sqlite3.Connection, path: Path, schema: FileSchema) -> None:
    """Raise NewerFile or UnknownFile where `migrate` would; nothing is written."""
    version = check_version(db, path, schema)
    made = db.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
        " ORDER BY type='table' DESC, rowid"
    ).fetchall()
    if made and not version:
        raise _unknown(path, schema, version, "it has tables already")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        try:
            for (sql,) in made:
                empty.execute(sql)
            _take_steps(empty, path, schema, version)
        except sqlite3.Error as exc:
            raise _unknown(path, schema, version, str(exc)) from exc


def _take_steps(db: sqlite3.Connection, path: Path, schema: FileSchema, version: int) -> None:
    for step in schema.steps[version:]:
        for statement in step.split(";"):
            db.execute(statement)
    db.execute(f"PRAGMA user_version={len(schema.steps)}")
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(";".join(schema.steps))
        expected = _tables(new)
    found = _tables(db)
    for table, columns in expected.items():
        if missing := sorted(columns - found.get(table, set())):
            raise _unknown(path, schema, version, f"no column {missing[0]} in table {table}")


def _tables(db: sqlite3.Connection) -> dict[str, set[str]]:
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    return {name: {row[1] for row in db.execute(f"PRAGMA table_info('{name}')")} for name in names}


def _unknown(path: Path, schema: FileSchema, version: int, why: str) -> UnknownFile:
    return UnknownFile(
        f"{path} is not what wakebus wrote as schema {version} ({why}); it was left as it is: move "
        f"it away to start empty{schema.loss}"
    )


def copy_to(db: sqlite3.Connection, copy: Path) -> None:
    """Write the whole file to `copy` (0600), which is there only once it is complete."""
    draft = copy.with_name(f"{copy.name}.draft")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(draft)) as other:
            other.execute("PRAGMA journal_mode=OFF")  # nobody goes on with a draft
            other.execute("PRAGMA synchronous=OFF")  # and what is whole is synced at once
            db.backup(other)
        put_in_place(draft, copy)
    finally:
        draft.unlink(missing_ok=True)


def drop_drafts(path: Path) -> None:
    """Remove what a copy left that a cut of power or a kill ended."""
    for draft in path.parent.glob(f"{path.name}*.draft*"):
        if draft.is_file():
            draft.unlink()


def drop_old_copies(path: Path, before: float) -> None:
    """Remove copies that were made before a migration, and before `before` (wall seconds)."""
    for copy in path.parent.glob(f"{path.name}.version-*"):
        if copy.stat().st_mtime < before:
            copy.unlink()
