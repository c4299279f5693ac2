"""
The store: one SQLite file, one thread, one connection (PROTOCOL.md section 8).

Rule 1: only the store thread touches the connection; others hand it small functions. Rule 2: what
has queued is run together and committed once; `done` is called with a result only after that
commit. Rule 3: a function that fails harms no other in its batch. Rule 4: if this thread fails in
a way nobody planned, the daemon ends at once: a mute broker is worse than none.
"""

import json
import logging
import os
import shutil
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.broker import message as messages
from wakebus.broker import schema
from wakebus.broker.errors import Conflict, Unavailable, UnknownTarget, WakebusError
from wakebus.broker.state import State

log = logging.getLogger("wakebus.store")

BATCH: Final = 2_000  # rows in one commit: keeps a receipt below ~50 ms behind a burst
BATCH_BYTES: Final = 4 << 20
QUEUE: Final = 20_000  # waiting functions; beyond it senders are told `busy`
CHECKPOINT_BYTES: Final = 16 << 20
PURGE_ROWS: Final = 200  # deletes go in small steps, between other work

Row = dict[str, Any]
Work = Callable[["Store"], Any]
Done = Callable[[Any], None]  # gets the result, or the WakebusError


class NewerStore(WakebusError):
    """The file was written by a newer wakebus."""

    code = "newer_store"


class Put(NamedTuple):
    """A checked message with all that is stored beside it. Times in wall seconds."""

    message: messages.Message
    blob: bytes
    accepted: float
    deadline: float
    log: str
    known: bool  # the target was seen before, or the sender said --queue
    asks: bool
    claimed: bool


