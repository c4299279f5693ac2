"""
Opening the store, and closing it (PROTOCOL.md section 8).

Rule 1: a damaged file is set aside and said loudly, never deleted and never written to
(system/sqlite_file.py). Rule 2: the whole file is looked through after a crash of the machine or an
error of SQLite, never after a mere kill: the write-ahead log covers that, and a large file takes
seconds. Rule 3: nothing is silently empty: whatever was there and is not used is named. Rule 4: a
new file gets its name when it is complete: an empty one of that name was more once.
"""

import errno
import logging
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.store.schema import GIVE_BACK, STORE
from wakebus.broker.store.store import Store, damage_mark
from wakebus.broker.system import sqlite_file
from wakebus.broker.system.log_file import reopen_log
from wakebus.broker.system.private_files import CannotStart, make_folder

log = logging.getLogger("wakebus.store")


def open_store(path: Path, boot: str) -> Store:
    """
    Open the store at `path`, a new one if the file is damaged; `boot` names the machine's boot.

    A damaged file is renamed `….corrupt-<utc>`, with its log. Raises NewerFile, UnknownFile,
    BrokerUnavailable.
    """
    try:
        return sqlite_file.open_or_set_aside(path, STORE, lambda: _open(path, boot), log.critical)
    except (sqlite3.Error, OSError) as exc:
        raise BrokerUnavailable(f"{path} cannot be opened: {exc}; {_advice(exc)}") from exc


def _advice(exc: sqlite3.Error | OSError) -> str:
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    full = isinstance(exc, OSError) and exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "make room on the disk and start again"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "close the program that has it open and start again"
    return "see to its mode and owner and start again"


def _open(path: Path, boot: str) -> Store:
    if os.path.lexists(path):
        _check_owner(path)
    sqlite_file.check_heads(path)
    if not path.exists() or not path.stat().st_size:
        _make(path)

    def check(db: sqlite3.Connection) -> None:
        sqlite_file.check_steps(db, path, STORE)
        before = db.execute("SELECT boot FROM machine").fetchone()
        if before and (before[0] != boot or damage_mark(path).exists()):
            sqlite_file.check_pages(db)

    looked = sqlite_file.check_read_only(path, check)
    store = Store(path)
    try:
        if not looked:
            check(store.db)
        store.set_boot(boot)
        damage_mark(path).unlink(missing_ok=True)
        return store
    except BaseException:
        store.abandon()
        raise


def _check_owner(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        raise BrokerUnavailable(
            f"{path} is not a file of this user; it was left alone: move it away and start again"
        )
    if not os.access(path, os.W_OK):
        raise BrokerUnavailable(f"{path} cannot be written; run: chmod u+rw {path}")


def _make(path: Path) -> None:
    """Make a new store, which gets its name when it is complete and on disk."""
    if path.exists():
        log.critical("%s is empty: whatever was stored in it is gone", path)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(GIVE_BACK)
        sqlite_file.migrate(db, path, STORE)
        sqlite_file.copy_to(db, path)


def lost_files(store: Store) -> str:
    """Return what became of the files under the open store, "" while they are there."""
    try:
        found = store.path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return f"{store.path} was removed under the broker"
    if (found.st_dev, found.st_ino) != store.file:
        return f"{store.path} was replaced under the broker"
    if not Path(f"{store.path}-wal").exists():
        return f"{store.path}-wal was removed under the broker"
    return ""


def close_store(store: Store) -> None:
    """Close it for good; if its file was taken away, keep what is stored beside it first."""
    try:
        if not _is_there(store):
            _rescue(store)
        store.close()
    except (sqlite3.Error, OSError, CannotStart) as exc:
        log.critical("%s was not closed cleanly: %s", store.path, exc)


def _is_there(store: Store) -> bool:
    try:
        found = store.path.lstat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == store.file


def _rescue(store: Store) -> None:
    """SQLite still has the removed file open: write it out again, under another name."""
    waiting = len(store.open_messages())
    if not waiting and not store.path.parent.is_dir():
        return  # whoever removed the folder lost nothing that somebody waits for
    if not store.path.parent.parent.is_dir():
        log.critical(
            "%s went with all around it; %d waiting messages are lost", store.path, waiting
        )
        return
    make_folder(store.path.parent)
    reopen_log(log.parent)  # the old one went with the folder
    copy = sqlite_file.free_name(store.path, "rescued")
    sqlite_file.copy_to(store.db, copy)
    log.critical(
        "what was stored is kept as %s (%d messages wait in it); to use it again: stop the broker "
        "and rename it to %s",
        copy,
        waiting,
        store.path.name,
    )
