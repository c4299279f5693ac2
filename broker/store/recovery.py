"""
Opening the store, and closing it (PROTOCOL.md section 8).

Rule 1: a damaged file is set aside and said loudly, never deleted and never written to. Rule 2: the
whole file is looked through after a crash of the machine or an error of SQLite, never after a mere
kill: the write-ahead log covers that, and a large file takes seconds. Rule 3: nothing is silently
empty: whatever was there and is not used is named.
"""

import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.store.schema import STORE
from wakebus.broker.store.store import Store
from wakebus.broker.system import sqlite_file
from wakebus.broker.system.log_file import reopen_log
from wakebus.broker.system.private_files import CannotStart, make_folder

log = logging.getLogger("wakebus.store")

# sqlite.org/fileformat.html, 4.1; a log that was not begun is 0.
WAL_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def open_store(path: Path, boot: str) -> Store:
    """
    Open the store at `path`, a new one if the file is damaged; `boot` names the machine's boot.

    A damaged file is renamed `….corrupt-<utc>`, with its log. Raises NewerFile, BrokerUnavailable.
    """
    try:
        return _open(path, boot)
    except sqlite3.Error as exc:
        if not sqlite_file.is_damage(exc):
            raise BrokerUnavailable(f"{path} cannot be opened: {exc}; {_advice(exc)}") from exc
        aside = sqlite_file.set_aside(path)
        Path(f"{path}.suspect").unlink(missing_ok=True)
        log.critical("%s is damaged (%s); kept as %s, starting empty", path, exc, aside)
    return _open(path, boot)


def _advice(exc: sqlite3.Error) -> str:
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "make room on the disk and start again"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "close the program that has it open and start again"
    return "see to its mode and owner and start again"


def _open(path: Path, boot: str) -> Store:
    if os.path.lexists(path):
        _check_file(path)
    store = Store(path)
    try:
        before = store.boot()
        if before is not None and (before != boot or store.damage_mark.exists()):
            sqlite_file.check_pages(store.db)
        store.set_boot(boot)
        store.damage_mark.unlink(missing_ok=True)
        return store
    except BaseException:
        store.abandon()
        raise


def _check_file(path: Path) -> None:
    """Look at it before SQLite changes anything. Raises damage, NewerFile, BrokerUnavailable."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        raise BrokerUnavailable(
            f"{path} is not a file of this user; it was left alone: move it away and start again"
        )
    if not os.access(path, os.W_OK):
        raise BrokerUnavailable(f"{path} cannot be written; run: chmod u+rw {path}")
    head = _head(path)
    sqlite_file.check_magic(head)
    if not head:
        log.critical("%s is empty: whatever was stored in it is gone", path)
    if _head(Path(f"{path}-wal"))[:4] not in (b"", b"\0" * 4, *WAL_MAGIC):
        # SQLite would drop it without a word.
        raise sqlite_file.damage("its write-ahead log is garbage")
    try:
        # To read: a connection that may write would move a newer broker's log into the file.
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    except sqlite3.Error:
        return
    try:
        sqlite_file.check_version(db, path, STORE)
    except sqlite3.Error:
        pass  # opening it for writing tells what is wrong
    finally:
        db.close()


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except FileNotFoundError:
        return b""


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
    copy = store.path.with_name(f"{store.path.name}.rescued-{sqlite_file.utc_stamp()}")
    sqlite_file.copy_to(store.db, copy)
    log.critical(
        "what was stored is kept as %s (%d messages wait in it); to use it again: stop the broker "
        "and rename it to %s",
        copy,
        waiting,
        store.path.name,
    )
