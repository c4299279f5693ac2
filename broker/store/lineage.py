"""
What belongs together: a message, what led to it and what came of it (PROTOCOL.md section 10).

Rule 1: no body is shown. Rule 2: few bytes are read: others wait for the disk meanwhile.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.store.row_check import row_of
from wakebus.broker.store.rows import Row
from wakebus.broker.store.stored_json import bytes_of, message_of

Select = Callable[[str, tuple[Any, ...]], list[Row]]

MOST: Final = 500  # messages
MOST_BYTES: Final = 4 << 20  # of messages with their bodies; a column behind them costs less

# A message that is too large for what is left is not read.
COLUMNS: Final = (
    "seq, id, sender, endpoint, lane, key, reply_to, cause, type, state, size, accepted, deadline,"
    " deaths, redelivered, started_before, asks, claimed, token, outcome, reason, done, silent,"
    " retried, failures, due, failed, log, CASE WHEN size<=? THEN message END AS message"
)


def related(select: Select, id: str, most_bytes: int = MOST_BYTES) -> list[Row]:
    """
    Return message `id`, what led to it, and all that came of it, oldest first.

    `message` is the stored object without its body, with `channel` and `type` of it; where
    `most_bytes` are read, or it cannot be, what the columns hold. `unreadable`: what cannot be.
    """
    found: dict[str, Row] = {}
    queue = deque([id])
    while queue and len(found) < MOST:
        if (next_ := queue.popleft()) in found:
            continue
        which, place = row_of(next_)
        for row in select(f"SELECT {COLUMNS} FROM message WHERE {which}", (most_bytes, place)):
            most_bytes -= len(bytes_of(row["message"]))
            found[next_] = {**row, "message": _headers(row)}
            queue += [row[link] for link in ("reply_to", "cause") if row[link]]
            children = select(
                "SELECT id FROM message WHERE reply_to=? OR cause=? ORDER BY seq LIMIT ?",
                (next_, next_, MOST),
            )
            queue += [child["id"] for child in children]
    return sorted(found.values(), key=lambda row: int(row["seq"]))


def _headers(row: Row) -> Row:
    if (message := message_of(row["message"], row["id"])) is None:
        told = {"id": row["id"], "ts": row["accepted"]}
        told |= {"from": row["sender"], "to": row["endpoint"]}
        links = {name: row[name] for name in ("reply_to", "cause", "key") if row[name]}
        return {**told, **links, "type": row["type"], "channel": ""}
    body = message.pop("body")
    return {**message, "type": row["type"], "channel": body.get("channel") or ""}