class Store:
    """The tables, as methods. Used by the store thread alone (and by tests directly)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        for pragma in schema.PRAGMAS:
            self._db.execute(pragma)
        self._migrate()

    def _migrate(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > schema.VERSION:
            raise NewerStore(
                f"{self.path} was written by a newer wakebus (schema {version}, this one knows "
                f"{schema.VERSION}); install that version, or move the file away to start empty"
            )
        if version == 0:
            self._db.executescript(
                f"BEGIN;{schema.TABLES}PRAGMA user_version={schema.VERSION};COMMIT"
            )

    def close(self) -> None:
        """Move the log into the file and close it."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    def transaction(self, works: list[Work]) -> list[Any]:
        """Run `works` and commit; return a result or WakebusError for each."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = [self._guarded(work) for work in works]
            self._db.execute("COMMIT")
            return results
        except sqlite3.Error as exc:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            log.error("the store cannot write: %s", exc)
            return [Unavailable(f"the store cannot write: {exc}")] * len(works)

    def _guarded(self, work: Work) -> Any:
        self._db.execute("SAVEPOINT one")
        try:
            result = work(self)
        except (WakebusError, sqlite3.IntegrityError, sqlite3.DataError, OverflowError) as exc:
            self._db.execute("ROLLBACK TO one")
            result = exc if isinstance(exc, WakebusError) else Unavailable(f"not stored: {exc}")
        self._db.execute("RELEASE one")
        return result

    # --- messages -------------------------------------------------------------------------

    def put(self, put: Put) -> Row:
        """Store a message; return its row, with `fresh` False for a resend. May raise Conflict."""
        msg = put.message
        if (row := self.find(msg.id)) is not None:
            if messages.content(_message(row)) != messages.content(msg):
                raise Conflict(f"id {msg.id} is already stored with another sender or content")
            return {**row, "fresh": False}
        if msg.key is not None and (row := self._by_key(msg, put.accepted)) is not None:
            return {**row, "fresh": False}
        kept = not put.known and self._awaited(msg)
        if not put.known and not kept:
            raise UnknownTarget(f"nobody ever registered {msg.to!r}", to=msg.to)
        state = State.HANDLED if kept else State.QUEUED
        cursor = self._db.execute(
            "INSERT INTO message (id, sender, endpoint, lane, key, reply_to, cause, type, state,"
            " size, accepted, deadline, asks, claimed, message, done, log)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                *(msg.id, msg.sender, msg.to, msg.lane, msg.key, msg.reply_to, msg.cause),
                *(msg.type, state, len(put.blob), put.accepted, put.deadline),
                *(put.asks, put.claimed, put.blob, put.accepted if kept else None, put.log),
            ),
        )
        return {"seq": cursor.lastrowid, "id": msg.id, "state": state, "fresh": True}

    def _by_key(self, msg: messages.Message, now: float) -> Row | None:
        return self._one(
            "SELECT * FROM message WHERE sender=? AND key=? AND accepted>? ORDER BY seq LIMIT 1",
            (msg.sender, msg.key, now - 86400),
        )

    def _awaited(self, msg: messages.Message) -> bool:
        """Whether `msg` answers somebody who has no endpoint and waits for it."""
        asked = msg.type == "answer" and msg.reply_to and self.find(msg.reply_to)
        return bool(asked and asked["asks"] and asked["sender"] == msg.to)

    def find(self, id: str) -> Row | None:
        """Return the row of message `id`."""
        return self._one("SELECT * FROM message WHERE id=?", (id,))

    def answer_to(self, id: str) -> Row | None:
        """Return the first answer to message `id`."""
        return self._one(
            "SELECT * FROM message WHERE reply_to=? AND type='answer' ORDER BY seq LIMIT 1", (id,)
        )

    def mark(self, id: str, line: str, **columns: Any) -> None:
        """Set columns of an open message and append a line to its log."""
        names = "".join(f"{name}=?, " for name in columns)
        self._db.execute(
            f"UPDATE message SET {names}log=log||? WHERE id=? AND done IS NULL",
            (*columns.values(), line, id),
        )

    def open_messages(self) -> list[Row]:
        """Return every open message without its body, oldest first."""
        return self._all(
            "SELECT seq, id, endpoint, lane, size, deadline, state, deaths, redelivered,"
            " started_before, asks, claimed, token, sender, cause FROM message"
            " WHERE done IS NULL ORDER BY seq"
        )

    def related(self, id: str, limit: int = 500) -> list[Row]:
        """Return message `id`, what led to it, and all that came of it, oldest first."""
        found: dict[str, Row] = {}
        queue = [id]
        while queue and len(found) < limit:
            row = self.find(queue.pop(0))
            if row is None or row["id"] in found:
                continue
            found[row["id"]] = row
            queue += [row[link] for link in ("reply_to", "cause") if row[link]]
            children = self._all(
                "SELECT id FROM message WHERE reply_to=? OR cause=? ORDER BY seq LIMIT ?",
                (row["id"], row["id"], limit),
            )
            queue += [child["id"] for child in children]
        return sorted(found.values(), key=lambda row: int(row["seq"]))

    def counts(self) -> Row:
        """Return `dead` and `messages` (numbers) and `bytes` of the store's files."""
        row = self._one(
            "SELECT (SELECT count(*) FROM message WHERE state IN ('dead','refused')) AS dead,"
            " (SELECT count(*) FROM message) AS messages",
        )
        assert row is not None
        files = (self.path, Path(f"{self.path}-wal"))
        return {**row, "bytes": sum(f.stat().st_size for f in files if f.exists())}

    def purge(self, before: float) -> int:
        """Delete some messages that ended before `before` (wall s); return how many."""
        return self._db.execute(
            "DELETE FROM message WHERE seq IN (SELECT seq FROM message WHERE done < ? LIMIT ?)",
            (before, PURGE_ROWS),
        ).rowcount

    # --- endpoints ------------------------------------------------------------------------

    def endpoints(self) -> list[Row]:
        """Return every known endpoint."""
        return self._all("SELECT * FROM endpoint")

    def save_endpoint(self, name: str, **columns: Any) -> None:
        """Insert or change an endpoint; `seen` (wall s) must be among the columns."""
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        updates = ", ".join(f"{column}=excluded.{column}" for column in columns)
        self._db.execute(
            f"INSERT INTO endpoint (name, {names}) VALUES (?, {marks})"
            f" ON CONFLICT (name) DO UPDATE SET {updates}",
            (name, *columns.values()),
        )

    def forget_endpoint(self, name: str) -> None:
        """Delete an endpoint's record."""
        self._db.execute("DELETE FROM endpoint WHERE name=?", (name,))

    # --- housekeeping ---------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file, without making anybody wait."""
        self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except OSError:
            return 0

    def _one(self, sql: str, args: tuple[Any, ...] = ()) -> Row | None:
        row = self._db.execute(sql, args).fetchone()
        return None if row is None else dict(row)

    def _all(self, sql: str, args: tuple[Any, ...] = ()) -> list[Row]:
        return [dict(row) for row in self._db.execute(sql, args)]


