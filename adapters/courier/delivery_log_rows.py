"""
The rows of the delivery log: what delivery_log.py reads and writes, each call in a transaction.

Rule 1: no commit here, and no clock: `now` is the log's. Rule 2: a message has the chat that its
first part was begun in, as it was named (`chat`) and as the platform calls it (`found`); while no
part is begun or sent, it may have another.
"""

import sqlite3
from collections.abc import Container, Mapping
from typing import Final, NamedTuple

from wakebus.adapters.base import Part
from wakebus.adapters.errors import Result
from wakebus.adapters.pacing.cooldowns import ScopeKey

ENDED_S: Final = 86_400.0  # of running time; an ack waits at most for a broker's return
LEFT_S: Final = 8 * 86_400.0  # longer than a message lives by default (7 days)
MAX_ENDED: Final = 50_000
PURGE_ROWS: Final = 1_000


class MessageRow(NamedTuple):
    """What is known of a message: under which epoch it was tried, where it went, and its parts."""

    epoch: int
    chat: str
    found: str
    parts: dict[int, Part]


class PartEnd(NamedTuple):
    """How a part ended, and under which epoch."""

    epoch: int
    result: Result
    id: str
    first: float


def read_message(db: sqlite3.Connection, message: str) -> MessageRow | None:
    """Return what is known of a message."""
    row = db.execute("SELECT epoch, chat, found FROM message WHERE id=?", (message,)).fetchone()
    if row is None:
        return None
    rows = db.execute("SELECT number, word, id, first FROM part WHERE message=?", (message,))
    parts = {part["number"]: Part(part["word"], part["id"], part["first"]) for part in rows}
    if not parts:
        return MessageRow(row["epoch"], "", "", parts)
    return MessageRow(row["epoch"], row["chat"], row["found"], parts)


def claim_message(db: sqlite3.Connection, message: str, epoch: int, chat: str, now: float) -> None:
    """Make a message this epoch's."""
    db.execute(
        "INSERT INTO message (id, epoch, ended, at, chat) VALUES (?, ?, 0, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET epoch=excluded.epoch, ended=0, at=excluded.at,"
        " chat=excluded.chat",
        (message, epoch, now, chat),
    )


def begin_part(
    db: sqlite3.Connection, message: str, epoch: int, part: tuple[int, float, str], now: float
) -> bool:
    """Begin a part (number, Unix seconds, chat); return whether the message is this epoch's."""
    number, first, found = part
    ours = "UPDATE message SET at=?, found=? WHERE id=? AND epoch=?"
    if not db.execute(ours, (now, found, message, epoch)).rowcount:
        return False
    db.execute(
        "INSERT INTO part (message, number, word, id, first) VALUES (?, ?, 'begun', '', ?)"
        " ON CONFLICT DO NOTHING",
        (message, number, first),
    )
    return True


def end_part(db: sqlite3.Connection, message: str, number: int, ended: PartEnd) -> None:
    """Keep how a part ended."""
    if ended.result == "sent":
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


def finish_message(db: sqlite3.Connection, message: str, epoch: int, now: float) -> None:
    """Keep that a message has ended under this epoch."""
    ended = "UPDATE message SET ended=1, at=? WHERE id=? AND epoch=?"
    db.execute(ended, (now, message, epoch))


def purge(db: sqlite3.Connection, now: float, open: Container[str]) -> int:
    """Delete rows of what is over, and what was left; return how many messages went."""
    count = db.execute("SELECT count(*) FROM message WHERE ended=1").fetchone()[0]
    old = db.execute(
        "SELECT id FROM message WHERE (ended=1 AND at<?) OR (ended=0 AND at<?) ORDER BY at LIMIT ?",
        (now - ENDED_S, now - LEFT_S, PURGE_ROWS),
    ).fetchall()
    old += db.execute(
        "SELECT id FROM message WHERE ended=1 ORDER BY at LIMIT ?",
        (min(max(0, count - MAX_ENDED), PURGE_ROWS),),
    ).fetchall()
    ids = [(row["id"],) for row in old if row["id"] not in open]
    db.executemany("DELETE FROM part WHERE message=?", ids)
    db.executemany("DELETE FROM message WHERE id=?", ids)
    return len(set(ids))


def write_cooldowns(db: sqlite3.Connection, waits: Mapping[ScopeKey, float]) -> None:
    """Keep until when (Unix seconds) platforms and chats asked to wait, in place of what stood."""
    db.execute("DELETE FROM shut")
    rows = [(name[0], name[1] if len(name) > 1 else "", at) for name, at in waits.items()]
    db.executemany("INSERT INTO shut (platform, chat, until) VALUES (?, ?, ?)", rows)


def read_cooldowns(db: sqlite3.Connection) -> dict[ScopeKey, float]:
    """Return what `write_cooldowns` kept."""
    rows = db.execute("SELECT platform, chat, until FROM shut")
    return {(row[0], row[1]) if row[1] else (row[0],): row[2] for row in rows}
