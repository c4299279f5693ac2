"""
The delivery log: what the courier remembers of texts on their way, so that none is sent twice.

It is `bus/courier.db`, a SQLite file of its own.

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
from wakebus.adapters.courier import delivery_log_rows as sql
from wakebus.adapters.courier.delivery_log_file import open_file
from wakebus.adapters.courier.delivery_log_rows import MessageRow, PartEnd
from wakebus.adapters.delivery.retry import STOPS, Stopped
from wakebus.adapters.errors import Result, Unavailable
from wakebus.adapters.pacing.cooldowns import ScopeKey
from wakebus.broker.system.sqlite_file import close_as_it_is, is_damage

log = logging.getLogger(__name__)
T = TypeVar("T")

PURGE_EVERY: Final = 200  # messages
MAX_OPEN: Final = 10_000


class Overtaken(Stopped):
    """Another courier holds this message now: nothing more is tried here."""


class DeliveryLog:
    """The file. Threads share it; two couriers too, for the moment of a takeover."""

    def __init__(self, path: Path, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._path, self._ticks = path, ticks
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._start = 0.0  # the log's clock is this + ticks
        self._open: dict[str, None] = {}  # taken by this process, and not over; oldest first
        self._owed: dict[tuple[str, int], PartEnd] = {}  # ends that the disk did not take
        self._taken = 0
        self._closed = False

    def open(self) -> None:
        """Open the file, a new one if it is damaged. Raises NewerFile and Unavailable."""
        self._transaction(lambda _: None)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def chat(self, message: str) -> str:
        """Return where parts of `message` were begun, "" for nowhere. Raises Unavailable."""
        row = self._transaction(lambda db: sql.read_message(db, message))
        return row.chat if row else ""

    def claim(
        self, message: str, epoch: int, chat: str = "", *, begun: bool = False, force: bool = False
    ) -> "MessageRecord":
        """
        Return what is known of `message`, which is this epoch's from now on.

        `chat`: where it goes, if nothing of it has begun elsewhere. `begun`: the broker says that
        work on it had begun. `force`: also if a higher epoch had it. Raises Overtaken, and
        Unavailable when the file cannot be written.
        """

        def step(db: sqlite3.Connection) -> "MessageRecord":
            row = sql.read_message(db, message)
            if row and row.epoch > epoch and not force:
                raise Overtaken("another courier has taken this message over")
            before = row or MessageRow(epoch, "", "", {})
            before = before._replace(epoch=epoch, chat=before.chat or chat)
            sql.claim_message(db, message, epoch, before.chat, self._clock())
            lost = row is None and (begun or message in self._open)
            return MessageRecord(self, message, before, lost=lost)

        record = self._transaction(step)
        self._remember(message)
        return record

    def _remember(self, message: str) -> None:
        with self._lock:
            self._open[message] = None
            while len(self._open) > MAX_OPEN:  # more than a mailbox holds: some expired there
                del self._open[next(iter(self._open))]
            self._taken += 1
            due = self._taken % PURGE_EVERY == 0
        if due:
            self.purge()

    def begin_part(
        self, message: str, epoch: int, number: int, now: float, chat_token: str = ""
    ) -> None:
        """Store that a part begins, at `chat_token`; raises Overtaken and Unavailable."""

        def step(db: sqlite3.Connection) -> None:
            if not sql.begin_part(db, message, epoch, (number, now, chat_token), self._clock()):
                raise Overtaken("another courier has taken this message over")

        self._transaction(step)

    def end_part(self, message: str, number: int, ended: PartEnd) -> None:
        """Store that a part was `sent`, or (any other word) that it is as if never begun."""
        with self._lock:
            self._owed[message, number] = ended
            while len(self._owed) > MAX_OPEN:
                del self._owed[next(iter(self._owed))]
        try:
            self._transaction(lambda _: None)
        except Unavailable as exc:  # as `begun` it is never doubled; it is stored when it can be
            log.error("%s: the end of part %d is not stored yet: %s", message, number + 1, exc.text)

    def release(self, message: str) -> None:
        """Forget that this process works on `message`; its rows stay."""
        with self._lock:
            self._open.pop(message, None)

    def finish(self, message: str, epoch: int) -> None:
        """Store that `message` has ended; its rows go when its end is sure to be stored."""
        self.release(message)
        try:
            self._transaction(lambda db: sql.finish_message(db, message, epoch, self._clock()))
        except Unavailable as exc:
            log.warning("%s: its end is not stored, its rows go later: %s", message, exc.text)

    def save_cooldowns(self, waits: Mapping[ScopeKey, float]) -> None:
        """Store until when (Unix seconds) who asked to wait; what is not stored is asked again."""
        try:
            self._transaction(lambda db: sql.write_cooldowns(db, waits))
        except Unavailable as exc:
            log.warning("what platforms asked for is not stored: %s", exc.text)

    def cooldowns(self) -> dict[ScopeKey, float]:
        """Return what was stored last. Raises Unavailable."""
        return self._transaction(sql.read_cooldowns)

    def purge(self) -> int:
        """Delete rows of what is over, and what was left; return how many messages went."""
        try:
            return self._transaction(lambda db: sql.purge(db, self._clock(), self._open))
        except Unavailable as exc:
            log.warning("nothing can be removed from %s: %s", self._path, exc.text)
            return 0

    # --- the file -------------------------------------------------------------------------

    def _clock(self) -> float:
        return self._start + self._ticks()

    def _transaction(self, step: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                db = self._db or self._connect()
                db.execute("BEGIN IMMEDIATE")
                owed = dict(self._owed)
                for (message, number), ended in owed.items():
                    sql.end_part(db, message, number, ended)
                result = step(db)
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
        if exc is not None and is_damage(exc):
            log.critical("%s is damaged: %s", self._path, exc)
            if self._db is not None:  # looked through, and set aside, when it is opened again
                close_as_it_is(self._db, self._path)
                self._db = None
        elif self._db is not None and self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise Unavailable(f"{self._path} is closed: the courier ends")
        db = open_file(self._path)
        newest = db.execute("SELECT max(at) FROM message").fetchone()[0]
        self._start = (newest or 0.0) - self._ticks()
        self._db = db
        return db

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


class MessageRecord:
    """
    The parts of one message, as base.Progress; in one thread at a time.

    `chat`: where it goes. `lost`: work on the message had begun, and what was known of it is gone.
    `halt`: once it is set, nothing more begins.
    """

    def __init__(
        self, log: DeliveryLog, message: str, row: MessageRow, *, lost: bool = False
    ) -> None:
        self._log, self._message = log, message
        self._epoch, self.chat, self._chat_token, self._parts = row
        self._doubted: set[int] = set()  # an earlier try of this part may have been accepted
        self.lost = lost
        self.halt = threading.Event()

    def chat_token(self) -> str:
        """Return where parts of it were begun, as the platform calls the chat."""
        return self._chat_token

    def parts(self) -> Mapping[int, Part]:
        """Return what is known of each part that was begun or sent."""
        return dict(self._parts)

    @property
    def sent(self) -> int:
        """How many parts were sent."""
        return sum(part.state == "sent" for part in self._parts.values())

    def begin_part(self, number: int, now: float, chat_token: str = "") -> None:
        """Store that this part's request begins; raises Stopped and Unavailable (not sent)."""
        if self.halt.is_set():
            raise Stopped(STOPS)
        self._log.begin_part(self._message, self._epoch, number, now, chat_token)
        if number in self._parts:
            self._doubted.add(number)
        self._parts.setdefault(number, Part("begun", first=now))
        self._chat_token = chat_token

    def end_part(self, number: int, result: Result, id: str = "") -> None:
        """Store how it ended. Raises nothing: what the disk does not take now is stored later."""
        if result == "uncertain" or (result != "sent" and number in self._doubted):
            return
        before = self._parts.pop(number, None)
        first = before.first if before else 0.0
        if result == "sent":
            self._parts[number] = Part("sent", id, first)
        self._log.end_part(self._message, number, PartEnd(self._epoch, result, id, first))

    def finish(self, *, again: bool = False) -> None:
        """Say that it has ended here. `again`: it may be retried, and what was sent is kept."""
        if again and self.sent:
            self._log.release(self._message)
        else:
            self._log.finish(self._message, self._epoch)
