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
from typing import Final, TypeVar

from wakebus.adapters.base import Part
from wakebus.adapters.courier import delivery_log_file as notebook
from wakebus.adapters.courier import delivery_log_rows as rows
from wakebus.adapters.courier.delivery_log_rows import Ended, Row
from wakebus.adapters.delivery.retry import STOPS, Stopped
from wakebus.adapters.errors import Result, Unavailable
from wakebus.adapters.pacing.cooldowns import ScopeKey

log = logging.getLogger(__name__)
T = TypeVar("T")

PURGE_EVERY: Final = 200  # messages
MAX_OPEN: Final = 10_000


class Overtaken(Stopped):
    """Another courier holds this message now: nothing more is tried here."""


class Book:
    """The file. Threads share it; two couriers too, for the moment of a takeover."""

    def __init__(self, path: Path, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._path, self._ticks = path, ticks
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._start = 0.0  # the book's clock is this + ticks
        self._open: dict[str, None] = {}  # taken by this process, and not over; oldest first
        self._owed: dict[tuple[str, int], Ended] = {}  # ends that the disk did not take
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

    def chat(self, message: str) -> str:
        """Return where parts of `message` were begun, "" for nowhere. Raises Unavailable."""
        row = self._transaction(lambda db: rows.read(db, message))
        return row.chat if row else ""

    def take(
        self, message: str, epoch: int, chat: str = "", *, begun: bool = False, force: bool = False
    ) -> "Notes":
        """
        Return what is known of `message`, which is this epoch's from now on.

        `chat`: where it goes, if nothing of it has begun elsewhere. `begun`: the broker says that
        work on it had begun. `force`: also if a higher epoch had it. Raises Overtaken, and
        Unavailable when the file cannot be written.
        """

        def work(db: sqlite3.Connection) -> "Notes":
            row = rows.read(db, message)
            if row and row.epoch > epoch and not force:
                raise Overtaken("another courier has taken this message over")
            before = row or Row(epoch, "", "", {})
            before = before._replace(epoch=epoch, chat=before.chat or chat)
            rows.take(db, message, epoch, before.chat, self._clock())
            lost = row is None and (begun or message in self._open)
            return Notes(self, message, before, lost=lost)

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

    def begin(self, message: str, epoch: int, number: int, now: float, found: str = "") -> None:
        """Store that a part begins, at `found`; raises Overtaken and Unavailable."""

        def work(db: sqlite3.Connection) -> None:
            if not rows.begin(db, message, epoch, (number, now, found), self._clock()):
                raise Overtaken("another courier has taken this message over")

        self._transaction(work)

    def end(self, message: str, number: int, ended: "Ended") -> None:
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
        try:
            self._transaction(lambda db: rows.over(db, message, epoch, self._clock()))
        except Unavailable as exc:
            log.warning("%s: its end is not stored, its rows go later: %s", message, exc.text)

    def keep_waits(self, waits: Mapping[ScopeKey, float]) -> None:
        """Store until when (Unix seconds) who asked to wait; what is not stored is asked again."""
        try:
            self._transaction(lambda db: rows.keep_waits(db, waits))
        except Unavailable as exc:
            log.warning("what platforms asked for is not stored: %s", exc.text)

    def waits(self) -> dict[ScopeKey, float]:
        """Return what was stored last. Raises Unavailable."""
        return self._transaction(rows.waits)

    def purge(self) -> int:
        """Delete rows of what is over, and what was left; return how many messages went."""
        try:
            return self._transaction(lambda db: rows.purge(db, self._clock(), self._open))
        except Unavailable as exc:
            log.warning("nothing can be removed from %s: %s", self._path, exc.text)
            return 0

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
                    rows.end(db, message, number, ended)
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


class Notes:
    """
    The parts of one message, as base.Progress; in one thread at a time.

    `chat`: where it goes. `lost`: work on the message had begun, and what was known of it is gone.
    `halt`: once it is set, nothing more begins.
    """

    def __init__(self, book: Book, message: str, row: Row, *, lost: bool = False) -> None:
        self._book, self._message = book, message
        self._epoch, self.chat, self._found, self._parts = row
        self._doubted: set[int] = set()  # an earlier try of this part may have been accepted
        self.lost = lost
        self.halt = threading.Event()

    def found(self) -> str:
        """Return where parts of it were begun, as the platform calls the chat."""
        return self._found

    def parts(self) -> Mapping[int, Part]:
        """Return what is known of each part that was begun or sent."""
        return dict(self._parts)

    @property
    def sent(self) -> int:
        """How many parts were sent."""
        return sum(part.state == "sent" for part in self._parts.values())

    def begin_part(self, number: int, now: float, found: str = "") -> None:
        """Store that this part's request begins; raises Stopped and Unavailable (not sent)."""
        if self.halt.is_set():
            raise Stopped(STOPS)
        self._book.begin(self._message, self._epoch, number, now, found)
        if number in self._parts:
            self._doubted.add(number)
        self._parts.setdefault(number, Part("begun", first=now))
        self._found = found

    def end_part(self, number: int, result: Result, id: str = "") -> None:
        """Store how it ended. Raises nothing: what the disk does not take now is stored later."""
        if result == "uncertain" or (result != "sent" and number in self._doubted):
            return
        before = self._parts.pop(number, None)
        first = before.first if before else 0.0
        if result == "sent":
            self._parts[number] = Part("sent", id, first)
        self._book.end(self._message, number, Ended(self._epoch, result, id, first))

    def over(self, *, again: bool = False) -> None:
        """Say that it has ended here. `again`: it may be retried, and what was sent is kept."""
        if again and self.sent:
            self._book.let_go(self._message)
        else:
            self._book.over(self._message, self._epoch)
