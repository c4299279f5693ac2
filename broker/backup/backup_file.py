"""
A backup: the store as one SQLite file of its own, with the bus's other files in a table of it.

Rule 1: the store first, all else after it: what the courier has sent is known to be sent. Rule 2:
nothing is replaced, and the name is there once what has it is whole, checked and on disk. Rule 3: a
broker that writes meanwhile waits for nothing (sqlite.org/wal.html: readers do not block writers).
"""

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.broker import __version__
from wakebus.broker.errors import WakebusError
from wakebus.broker.store.schema import DEAD, STORE
from wakebus.broker.system import sqlite_file
from wakebus.broker.system.durable_file import drop_old_drafts, sync_file, sync_folder
from wakebus.broker.system.lock_file import STORE_FILE

# Beside the store: settings; what the courier has sent; notes that wait for a turn; copies of files
# on their way. Logs, sockets and what is made anew are no part of a bus.
SINGLE_FILES: Final = ("wakebus.toml",)
DATABASES: Final = ("courier.db",)
FOLDERS: Final = ("context", "conversations", "files")

TABLES: Final = (
    "CREATE TABLE backup (made REAL NOT NULL, version TEXT NOT NULL)",
    "CREATE TABLE backup_file (name TEXT PRIMARY KEY, data BLOB NOT NULL)",
)
MAX_FILE: Final = 900 << 20  # bytes; SQLite takes a value of 1 GB at most
DRAFT_NAME: Final = 200  # bytes of the target's name; a name has room for 255


class BackupError(WakebusError):
    """No backup was made, or none was restored; `data["step"]` is what to do about it."""

    code = "backup"


class StoreCounts(NamedTuple):
    """How many messages a store holds, how many of them wait or are at work, how many are dead."""

    messages: int
    waiting: int
    dead: int

    def in_words(self, when: str = "yet") -> str:
        """Return the numbers for people. `when`: not handled when."""
        letters = f"{self.dead} dead letter{'s' * (self.dead != 1)}"
        messages = f"{self.messages} message{'s' * (self.messages != 1)}"
        return f"{messages} ({self.waiting} not handled {when}, {letters})"


def count_messages(folder: Path) -> StoreCounts:
    """Return what the store in `folder` holds, none where there is none. Raises BackupError."""
    path = folder / STORE_FILE
    if not path.exists():
        return StoreCounts(0, 0, 0)
    try:
        with closing(sqlite_file.connect_to_read(path)) as db:
            return counts_of(db)
    except sqlite3.Error as exc:
        raise BackupError(f"{path} cannot be read: {exc}", step="wakebus doctor") from exc


def counts_of(db: sqlite3.Connection) -> StoreCounts:
    """Return what a store holds. Raises sqlite3.Error."""
    sql = f"SELECT count(*), count(*) FILTER (WHERE done IS NULL), count(*) FILTER (WHERE {DEAD})"
    return StoreCounts(*db.execute(f"{sql} FROM message").fetchone())


def write_backup(folder: Path, target: Path) -> StoreCounts:
    """
    Write the bus of `folder` to `target` (0600), a new file, and return what its store holds.

    All that has a receipt when this begins is in it. Raises BackupError, NewerFile.
    """
    store = folder / STORE_FILE
    if not store.is_file():
        raise BackupError(f"there is no bus in {folder}: nothing to back up")
    check_target(target)
    draft = _draft_of(target)
    try:
        drop_old_drafts(target)
        _write(folder, store, draft)
        counts = check_backup(draft)
        _give_name(draft, target)
        return counts
    except sqlite3.Error as exc:
        step = "Is there room on that disk? Then the store: wakebus doctor"
        raise BackupError(f"no backup was made: {exc}", step=step) from exc
    except OSError as exc:
        raise BackupError(f"no backup was made: {exc}", step="Name another file") from exc
    finally:
        for end in sqlite_file.ENDS:
            Path(f"{draft}{end}").unlink(missing_ok=True)


def check_target(target: Path) -> None:
    """Raise BackupError where no new file of this name can be made."""
    if target.is_dir():
        raise BackupError(f"{target} is a folder", step=f"Name a file: {target / 'bus.backup'}")
    if os.path.lexists(target):
        raise BackupError(f"{target} exists; nothing is overwritten", step="Name another file")
    if not target.parent.is_dir():
        raise BackupError(f"there is no folder {target.parent}", step="Make it, or name another")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise BackupError(f"{target.parent} may not be written to", step="Name another folder")


def _draft_of(target: Path) -> Path:
    """Return what becomes `target`, with room for the ends that SQLite puts behind its name."""
    begin = os.fsdecode(os.fsencode(target.name)[:DRAFT_NAME])
    return target.with_name(f".{begin}.{os.getpid()}.draft")


def _write(folder: Path, store: Path, draft: Path) -> None:
    with closing(sqlite_file.connect_to_read(store)) as db:
        sqlite_file.check_version(db, store, STORE)
        sqlite_file.copy_to(db, draft)
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, wherever it is carried
        for table in TABLES:
            copy.execute(table)
        copy.execute("INSERT INTO backup (made, version) VALUES (?,?)", (time.time(), __version__))
        for name, data in _other_files(folder):
            copy.execute("INSERT INTO backup_file (name, data) VALUES (?,?)", (name, data))


def _other_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for name in DATABASES:
        if (folder / name).is_file():
            yield name, _database(folder / name)
    inner = [one for part in FOLDERS for one in sorted((folder / part).glob("*"))]
    for path in [*(folder / name for name in SINGLE_FILES), *inner]:
        if (data := _content(path)) is not None:
            yield str(path.relative_to(folder)), data


def _database(path: Path) -> bytes:
    with closing(sqlite_file.connect_to_read(path)) as db, closing(_in_memory()) as copy:
        db.backup(copy)
        return copy.serialize()


def _in_memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


def _content(path: Path) -> bytes | None:
    """Return a file's bytes; None for what went meanwhile, a link, a folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if isinstance(exc, PermissionError):
            raise
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        if found.st_size > MAX_FILE:
            raise OSError(f"{path} is too large for a backup ({found.st_size >> 20} MiB)")
        return file.read()


def check_backup(path: Path) -> StoreCounts:
    """
    Read a whole backup and return what its store holds.

    Raises BackupError where it is none or not whole, NewerFile.
    """
    try:
        with closing(sqlite_file.connect_to_read(path)) as db:
            made_of(db)
            sqlite_file.check_version(db, path, STORE)
            if (found := db.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise BackupError(f"{path} is damaged: {found}", step="Take another backup")
            return counts_of(db)
    except sqlite3.Error as exc:
        if not os.access(path, os.R_OK):
            raise BackupError(f"{path} may not be read", step="Let your user read it") from exc
        step = "Name a file that `wakebus backup` made"
        raise BackupError(f"{path} is no backup: {exc}", step=step) from exc


def made_of(db: sqlite3.Connection) -> float:
    """Return when a backup was made (Unix seconds). Raises sqlite3.Error for what is none."""
    return float(db.execute("SELECT made FROM backup").fetchone()[0])


def _give_name(draft: Path, target: Path) -> None:
    descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(draft, target)  # unlike a rename it never replaces
    except FileExistsError:
        raise BackupError(f"{target} exists; nothing is overwritten") from None
    except OSError:  # a file system without links
        check_target(target)
        draft.rename(target)
    sync_folder(target.parent)
