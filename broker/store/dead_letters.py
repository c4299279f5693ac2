"""
Dead letters and inboxes, as SQL (PROTOCOL.md section 10).

Rule 1: run by the writer thread, on its connection. Rule 2: a page is bounded three ways: rows that
are looked at, rows that are told, and bytes that are read with their bodies; its cursor says where
the next one begins. Rule 3: a body is read for its first line at most, and told no
further. Rule 4: a row that cannot be read is told as `unreadable`, with what its columns hold.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from wakebus.broker.protocol.delivery_state import DEATHS, ENDS, NEXT, DeliveryEvent, DeliveryState
from wakebus.broker.protocol.message import DEFAULT_TTL_S
from wakebus.broker.protocol.outcome import awaits_reply
from wakebus.broker.store.dead_letter_history import channel_result, channel_step, in_doubt
from wakebus.broker.store.row_check import clean_row, row_of, unusable
from wakebus.broker.store.rows import Row, waits_until_due
from wakebus.broker.store.schema import DEAD, DIED
from wakebus.broker.store.stored_json import message_of, outcome_of

Cursor = list[Any]

SCAN: Final = 5_000  # rows of one request, whether they are told or not
READ_BYTES: Final = 2 << 20  # of messages with their bodies: about 20 ms
STEP_BYTES: Final = 8 << 20  # of messages that are written anew or deleted
LINE: Final = 200  # characters of a first line
REASON: Final = 300

# All of these stand before the body: a row costs one page.
_HEAD: Final = (
    "seq, id, sender, endpoint, type, state, size, accepted, claimed, started_before, done"
)


class Page(NamedTuple):
    """Some rows, and where the next page begins; None: there is none."""

    rows: list[Row]
    next: Cursor | None


class DeadLetterFilter(NamedTuple):
    """Which dead letters: by target and sender; `before`: dead before then (wall seconds)."""

    to: str | None = None
    sender: str | None = None
    before: float | None = None


def dead(
    db: sqlite3.Connection, which: DeadLetterFilter, *, oldest: bool, after: Cursor, limit: int
) -> Page:
    """Return dead letters in the order of their deaths; `after`: the cursor, or []."""
    sign, order = (">", "ASC") if oldest else ("<", "DESC")
    start = after or [-1.0 if oldest else 1e300, 0]
    rows = db.execute(
        f"SELECT {_HEAD} FROM message WHERE {DEAD} AND ({DIED},seq){sign}(?,?)"
        f" ORDER BY {DIED} {order}, seq {order} LIMIT ?",
        (*start, SCAN),
    )
    pager = _Pager(limit)
    for row in map(clean_row, rows):
        if not pager.takes(row, told=_is_meant(row, which)):
            break
    return pager.page(lambda row: _letter(db, row), lambda row: [row["done"], row["seq"]])


def _is_meant(row: Row, which: DeadLetterFilter) -> bool:
    return (
        which.to in (None, row["endpoint"])
        and which.sender in (None, row["sender"])
        and (which.before is None or row["done"] < which.before)
    )


class _Pager:
    """Collects the rows of a page until one of its bounds is met."""

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes = limit, READ_BYTES
        self._seen = 0
        self._told: list[Row] = []
        self._last: Row | None = None
        self._more = False

    def takes(self, row: Row, *, told: bool) -> bool:
        """Whether `row` belongs to this page; if not, the page ends before it."""
        full = len(self._told) >= self._limit or (self._told and row["size"] > self._bytes)
        if told and full:
            self._more = True
            return False
        self._seen += 1
        self._last = row
        if told:
            self._told.append(row)
            self._bytes -= row["size"]
        return True

    def page(self, tell: Any, cursor: Any) -> Page:
        """Return what was taken, each row as `tell` tells it."""
        more = self._more or self._seen >= SCAN
        rows = [tell(row) for row in self._told]
        return Page(rows, cursor(self._last) if more and self._last else None)


def _letter(db: sqlite3.Connection, row: Row) -> Row:
    """Return what is told of a dead letter; no body."""
    rest = _rest(db, row)
    whose = {"channel": rest["channel"]} if rest["channel"] else {}
    return {
        **whose,
        "id": row["id"],
        "from": row["sender"],
        "to": row["endpoint"],
        "type": row["type"],
        "reason": rest["reason"][:REASON],
        "accepted": row["accepted"],
        "ended": row["done"],
        "size": row["size"],
        "claimed": bool(row["claimed"]),
        "retried": rest["retried"],
        "in_doubt": rest["in_doubt"],
        **_told_unreadable(rest["unreadable"]),
    }


def _rest(db: sqlite3.Connection, row: Row) -> Row:
    """Return what else is told of a dead letter; its body and steps end here."""
    rest = _whole(db, row)
    message = message_of(rest["message"], row["id"]) or {"body": {}}
    return {
        "channel": message["body"].get("channel"),
        "session": message.get("session") is not None,
        "reason": rest["reason"] or "",
        "retried": rest["retried"],
        "in_doubt": in_doubt({**row, **rest}),
        "unreadable": rest["unreadable"],
    }


def _whole(db: sqlite3.Connection, row: Row) -> Row:
    return clean_row(db.execute("SELECT * FROM message WHERE seq=?", (row["seq"],)).fetchone())


def _told_unreadable(bad: list[str]) -> Row:
    return {"unreadable": bad} if bad else {}


# --- retry and purge ------------------------------------------------------------------------


class LookupResult(NamedTuple):
    """What is stored of some ids: rows without bodies, ids without rows, ids not looked at."""

    rows: list[Row]
    missing: list[str]
    left: list[str]


def find(db: sqlite3.Connection, ids: Sequence[str]) -> LookupResult:
    """
    Look at `ids` until much would have to be written.

    Dead letters come with `in_doubt`, `unreadable`, `reason`, and whether they were for one
    `session`.
    """
    rows: list[Row] = []
    missing: list[str] = []
    budget = STEP_BYTES
    for number, id in enumerate(ids):
        which, place = row_of(id)
        got = db.execute(f"SELECT {_HEAD} FROM message WHERE {which}", (place,)).fetchone()
        if got is None:
            missing.append(id)
            continue
        row = clean_row(got)
        if rows and row["size"] > budget:
            return LookupResult(rows, missing, list(ids[number:]))
        budget -= row["size"]
        if row["state"] in DEATHS:
            row |= _rest(db, row)
        rows.append(row)
    return LookupResult(rows, missing, [])


def revive(
    db: sqlite3.Connection, ids: Iterable[str], now: float, line: str, wall: float = 0.0
) -> list[Row]:
    """
    Put dead letters back at the end of their lanes, with a new life; return their rows.

    `now`: bus time; `wall`: by how much the wall clock is ahead of it.
    """
    return [row for id in ids if (row := _revive(db, id, now, line, wall)) is not None]


def _revive(db: sqlite3.Connection, id: str, now: float, line: str, wall: float) -> Row | None:
    got = db.execute("SELECT * FROM message WHERE id=?", (id,)).fetchone()
    row = clean_row(got) if got is not None else None
    if row is None or (DeliveryState(row["state"]), DeliveryEvent.RETRIED) not in NEXT:
        return None  # somebody was quicker
    message = message_of(row["message"], id)
    if message is None or unusable(row):
        return None
    ttl, due = float(message.get("ttl_s", DEFAULT_TTL_S)), message.get("not_before", 0) - wall
    due = due if due > now else 0.0
    changes = {
        "seq": db.execute("SELECT max(seq)+1 FROM message").fetchone()[0],
        "state": DeliveryState.QUEUED,
        "deadline": (due or now) + ttl,
        "deaths": 0,
        # A receiver that refused it had it; only what may have been done is `started`.
        "redelivered": bool(row["redelivered"] or row["state"] == DeliveryState.REFUSED),
        "started_before": in_doubt(row),
        "retried": row["retried"] + 1,
        "failures": 0,
        "due": due,
        **dict.fromkeys(("done", "reason", "outcome", "token", "failed")),
    }
    names, told = "".join(f"{name}=?, " for name in changes), channel_step(row) + line
    db.execute(f"UPDATE message SET {names}log=log||? WHERE id=?", (*changes.values(), told, id))
    return {**row, **changes, "session": "session" in message}


def purge(db: sqlite3.Connection, ids: Sequence[str]) -> LookupResult:
    """Delete those of `ids` that have ended; what is not open among the rows is gone."""
    found = find(db, ids)
    gone = [(row["seq"],) for row in found.rows if row["state"] in ENDS]
    db.executemany("DELETE FROM message WHERE seq=?", gone)
    return found


# --- inbox ----------------------------------------------------------------------------------


def inbox(db: sqlite3.Connection, name: str, *, ended: bool, after: Cursor, limit: int) -> Page:
    """
    Return what endpoint `name` has: open messages in their order, then what it left in its inbox.

    `ended`: instead of the inbox, all that has ended and is still kept, in the order of its end.
    """
    part, *start = after or [0, -1, 0]
    if part == 0:
        page = _page(db, name, "endpoint=? AND done IS NULL AND seq>?", (name, start[0]), limit)
        if page.next or len(page.rows) == limit:
            return Page(page.rows, [0, page.next[1], 0] if page.next else [1, -1, 0])
        more = inbox(db, name, ended=ended, after=[1, -1, 0], limit=limit - len(page.rows))
        return Page(page.rows + more.rows, more.next)
    if not ended:
        page = _page(db, name, "endpoint=? AND silent AND seq>?", (name, start[0]), limit)
        return Page(page.rows, [1, page.next[1], 0] if page.next else None)
    if part == 1:
        where = "done BETWEEN 0 AND 1e12 AND (done,seq)>(?,?)"
        page = _page(db, name, where, (*start[:2],), limit, "done, seq")
        if page.next or len(page.rows) == limit:
            return Page(page.rows, [1, *page.next] if page.next else [2, -1, 0])
        more = inbox(db, name, ended=ended, after=[2, -1, 0], limit=limit - len(page.rows))
        return Page(page.rows + more.rows, more.next)
    # Ends at a time that cannot be read.
    page = _page(db, name, "(done<0 OR done>1e12) AND seq>?", (start[0],), limit)
    return Page(page.rows, [2, page.next[1], 0] if page.next else None)


def _page(
    db: sqlite3.Connection,
    name: str,
    where: str,
    args: tuple[Any, ...],
    limit: int,
    order: str = "seq",
) -> Page:
    rows = db.execute(
        f"SELECT {_HEAD} FROM message WHERE {where} ORDER BY {order} LIMIT ?", (*args, SCAN)
    )
    pager = _Pager(limit)
    for row in map(clean_row, rows):
        if not pager.takes(row, told=row["endpoint"] == name):
            break
    return pager.page(lambda row: _boxed(db, row), lambda row: [row["done"], row["seq"]])


def _boxed(db: sqlite3.Connection, row: Row) -> Row:
    """Return what is told of a message in an inbox."""
    rest = _whole(db, row)
    told = {"id": row["id"], "from": row["sender"], "type": row["type"], "state": row["state"]}
    told |= {"accepted": row["accepted"], "size": row["size"], "claimed": bool(row["claimed"])}
    if row["done"] is not None:
        awaits = rest["silent"] and awaits_reply(outcome_of(rest["outcome"]))
        told |= {"ended": row["done"], "silent": bool(rest["silent"]) and not awaits}
        told |= {"awaits": "reply"} if awaits else {}
    message = message_of(rest["message"], row["id"]) or {"body": {}}
    whose = {"channel": message["body"].get("channel"), "session": message.get("session")}
    whose["result"] = str(channel_result(rest["outcome"]).get("result", ""))[:LINE]
    told |= {name: value for name, value in whose.items() if value}
    if waits_until_due(rest):
        told["not_before"] = rest["due"]
    told |= _told_unreadable(rest["unreadable"])
    return {**told, "text": _first_line(str(message["body"].get("text", "")))}


def _first_line(text: str) -> str:
    line = next((line for line in text.split("\n") if line.strip()), "")
    return line.strip()[:LINE]
