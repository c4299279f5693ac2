"""
Opening the store (PROTOCOL.md section 8).

Rule 1: a damaged file is set aside and said loudly, never deleted and never written to. Rule 2: the
whole file is looked through after a crash of the machine or an error of SQLite, never after a mere
kill: the write-ahead log covers that, and a large file takes seconds.
"""

import logging
import sqlite3
import time
from pathlib import Path
from typing import Final

from wakebus.broker.errors import Unavailable
from wakebus.broker.store import Damaged, Store, is_damage

log = logging.getLogger("wakebus.store")

MAGIC: Final = b"SQLite format 3\0"  # sqlite.org/fileformat.html, 1.3.1


def open_store(path: Path, boot: str) -> Store:
    """
    Open the store at `path`, a new one if the file is damaged; `boot` names the machine's boot.

    A damaged file is renamed `….corrupt-<utc>`, with its log. Raises NewerStore and Unavailable.
    """
    try:
        return _open(path, boot)
    except Damaged as exc:
        _set_aside(path, exc.text)
    except sqlite3.Error as exc:
        if not is_damage(exc):
            raise Unavailable(f"{path} cannot be opened: {exc}") from exc
        _set_aside(path, str(exc))
    return _open(path, boot)


def _open(path: Path, boot: str) -> Store:
    if path.is_file() and _head(path) not in (b"", MAGIC):
        raise Damaged("it is no database")  # seen before SQLite could remove its log
    store = Store(path)
    try:
        before = store.boot()
        doubtful = before is not None and (before != boot or store.suspect.exists())
        if doubtful and (found := store.look_through()) != "ok":
            raise Damaged(found)
        store.set_boot(boot)
        store.suspect.unlink(missing_ok=True)
        return store
    except BaseException:
        store.abandon()
        raise


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _set_aside(path: Path, why: str) -> None:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.corrupt-{stamp}")
    # Its log too: SQLite would play it into the new file.
    for end in ("-wal", "-shm", ""):
        if (part := Path(f"{path}{end}")).exists():
            part.rename(f"{aside}{end}")
    Path(f"{path}.suspect").unlink(missing_ok=True)
    log.critical("%s is damaged (%s); kept as %s, starting empty", path, why, aside)
