"""
What the courier remembers of texts on their way: `bus/courier.db`, a SQLite file of its own.

Rule 1: a part stands as `begun` on the disk before a byte of it goes out. Rule 2: a message belongs
to the courier with the highest epoch that took it; an older one can begin nothing any more. Rule
3: what may have been accepted stays `begun`, whatever a later try says. Rule 4: what is over is
kept for a day, because the broker may not have stored its end yet; what was left, for 8 days. Both
count by a clock that stands while no courier runs: a wall clock that jumps forgets nothing.
Rule 5: a damaged file is set aside and said loudly, a newer one is not touched.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from wakebus.adapters import notebook
from wakebus.adapters.base import Part, Word
from wakebus.adapters.errors import Unavailable
from wakebus.adapters.retry import Stopped

log = logging.getLogger(__name__)
T = TypeVar("T")

ENDED_S: Final = 86_400.0  # of running time; an ack waits at most for a broker's return
LEFT_S: Final = 8 * 86_400.0  # longer than a message lives by default (7 days)
MAX_ENDED: Final = 50_000
PURGE_EVERY: Final = 200  # messages
PURGE_ROWS: Final = 1_000
MAX_OPEN: Final = 10_000


class Overtaken(Stopped):
    """Another courier holds this message now: nothing more is tried here."""


class _Ended(NamedTuple):
    """How a part ended, and in whose hands."""

    epoch: int
    word: Word
    id: str
    first: float


class Book:
    """The file. Threads share it; two couriers too, for the moment of a takeover."""

    def __init__(self, path: Path, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._path, self._ticks = path, ticks
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._start = 0.0  # the book's clock is this + ticks
        self._open: dict[str, None] = {}  # taken by this process, and not over; oldest first
        self._owed: dict[tuple[str, int], _Ended] = {}  # ends that the disk did not take
        self._taken = 0
        self._closed = False

    def open(self) -> None:
        """Open the file, a new one if it is damaged. Raises NewerNotes and Unavailable."""
        self._transaction(lambda _: None)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._drop()

    def take(
        self, message: str, epoch: int, *, begun: bool = False, force: bool = False
    ) -> "Notes":
        """
        Return what is known of `message`, which is this epoch's from now on.

        `begun`: the broker says that work on it had begun. `force`: also if a higher epoch had it.
        Raises Overtaken, and Unavailable when the file cannot be written.
        """

        def work(db: sqlite3.Connection) -> "Notes":
            row = db.execute("SELECT epoch FROM message WHERE id=?", (message,)).fetchone()
            if row and row[0] > epoch and not force:
                raise Overtaken("another courier has taken this message over")
            db.execute(
                "INSERT INTO message (id, epoch, ended, at) VALUES (?, ?, 0, ?)"
                " ON CONFLICT (id) DO UPDATE SET epoch=excluded.epoch, ended=0, at=excluded.at",
                (message, epoch, self._clock()),
            )
            rows = db.execute("SELECT * FROM part WHERE message=?", (message,))
            parts = {row["number"]: Part(row["word"], row["id"], row["first"]) for row in rows}
            lost = row is None and (begun or message in self._open)
            return Notes(self, message, epoch, parts, lost=lost)

        notes = self._transaction(work)
        self._remember(message)
        return notes

    def _remember(self, message: str) -> None:
        with self._lock:
            self._open[message] = None
            while len(self._open) > MAX_OPEN:  # more than a mailbox holds: some expired there
                del self._open[next(iter(self._open))]
            self._taken += 1
            due = self._taken % PURGE_EVERY == 0
        if due:
            self.purge()

    def begin(self, message: str, epoch: int, number: int, now: float) -> None:
        """Store that a part begins; raises Overtaken and Unavailable."""

        def work(db: sqlite3.Connection) -> None:
            ours = "UPDATE message SET at=? WHERE id=? AND epoch=?"
            if not db.execute(ours, (self._clock(), message, epoch)).rowcount:
                raise Overtaken("another courier has taken this message over")
            db.execute(
                "INSERT INTO part (message, number, word, id, first) VALUES (?, ?, 'begun', '', ?)"
                " ON CONFLICT DO NOTHING",
                (message, number, now),
            )

        self._transaction(work)

    def end(self, message: str, number: int, ended: "_Ended") -> None:
        """Store that a part was `sent`, or (any other word) that it is as if never begun."""
        with self._lock:
            self._owed[message, number] = ended
            while len(self._owed) > MAX_OPEN:
                del self._owed[next(iter(self._owed))]
        try:
            self._transaction(lambda _: None)
        except Unavailable as exc:  # as `begun` it is never doubled; it is stored when it can be
            log.error("%s: the end of part %d is not stored yet: %s", message, number + 1, exc.text)

    def let_go(self, message: str) -> None:
        """Forget that this process works on `message`; its rows stay."""
        with self._lock:
            self._open.pop(message, None)

    def over(self, message: str, epoch: int) -> None:
        """Store that `message` has ended; its rows go when its end is sure to be stored."""
        self.let_go(message)
        ended = "UPDATE message SET ended=1, at=? WHERE id=? AND epoch=?"
        try:
            self._transaction(lambda db: db.execute(ended, (self._clock(), message, epoch)))
        except Unavailable as exc:
            log.warning("%s: its end is not stored, its rows go later: %s", message, exc.text)

    def purge(self) -> int:
        """Delete rows of what is over, and what was left; return how many messages went."""
        try:
            return self._transaction(self._purge)
        except Unavailable as exc:
            log.warning("nothing can be removed from %s: %s", self._path, exc.text)
            return 0

    def _purge(self, db: sqlite3.Connection) -> int:
        now = self._clock()
        count = db.execute("SELECT count(*) FROM message WHERE ended=1").fetchone()[0]
        old = db.execute(
            "SELECT id FROM message WHERE (ended=1 AND at<?) OR (ended=0 AND at<?)"
            " ORDER BY at LIMIT ?",
            (now - ENDED_S, now - LEFT_S, PURGE_ROWS),
        ).fetchall()
        old += db.execute(
            "SELECT id FROM message WHERE ended=1 ORDER BY at LIMIT ?",
            (min(max(0, count - MAX_ENDED), PURGE_ROWS),),
        ).fetchall()
        ids = [(row["id"],) for row in old if row["id"] not in self._open]
        db.executemany("DELETE FROM part WHERE message=?", ids)
        db.executemany("DELETE FROM message WHERE id=?", ids)
        return len(set(ids))

    # --- the file -------------------------------------------------------------------------

    def _clock(self) -> float:
        return self._start + self._ticks()

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                db = self._db or self._connect()
                db.execute("BEGIN IMMEDIATE")
                owed = dict(self._owed)
                for (message, number), ended in owed.items():
                    _end(db, message, number, ended)
                result = work(db)
                db.execute("COMMIT")
            except sqlite3.Error as exc:
                self._undo(exc)
                raise Unavailable(f"{self._path} cannot be written: {exc}") from exc
            except BaseException:
                self._undo(None)
                raise
            for key, value in owed.items():
                if self._owed.get(key) == value:
                    del self._owed[key]
            return result

    def _undo(self, exc: sqlite3.Error | None) -> None:
        if exc is not None and notebook.is_damage(exc):
            log.critical("%s is damaged: %s", self._path, exc)
            self._drop()  # looked through, and set aside, when it is opened again
        elif self._db is not None and self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise Unavailable(f"{self._path} is closed: the courier ends")
        db = notebook.open_file(self._path)
        newest = db.execute("SELECT max(at) FROM message").fetchone()[0]
        self._start = (newest or 0.0) - self._ticks()
        self._db = db
        return db

    def _drop(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _end(db: sqlite3.Connection, message: str, number: int, ended: _Ended) -> None:
    if ended.word == "sent":
        db.execute(
            "INSERT INTO part (message, number, word, id, first) VALUES (?, ?, 'sent', ?, ?)"
            " ON CONFLICT (message, number) DO UPDATE SET word='sent', id=excluded.id",
            (message, number, ended.id, ended.first),
        )
    else:  # of a part that another courier has begun meanwhile this one knows nothing
        db.execute(
            "DELETE FROM part WHERE message=? AND number=? AND word='begun'"
            " AND EXISTS (SELECT 1 FROM message WHERE id=part.message AND epoch=?)",
            (message, number, ended.epoch),
        )


class Notes:
    """
    The parts of one message, as base.Progress; in one thread at a time.

    `lost`: work on the message had begun, and what was known of it is gone. `halt`: once it is
    set, nothing more begins.
    """

    def __init__(
        self, book: Book, message: str, epoch: int, parts: dict[int, Part], *, lost: bool = False
    ) -> None:
        self._book, self._message, self._epoch, self._parts = book, message, epoch, parts
        self._doubted: set[int] = set()  # an earlier try of this part may have been accepted
        self.lost = lost
        self.halt = threading.Event()

    def parts(self) -> Mapping[int, Part]:
        """Return what is known of each part that was begun or sent."""
        return dict(self._parts)

    @property
    def sent(self) -> int:
        """How many parts were sent."""
        return sum(part.word == "sent" for part in self._parts.values())

    def begin(self, number: int, now: float) -> None:
        """Store that this part's request begins; raises Stopped and Unavailable (not sent)."""
        if self.halt.is_set():
            raise Stopped("the courier stops; the rest is sent when it runs again")
        self._book.begin(self._message, self._epoch, number, now)
        if number in self._parts:
            self._doubted.add(number)
        self._parts.setdefault(number, Part("begun", first=now))

    def end(self, number: int, word: Word, id: str = "") -> None:
        """Store how it ended. Raises nothing: what the disk does not take now is stored later."""
        if word == "uncertain" or (word != "sent" and number in self._doubted):
            return
        before = self._parts.pop(number, None)
        first = before.first if before else 0.0
        if word == "sent":
            self._parts[number] = Part("sent", id, first)
        self._book.end(self._message, number, _Ended(self._epoch, word, id, first))

    def over(self, *, again: bool = False) -> None:
        """Say that it has ended here. `again`: it may be retried, and what was sent is kept."""
        if again and self.sent:
            self._book.let_go(self._message)
        else:
            self._book.over(self._message, self._epoch)
