"""
Putting a backup in the place of the store.

Rule 1: the locks of a broker are held, so none runs or starts meanwhile. Rule 2: the store that was
there is kept under another name, and the new one takes its place in one step, when all else is
done. Rule 3: of the other files what lies here is newer, and stays: what the courier remembers to
have sent is not sent again. Rule 4: what waited when the backup was made may have been handled
since: it is labelled as redelivered, and no epoch is granted twice.
"""

import os
import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.broker.backup.backup_file import (
    DATABASES,
    FOLDERS,
    SINGLE_FILES,
    BackupError,
    StoreCounts,
    check_backup,
    made_of,
)
from wakebus.broker.store.rows import Redelivery
from wakebus.broker.store.store import damage_mark
from wakebus.broker.system import sqlite_file
from wakebus.broker.system.durable_file import make_folders, put_in_place, replace_file
from wakebus.broker.system.lock_file import STORE_FILE, AlreadyRunning, lock_folder, take_lock
from wakebus.broker.system.private_files import make_folder

# A holder that was there then is gone, and nothing died of it; a turn's token proves nothing now.
AS_REDELIVERED: Final = (
    f"UPDATE message SET redelivered=(redelivered & ~{int(Redelivery.SENT)})"
    f" | {int(Redelivery.RETURNED)}, started_before=started_before OR state='started',"
    " state='queued', token=NULL WHERE done IS NULL",
    "UPDATE endpoint SET instance='', pid=0, start=0, boot='', epoch=max(epoch, {now})",
)


class Restored(NamedTuple):
    """
    What was done. `made`: when the backup was (Unix seconds); `kept`: the path of the store that
    was here, None for none; `files`: what was put beside it, by name.
    """

    counts: StoreCounts
    made: float
    kept: Path | None
    files: list[str]


def restore_backup(source: Path, folder: Path) -> Restored:
    """Make the bus in `folder` that of a backup. Raises BackupError, NewerFile, CannotStart."""
    if not source.is_file():
        raise BackupError(f"there is no file {source}", step="Name what `wakebus backup` made")
    counts = check_backup(source)
    make_folder(folder)
    with ExitStack() as locks:
        try:
            for take in (lock_folder, take_lock):
                locks.callback(os.close, take(folder))
            return _restore(source, folder, counts)
        except AlreadyRunning as exc:
            step = "Stop it, then restore again: hermes-busd stop"
            raise BackupError(f"{exc.text}: nothing was restored", step=step) from exc
        except (sqlite3.Error, OSError) as exc:
            step = "Mend that, then restore again"
            raise BackupError(f"nothing was restored: {exc}", step=step) from exc


def _restore(source: Path, folder: Path, counts: StoreCounts) -> Restored:
    store = folder / STORE_FILE
    draft = folder / f"{STORE_FILE}.restored.draft"  # removed by the next start where this one died
    files: list[str] = []
    try:
        with closing(sqlite_file.connect_to_read(source)) as db:
            made = made_of(db)
            sqlite_file.copy_to(db, draft)
            _put_files(db, folder, files)
        _make_store(draft, _epochs(store))
        kept = _keep_old(store)
        put_in_place(draft, store)
    except BaseException:
        for name in files:
            (folder / name).unlink(missing_ok=True)
        raise
    finally:
        for end in sqlite_file.ENDS:
            Path(f"{draft}{end}").unlink(missing_ok=True)
    damage_mark(store).unlink(missing_ok=True)
    return Restored(counts, made, kept, files)


def _epochs(store: Path) -> list[tuple[str, int, float]]:
    """Return name, epoch and when it was seen of each endpoint of the store that is here."""
    if not store.exists():
        return []
    try:
        with closing(sqlite_file.connect_to_read(store)) as db:
            return db.execute("SELECT name, epoch, seen FROM endpoint").fetchall()
    except sqlite3.Error:
        return []  # damaged: it is set aside


def _make_store(draft: Path, epochs: list[tuple[str, int, float]]) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        for statement in AS_REDELIVERED:
            db.execute(statement.format(now=int(time.time())))
        # The courier's record belongs to the highest epoch that it has seen.
        db.executemany(
            "INSERT INTO endpoint (name, epoch, seen) VALUES (?,?,?)"
            " ON CONFLICT (name) DO UPDATE SET epoch=max(epoch, excluded.epoch)",
            epochs,
        )
        db.execute("DROP TABLE backup_file")
        db.execute("DROP TABLE backup")
        db.execute("COMMIT")
        db.execute("PRAGMA incremental_vacuum").fetchall()


def _put_files(db: sqlite3.Connection, folder: Path, put: list[str]) -> None:
    """Write what is not here yet; its names are added to `put`."""
    for name, data in db.execute("SELECT name, data FROM backup_file ORDER BY name"):
        if not (isinstance(name, str) and isinstance(data, bytes) and _is_known(name)):
            raise BackupError(f"the backup holds {name!a}, which is no file of a bus")
        path = folder / name
        try:
            if path.parent != folder:
                make_folders(path.parent, 0o700)
            replace_file(path, data, only_new=True)
        except FileExistsError:
            continue
        put.append(name)


def _is_known(name: str) -> bool:
    """Whether a backup may name this file: it was made by somebody who could write anything."""
    folder, _, inner = name.rpartition("/")
    if "\0" in name or inner in ("", ".", ".."):
        return False
    return folder in FOLDERS if folder else inner in (*SINGLE_FILES, *DATABASES)


def _keep_old(store: Path) -> Path | None:
    """Copy the store that is here to another name, with its log; return the name, if it was one."""
    if not store.exists():
        if Path(f"{store}-wal").exists():  # it would be played into the new one
            return sqlite_file.set_aside(store)
        return None
    try:
        sqlite_file.check_heads(store)
        with closing(sqlite3.connect(store, isolation_level=None)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if db.execute("PRAGMA journal_mode=DELETE").fetchone()[0] != "delete":
                raise sqlite3.OperationalError(f"another program reads {store}")
            kept = sqlite_file.free_name(store, "before-restore")
            sqlite_file.copy_to(db, kept)
            return kept
    except sqlite3.Error as exc:
        if not sqlite_file.is_damage(exc):
            raise
        return sqlite_file.set_aside(store)
