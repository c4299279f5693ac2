"""
What the store keeps, how long and how much (PROTOCOL.md section 8).

Rule 1: what has not ended is never deleted; the oldest ends go first. Rule 2: few rows and bytes in
one step: others wait for the disk meanwhile. Rule 3: space that is free goes back to the disk, but
for a reserve that the next burst uses. Rule 4: run by the writer thread, in a transaction.
"""

import logging
import sqlite3
from pathlib import Path
from typing import Final

from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.system.sqlite_file import drop_old_copies

log = logging.getLogger("wakebus.store")

STEP_ROWS: Final = 200
STEP_BYTES: Final = 8 << 20
MEASURE_BYTES: Final = 1 << 20  # of new messages between two looks at the size
EARLY: Final = 0.9  # of the bound: from here on ends are deleted before their time
RESERVE_BYTES: Final = 16 << 20
STEP_PAGES: Final = 256  # of 4 KiB; about 20 ms
SAY_EACH: Final = 100_000  # messages that went before their time


class Quota:
    """
    Whether a new message has room. `limit`: bytes; `early`: what was deleted for it.

    `unerased`: what was deleted may still be in the write-ahead log.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.limit = 1 << 62
        self.early = 0
        self.unerased = True  # by a broker that was killed
        self._full, self._unmeasured = False, 0

    def used(self) -> int:
        """Return the bytes of what is stored; free pages of the file are not counted."""
        size, pages, free = _facts(self._db, "page_size", "page_count", "freelist_count")
        return (pages - free) * size

    def reserve(self, size: int) -> None:
        """Return if `size` bytes more may come, or raise BrokerUnavailable."""
        self._unmeasured += size
        if self._full or self._unmeasured > MEASURE_BYTES:
            self._unmeasured = 0
            self._full = self.used() > self.limit and not self.delete_oldest(self.limit)
        if self._full:
            raise BrokerUnavailable(
                f"the store is full: what waits for its receivers takes {self.limit >> 20} MiB "
                "(setting store_bytes); nothing was stored. Who does not read: wakebus endpoints"
            )

    def delete_oldest(self, most: int) -> int:
        """Delete some of the oldest ends while more than `most` is used; return how many."""
        over = self.used() - most
        if over <= 0:
            return 0
        gone = self.delete_ends("done IS NOT NULL", (), min(over + MEASURE_BYTES, STEP_BYTES))
        if gone and self.early % SAY_EACH == 0:
            log.warning("the store is near its bound (store_bytes): the oldest ends are deleted")
        self.early += gone
        return gone

    def delete_ends(self, which: str, args: tuple[float, ...], budget: int) -> int:
        """Delete the oldest ends, about `budget` bytes of them, at least one; return how many."""
        found = self._db.execute(
            f"SELECT seq, CAST(size AS INTEGER) FROM message WHERE {which} ORDER BY done LIMIT ?",
            (*args, STEP_ROWS),
        )
        seqs: list[int] = []
        for seq, size in found.fetchall():
            if seqs and size > budget:
                break
            budget -= size
            seqs.append(seq)
        self._db.executemany("DELETE FROM message WHERE seq=?", [(seq,) for seq in seqs])
        self.unerased |= bool(seqs)
        return len(seqs)


def tidy(db: sqlite3.Connection, path: Path, quota: Quota, before: float) -> bool:
    """Take one step; whether there is more to do. `before`: what ended then is over its time."""
    drop_old_copies(path, before)
    if quota.delete_ends("done>=0 AND done<?", (before,), STEP_BYTES):
        return True
    return quota.delete_oldest(int(EARLY * quota.limit)) > 0 or _shrink(db)


def _facts(db: sqlite3.Connection, *names: str) -> list[int]:
    return [int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]


def _shrink(db: sqlite3.Connection) -> bool:
    """Shorten the file by some free pages; whether there are more. Nothing in an old file."""
    size, free, mode = _facts(db, "page_size", "freelist_count", "auto_vacuum")
    spare = free - RESERVE_BYTES // size
    if mode == 0 or spare <= 0:
        return False
    for _ in range(min(spare, STEP_PAGES)):
        db.execute("PRAGMA incremental_vacuum(1)")  # Python takes one step of it, one page
    return spare > STEP_PAGES
