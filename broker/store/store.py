"""
The store: one SQLite file, one connection (PROTOCOL.md section 8).

Rule 1: used by the writer thread alone (group_commit.py), and by tests. Rule 2: an operation that
fails harms no other in its batch.
"""

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from wakebus.broker.errors import (
    BrokerUnavailable,
    Conflict,
    MailboxFull,
    UnknownTarget,
    WakebusError,
)
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.dead_letter import UNREADABLE
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.store import batch_insert, lineage, schema
from wakebus.broker.store.retention import Quota
from wakebus.broker.store.row_check import LATEST, clean_row, row_of
from wakebus.broker.store.rows import LOG_BYTES, Put, Redelivery, Row
from wakebus.broker.store.stored_json import message_of
from wakebus.broker.system.sqlite_file import close_as_it_is, is_damage, migrate, names_aside

log = logging.getLogger("wakebus.store")

Operation = Callable[["Store"], Any]


def damage_mark(path: Path) -> Path:
    """Return the file beside a store that exists once SQLite has found damage in it."""
    return path.with_name(f"{path.name}.suspect")


class Damaged(WakebusError):
    """SQLite found the file to be damaged."""

    code = "damaged"


class Store:
    """The tables, as methods."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        # A text that is no UTF-8 would fail all that is asked together with it.
        self._db.text_factory = partial(str, encoding="utf-8", errors="replace")
        self.quota = Quota(self._db)
        self._log = Path(f"{path}-wal")
        try:
            schema.set_up(self._db)
            migrate(self._db, path, schema.STORE)
            found = path.stat()
            self.file = (found.st_dev, found.st_ino)  # another one at `path` is not this store
        except BaseException:
            self.abandon()
            raise

    @property
    def db(self) -> sqlite3.Connection:
        """The connection, for other files' SQL in a transaction of this one."""
        return self._db

    def close(self) -> None:
        """Move the log into the file and close it."""
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._db.close()

    def abandon(self) -> None:
        """Close it as it is."""
        close_as_it_is(self._db, self.path)

    def transaction(self, operations: Sequence[Operation]) -> list[Any]:
        """Run them and commit; return a result or WakebusError for each."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = batch_insert.run(self._db, self.quota, operations, self._guarded)
            self._db.execute("COMMIT")
            return results
        except sqlite3.Error as exc:
            if is_damage(exc):
                self.damage_mark.touch()  # the next start looks through the whole file
                raise Damaged(f"{self.path} is damaged: {exc}") from exc
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            log.error("the store cannot write: %s", exc)
            return [BrokerUnavailable(f"the store cannot write: {exc}")] * len(operations)

    def _guarded(self, operation: Operation) -> Any:
        """Return what it returns, or the error that it alone has met."""
        self._db.execute("SAVEPOINT one")
        try:
            result = operation(self)
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as exc:
            if not isinstance(exc, sqlite3.IntegrityError | sqlite3.DataError):
                raise  # the disk or the file: the whole batch
            result = self._undone(exc)
        except Exception as exc:
            result = self._undone(exc)
        self._db.execute("RELEASE one")
        return result

    def _undone(self, exc: Exception) -> WakebusError:
        self._db.execute("ROLLBACK TO one")
        if isinstance(exc, WakebusError):
            return exc
        log.error("not stored: %s: %s", type(exc).__name__, exc)
        return WakebusError(f"not stored: {type(exc).__name__}; the broker's log tells more")

    # --- messages -------------------------------------------------------------------------

    def put(self, put: Put) -> Row:
        """Store a message; return its row, with `fresh` False for a resend. May raise Conflict."""
        msg = put.message
        if (row := self.find(msg.id)) is not None:
            if (stored := message_of(row["message"], row["id"])) is None:
                raise Conflict(f"id {msg.id} is already stored, and {UNREADABLE}")
            if messages.content(messages.from_wire(stored)) != messages.content(msg):
                raise Conflict(f"id {msg.id} is already stored with another sender or content")
            return {**row, "fresh": False}
        if msg.key is not None and (row := self._by_key(put)) is not None:
            return {**row, "fresh": False}
        if put.refusal is not None:  # said only now: a resend of what is stored gets its receipt
            raise put.refusal
        if put.full:
            raise MailboxFull(put.full)
        kept = not put.known and self._awaited(msg)
        if not put.known and not kept:
            raise UnknownTarget(f"nobody ever registered {msg.to!r}", to=msg.to)
        if put.bounded:
            self.quota.reserve(len(put.blob))
        state = DeliveryState.HANDLED if kept else DeliveryState.QUEUED
        seq = batch_insert.insert(self._db, [batch_insert.values_of(put, state)])
        return {"seq": seq, "id": msg.id, "state": state, "fresh": True}

    def _by_key(self, put: Put) -> Row | None:
        msg = put.message  # a claimed sender's key must not swallow what the true one sends
        return self._one(
            "SELECT * FROM message WHERE sender=? AND key=? AND claimed=?"
            " AND accepted BETWEEN ? AND ? ORDER BY seq LIMIT 1",
            (msg.sender, msg.key, put.claimed, put.accepted - 86400, LATEST),
        )

    def _awaited(self, msg: messages.Message) -> bool:
        """Whether `msg` answers somebody who has no endpoint and waits for it."""
        asked = msg.type == "answer" and msg.reply_to and self.find(msg.reply_to)
        ends = (msg.to, msg.sender)
        return bool(asked and asked["asks"] and (asked["sender"], asked["endpoint"]) == ends)

    def find(self, id: str) -> Row | None:
        """Return the row of message `id`."""
        which, place = row_of(id)
        return self._one(f"SELECT * FROM message WHERE {which}", (place,))

    def answer_to(self, id: str, *, claimed: bool = False) -> Row | None:
        """
        Return the first answer to message `id`: from whom it was for, to its sender.

        `claimed`: the first whose sender only says that it is the one.
        """
        return self._one(
            "SELECT a.* FROM message AS asked JOIN message AS a ON a.reply_to=asked.id"
            " AND a.type='answer' AND a.sender=asked.endpoint AND a.endpoint=asked.sender"
            " AND a.claimed=? WHERE asked.id=? ORDER BY a.seq LIMIT 1",
            (claimed, id),
        )

    def take_from_inbox(self, id: str, *, outcome: str | None = None, line: str = "") -> None:
        """Leave message `id`, which has ended, in no inbox; with another `outcome` and a step."""
        self._db.execute(
            "UPDATE message SET silent=0, outcome=coalesce(?,outcome), log=log||? WHERE id=?",
            (outcome, line, id),
        )

    def mark(self, id: str, line: str, *, log_bytes: int = LOG_BYTES, **columns: Any) -> None:
        """Set columns of an open message; append a line to its log while that is short."""
        names, (which, place) = "".join(f"{name}=?, " for name in columns), row_of(id)
        limit = log_bytes if columns.get("done") is None else 2 * LOG_BYTES  # its end is told
        self._db.execute(
            f"UPDATE message SET {names}log=CASE WHEN length(log)<? THEN log||? ELSE log END"
            f" WHERE {which} AND done IS NULL",
            (*columns.values(), limit, line, place),
        )

    def mark_sent(self, id: str, redelivered: int, started_before: bool) -> None:
        """Remember that an open message may have left, and what is known of it by now."""
        which, place = row_of(id)
        self._db.execute(
            "UPDATE message SET redelivered=redelivered|?, started_before=started_before|?"
            f" WHERE {which} AND done IS NULL",
            (redelivered | Redelivery.SENT, started_before, place),
        )

    def unmark_sent(self, waiting: Mapping[str, Row]) -> None:
        """Remember that these have not left; `waiting`: what else is known, by id, as columns."""
        marked = self._all(
            "SELECT id FROM message WHERE done IS NULL AND redelivered & ?", (Redelivery.SENT,)
        )
        for id in [row["id"] for row in marked if row["id"] in waiting]:
            self._db.execute(
                "UPDATE message SET redelivered=?, started_before=? WHERE id=?",
                (waiting[id]["redelivered"], waiting[id]["started_before"], id),
            )

    def open_messages(self) -> list[Row]:
        """Return every open message without its body, oldest first."""
        return self._all(
            "SELECT seq, id, endpoint, lane, size, accepted, deadline, state, deaths, redelivered,"
            " started_before, asks, claimed, token, sender, cause, type, reason, done FROM message"
            " WHERE done IS NULL ORDER BY seq"
        )

    def not_yet_due(self) -> dict[str, Row]:
        """
        Return by id which open messages wait until they are `due` (bus time).

        `failures`: how often work on one failed; 0: it waits because its sender said so.
        """
        rows = self._all(
            "SELECT seq, id, failures, due FROM message WHERE failures > 0 AND done IS NULL"
            " UNION ALL SELECT seq, id, failures, due FROM message"
            " WHERE failures = 0 AND due > 0 AND done IS NULL"
        )
        return {row["id"]: row for row in rows}

    def release(self, id: str, line: str) -> int:
        """Put an open message that is due at the end of its lane; return its new `seq`."""
        seq: int = self._db.execute("SELECT max(seq)+1 FROM message").fetchone()[0]
        self.mark(id, line, seq=seq, due=0)
        return seq

    def for_sessions(self) -> list[str]:
        """Return the ids of open messages for one session each, among those of ephemeral names."""
        rows = self._all(
            "SELECT seq, id FROM message WHERE done IS NULL"
            " AND endpoint IN (SELECT name FROM endpoint WHERE ephemeral)"
            " AND CASE WHEN json_valid(CAST(message AS TEXT))"
            " THEN json_extract(CAST(message AS TEXT), '$.session') END IS NOT NULL"
        )
        return [row["id"] for row in rows]

    def asked_for(self, id: str) -> list[Row]:
        """
        Return the message because of which its own receiver, proven, sent message `id`.

        None that is a dead letter itself: its sender was told of that.
        """
        return self._all(
            "SELECT asked.* FROM message AS sent JOIN message AS asked ON asked.id=sent.cause"
            " AND asked.endpoint=sent.sender AND asked.state NOT IN ('dead','refused')"
            " WHERE sent.id=? AND NOT sent.claimed",
            (id,),
        )

    def related(self, id: str) -> list[Row]:
        """Return message `id` and all that hangs together with it: see `lineage`."""
        return lineage.related(self._all, id)

    def counts(self) -> Row:
        """Return `dead`, `messages`, `early` (numbers), `bytes` and `set_aside` of the files."""
        row = self._one(
            f"SELECT (SELECT count(*) FROM message WHERE {schema.DEAD}) AS dead,"
            " (SELECT count(*) FROM message) AS messages",
        )
        assert row is not None
        files = (self.path, Path(f"{self.path}-wal"))
        size = sum(f.stat().st_size for f in files if f.exists())
        return {**row, "bytes": size, "set_aside": self.set_aside(), "early": self.quota.early}

    def set_aside(self) -> list[str]:
        """Return the names of damaged stores that are kept beside this one, and of rescued ones."""
        return names_aside(self.path)

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

    def save_holder(self, name: str, *, instance: str, **columns: Any) -> None:
        """Store who holds an endpoint; what another one may have had of it is no first delivery."""
        row = self._one("SELECT instance FROM endpoint WHERE name=?", (name,))
        if row is not None and row["instance"] not in ("", instance):
            self._db.execute(
                "UPDATE message SET redelivered=redelivered|? WHERE endpoint=? AND done IS NULL"
                " AND (redelivered & ? OR state<>?)",
                (Redelivery.RETURNED, name, Redelivery.SENT, DeliveryState.QUEUED),
            )
        self.save_endpoint(name, instance=instance, **columns)

    def forget_endpoint(self, name: str) -> None:
        """Delete an endpoint's record."""
        self._db.execute("DELETE FROM endpoint WHERE name=?", (name,))

    # --- housekeeping ---------------------------------------------------------------------

    def boot(self) -> str | None:
        """Return the machine's boot in which the file was last opened, None for a new file."""
        row = self._one("SELECT boot FROM machine")
        return None if row is None else str(row["boot"])

    def set_boot(self, boot: str) -> None:
        """
        Remember this boot of the machine, in a commit that writes at every start.

        What a broker wrote and was killed before its fsync is read by the next one, which answers a
        resend of it as stored: the fsync of this commit, the first of a start, makes that true. So
        no UPDATE here: SQLite leaves a page alone that it would not change (btree.c,
        btreeOverwriteContent).
        """
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("DELETE FROM machine")
        self._db.execute("INSERT INTO machine (boot) VALUES (?)", (boot,))
        self._db.execute("COMMIT")

    @property
    def damage_mark(self) -> Path:
        """A file that exists once SQLite has found damage."""
        return damage_mark(self.path)

    @property
    def log_is_long(self) -> bool:
        """Whether the write-ahead log grew beyond what it keeps of its size when it begins anew."""
        try:
            return self._log.stat().st_size > schema.KEPT_LOG
        except OSError:  # told by who looks after the folder
            return False

    def checkpoint(self, *, erase: bool = False) -> bool:
        """
        Move the write-ahead log into the file; return whether all of it is there now.

        Nobody is waited for. `erase`: the log is emptied, too, so that what was deleted is in
        neither; not while another program reads the store.
        """
        mode = "TRUNCATE" if erase or self.log_is_long else "PASSIVE"
        try:
            busy, logged, moved = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.OperationalError as exc:  # a full disk: the log keeps it all
            log.error("the write-ahead log cannot be moved into the store: %s", exc)
            busy, logged, moved = 1, 0, 0
        whole = not busy and logged == moved
        if whole and mode == "TRUNCATE":
            self.quota.unerased = False
        elif erase:
            self._tell_unerased()
        return whole

    def _tell_unerased(self) -> None:
        if not self.quota.unerased:
            log.warning("what was deleted stays in %s while another program reads it", self._log)
        self.quota.unerased = True

    def _one(self, sql: str, args: tuple[Any, ...] = ()) -> Row | None:
        row = self._db.execute(sql, args).fetchone()
        return None if row is None else clean_row(row)

    def _all(self, sql: str, args: tuple[Any, ...] = ()) -> list[Row]:
        return [clean_row(row) for row in self._db.execute(sql, args)]
