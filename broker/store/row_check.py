"""
What each column of the store may hold, and a row that can be relied on (PROTOCOL.md section 8).

Rule 1: pure; SQLite keeps whatever type an edit or a damaged page puts into a column, and nothing
here raises for it. Rule 2: every row that is read passes through here, once, on its way out of SQL.
Rule 3: a value that cannot be read is named in `unreadable`, and a harmless one stands in its
place; it says nothing true. Rule 4: a message is what a client would take as one, with the id of
its row.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

import msgspec
from msgspec import Meta

from wakebus.broker.protocol.dead_letter import UNREADABLE
from wakebus.broker.protocol.delivery_state import ENDS, DeliveryState
from wakebus.broker.store.rows import Row
from wakebus.broker.store.stored_json import unreadable

LATEST: Final = 1e12  # seconds; the same bound as of a message's `ts`

Time = Annotated[float, Meta(ge=0, le=LATEST)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
Flag = Annotated[int, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
Instance = Annotated[str, Meta(pattern=r"^([0-9a-f]{16})?\Z")]
# A column of another name, as a count, may hold anything; `unreadable` knows those with JSON.
COLUMNS: Final[dict[str, Any]] = {
    "id": Name,
    "sender": Name,
    "endpoint": Name,
    "lane": str,
    "key": str | None,
    "reply_to": Name | None,
    "cause": Name | None,
    "type": str,
    "state": DeliveryState,
    "size": Count,
    "accepted": Time,
    "deadline": Time,
    "deaths": Count,
    "redelivered": Annotated[int, Meta(ge=0, le=7)],
    "started_before": Flag,
    "asks": Flag,
    "claimed": Flag,
    "token": str | None,
    "reason": str | None,
    "done": Time | None,
    "silent": Flag,
    "retried": Count,
    "failures": Count,
    "due": Time,
    "failed": str | None,
    "name": Name,
    "declared": Flag,
    "seen": Time,
    "epoch": Count,
    "ephemeral": Time,
    "instance": Instance,
    "pid": Annotated[int, Meta(ge=0, lt=2**31)],
    "start": Time,
    "bus": Time,
    "wall": Time,
    "up": Time,
    "boot": str,
}
# Others: 0, or "" for a text. What may have been done is not done again, and what is known of
# nobody is not forgotten.
HARMLESS: Final[dict[str, Any]] = {
    "state": DeliveryState.DEAD,
    "started_before": 1,
    "declared": 1,
    **dict.fromkeys(("key", "reply_to", "cause", "token", "reason", "failed")),
}
_TEXTS: Final = frozenset({"id", "sender", "endpoint", "lane", "type", "name", "instance", "boot"})
_BY_PLACE: Final = re.compile(r"row:([0-9]{1,18})\Z")  # no id of a message has a colon

_CHECKED: Any = TypedDict("_CHECKED", COLUMNS, total=False)  # type: ignore[misc]


def clean_row(found: Mapping[str, Any]) -> Row:
    """
    Return a row with values that its columns may have, and `unreadable`: the names of the others.

    `steps` is the name of `log`. A row whose id cannot be read is told by its place: `row:<seq>`.
    """
    row = dict(found)
    bad: list[str] = []
    try:
        msgspec.convert(row, _CHECKED)
    except msgspec.ValidationError:
        bad = [column for column, value in row.items() if not _fits(column, value)]
    if (
        "done" in row
        and "state" in row
        and not bad
        and (row["done"] is None) == (row["state"] in ENDS)
    ):
        bad.append("done")
    for column in bad:
        row[column] = HARMLESS.get(column, "" if column in _TEXTS else 0)
    if "log" in row or "message" in row:
        bad += unreadable(row)
    if "id" in bad:
        row["id"] = f"row:{row.get('seq', 0)}"
    if {"state", "done"} & {*bad}:  # whichever is wrong: it is told as what it is after a start
        row["state"] = DeliveryState.DEAD
        row["done"] = row.get("done") or 0.0
    row["unreadable"] = bad
    return row


def _fits(column: str, value: Any) -> bool:
    try:
        msgspec.convert(value, COLUMNS.get(column, Any))
    except msgspec.ValidationError:
        return False
    return True


def unusable(row: Row) -> list[str]:
    """Return what keeps a message from going out for good: all but its steps and its outcome."""
    return [column for column in row["unreadable"] if column not in ("steps", "outcome")]


def why_unreadable(bad: list[str]) -> str:
    """Return it as a reason."""
    return UNREADABLE if bad in ([], ["message"]) else f"{UNREADABLE} ({', '.join(bad)})"


def row_of(id: str) -> tuple[str, str | int]:
    """Return the SQL condition and its value of the row that is told as `id`."""
    if place := _BY_PLACE.match(id):
        return "seq=?", int(place[1])
    return "id=?", id