def _message(row: Row) -> messages.Message:
    return messages.from_wire(json.loads(row["message"]))


def open_store(path: Path) -> Store:
    """
    Open the store at `path`, a new one if the file is no database any more.

    A damaged file is renamed `…corrupt-<pid>` and said loudly, never deleted. Raises NewerStore.
    """
    try:
        return Store(path)
    except sqlite3.DatabaseError as exc:
        if isinstance(exc, sqlite3.OperationalError):
            raise Unavailable(f"{path}: {exc}") from exc
        aside = path.with_name(f"{path.name}.corrupt-{os.getpid()}")
        shutil.move(path, aside)
        log.critical("%s is damaged (%s); kept as %s, starting empty", path, exc, aside)
        return Store(path)


class StoreThread:
    """Runs functions on the store in batches, and hands the results back through `wake`."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store, self._wake = store, wake
        self._queue: deque[tuple[Work, Done | None, int]] = deque()
        self._results: deque[tuple[Done, Any]] = deque()
        self._ready = threading.Condition()
        self._busy = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store")
        self._thread.start()

    def submit(self, work: Work, done: Done | None = None, size: int = 0) -> None:
        """Queue `work`; `done(result)` is called by `collect` after the commit that holds it."""
        with self._ready:
            self._queue.append((work, done, size))
            self._ready.notify()

    def full(self) -> bool:
        """Whether new messages should be refused for now."""
        return len(self._queue) >= QUEUE

    def idle(self) -> bool:
        """Whether nothing is queued, running or waiting to be collected."""
        with self._ready:
            return not self._queue and not self._busy and not self._results

    def collect(self) -> None:
        """Call the `done` functions of what has been committed (router thread)."""
        while self._results:
            done, result = self._results.popleft()
            done(result)

    def stop(self) -> None:
        """Finish what is queued, close the file, end the thread."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join()
        self._store.close()

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                results = self._store.transaction([work for work, _, _ in batch])
                with self._ready:
                    for (_, done, _), result in zip(batch, results, strict=True):
                        if done is not None:
                            self._results.append((done, result))
                    self._busy = 0
                self._wake()
                if not self._queue or self._store.wal_bytes() > CHECKPOINT_BYTES:
                    self._housekeeping()
        except BaseException:
            log.critical("the store thread failed; the broker ends", exc_info=True)
            logging.shutdown()
            os._exit(70)

    def _housekeeping(self) -> None:
        if self._store.wal_bytes() > CHECKPOINT_BYTES // 16:
            self._store.checkpoint()

    def _next_batch(self) -> list[tuple[Work, Done | None, int]]:
        with self._ready:
            while not self._queue and not self._stopping:
                self._ready.wait()
            batch: list[tuple[Work, Done | None, int]] = []
            size = 0
            while self._queue and len(batch) < BATCH and size < BATCH_BYTES:
                batch.append(self._queue.popleft())
                size += batch[-1][2]
            self._busy = len(batch)
            return batch
