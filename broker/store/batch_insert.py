"""
New messages that come together, stored in few statements.

Rule 1: what is stored is what `Store.put` would have stored, one by one, in the same order.
Rule 2: whatever needs a look (a resend, a key, a refusal, a full store) goes one by one. Why: at
every call SQLite gives the interpreter away and has to wait for it again; at 1000 sends in flight
that was most of the writer thread's time (measured: 213 µs of CPU for a send, then 110).
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain, groupby
from typing import Any, Final, TypeVar

from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.store.retention import Quota
from wakebus.broker.store.rows import Put, Redelivery, Row

T = TypeVar("T")

COLUMNS: Final = (
    "id",
    "sender",
    "endpoint",
    "lane",
    "key",
    "reply_to",
    "cause",
    "type",
    "state",
    "size",
    "accepted",
    "deadline",
    "redelivered",
    "asks",
    "claimed",
    "message",
    "done",
    "log",
    "due",
)
# Few sizes, so that the statements stay prepared; SQLite takes 32,766 values in one.
ROWS: Final = (250, 25, 1)
_STORED: Final = "SELECT 1 FROM message WHERE id IN (SELECT value FROM json_each(?))"


def run(
    db: sqlite3.Connection,
    quota: Quota,
    operations: Sequence[T],
    run_one: Callable[[T], Any],
) -> list[Any]:
    """Run all in their order; return what each gave. Raises sqlite3.Error."""
    results: list[Any] = []
    for plain, group in groupby(operations, is_plain):
        some: list[Any] = list(group)
        done = put_many(db, quota, some) if plain and len(some) > 1 else []
        results += done or [run_one(one) for one in some]
    return results


def is_plain(operation: object) -> bool:
    """Whether this is a new message, of which nothing but the id decides what becomes of it."""
    return (
        isinstance(operation, Put)
        and operation.known
        and not operation.full
        and operation.refusal is None
        and operation.message.key is None
    )


def put_many(db: sqlite3.Connection, quota: Quota, puts: Sequence[Put]) -> list[Row]:
    """Store plain messages; return their rows, or nothing if they must go one by one."""
    ids = [put.message.id for put in puts]
    if len({*ids}) < len(ids) or db.execute(_STORED, (json.dumps(ids),)).fetchone():
        return []
    db.execute("SAVEPOINT many")
    try:
        quota.reserve(sum(len(put.blob) for put in puts if put.bounded))
        last = insert(db, [values_of(put, DeliveryState.QUEUED) for put in puts])
    except (sqlite3.IntegrityError, sqlite3.DataError, BrokerUnavailable):
        db.execute("ROLLBACK TO many")
        return []
    finally:
        if db.in_transaction:
            db.execute("RELEASE many")
    first = last - len(puts) + 1
    fresh = {"state": DeliveryState.QUEUED, "fresh": True}
    return [{"seq": first + n, "id": id, **fresh} for n, id in enumerate(ids)]


def insert(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert all; return the last `seq`. They follow each other: nobody else writes."""
    start = last = 0
    for size in ROWS:
        while len(rows) - start >= size:
            values = tuple(chain.from_iterable(rows[start : start + size]))
            last = db.execute(_INSERT[size], values).lastrowid or 0
            start += size
    return last


def _statement(rows: int) -> str:
    marks = f"({','.join('?' * len(COLUMNS))})"
    return f"INSERT INTO message ({', '.join(COLUMNS)}) VALUES {','.join([marks] * rows)}"


_INSERT: Final = {rows: _statement(rows) for rows in ROWS}


def values_of(put: Put, state: DeliveryState) -> tuple[Any, ...]:
    """Return the row of a message that is queued, or handled as soon as it is stored."""
    msg = put.message
    return (
        msg.id,
        msg.sender,
        msg.to,
        msg.lane,
        msg.key,
        msg.reply_to,
        msg.cause,
        msg.type,
        state,
        len(put.blob),
        put.accepted,
        put.deadline,
        int(Redelivery.SENT) if put.sent else 0,
        put.asks,
        put.claimed,
        put.blob,
        put.accepted if state is DeliveryState.HANDLED else None,
        put.log,
        put.due,
    )
