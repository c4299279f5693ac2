"""What each column may hold: whatever it does, the row can be relied on."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.store.row_check import (
    COLUMNS,
    HARMLESS,
    clean_row,
    row_of,
    unusable,
    why_unreadable,
)

MESSAGE = {"id": "m1", "ts": 1, "from": "a", "to": "b", "body": {"text": "hi"}}
GOOD: dict[str, Any] = {
    "seq": 7,
    "id": "m1",
    "sender": "a",
    "endpoint": "b",
    "lane": "a\n",
    "type": "t",
    "state": "queued",
    "size": 5,
    "accepted": 1.5,
    "deadline": 9,
    "deaths": 0,
    "done": None,
    "redelivered": 7,
    "started_before": 0,
    "token": None,
    "reason": None,
    "retried": 0,
    "message": json.dumps(MESSAGE).encode(),
    "log": '{"t":1,"what":"held"}\n',
    "outcome": None,
}
ODD = st.binary(max_size=9) | st.text(max_size=9) | st.none() | st.integers() | st.floats()


def test_a_good_row_is_left_as_it_is() -> None:
    """PROTOCOL-8.13: nothing is unreadable."""
    assert clean_row(GOOD) == {**GOOD, "unreadable": []}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("state", bad) for bad in ("weird", b"\xff", None, 5)),
        *(("deadline", bad) for bad in ("abc", b"", None, -1.0, 1e300)),
        *(("redelivered", bad) for bad in ("x", 8, -1)),
        *((name, "x") for name in ("deaths", "size", "accepted", "retried", "started_before")),
        *((name, b"\xff") for name in ("lane", "endpoint", "sender", "reason", "token", "type")),
        *(("endpoint", bad) for bad in ("", "bad name!", "a\n")),
        ("done", "abc"),
        ("done", 5.0),  # of one that waits
    ],
)
def test_a_column_that_cannot_be_read_is_named(column: str, value: Any) -> None:
    """PROTOCOL-8.13: a harmless value stands in its place, and its message is not usable."""
    row = clean_row({**GOOD, column: value})
    assert row["unreadable"] == [column] == unusable(row)
    assert clean_row(row)["unreadable"] in ([], ["sender"], ["endpoint"])  # "" is no name
    assert column in why_unreadable(unusable(row))


@pytest.mark.parametrize("id", [b"\xff", "", "a\nb", "row:7", None])
def test_a_row_without_an_id_is_told_by_its_place(id: Any) -> None:
    """PROTOCOL-8.13: so it can be asked for, and purged."""
    row = clean_row({**GOOD, "id": id})
    assert (row["id"], row["unreadable"]) == ("row:7", ["id"])
    assert row_of("row:7") == ("seq=?", 7) and row_of("row-7") == ("id=?", "row-7")


@pytest.mark.parametrize(
    "edit",
    [{"id": "m2"}, {"ttl_s": "abc"}, {"from": 3}, {"hops": "x"}, {"body": {"text": [1]}}, {"x": 1}],
)
def test_a_message_that_no_client_would_take(edit: dict[str, Any]) -> None:
    """PROTOCOL-8.13, PROTOCOL-4: or one with another id than its row."""
    row = clean_row({**GOOD, "message": json.dumps(MESSAGE | edit)})
    assert row["unreadable"] == ["message"]


@given(st.dictionaries(st.sampled_from([*COLUMNS, "seq", "message", "log", "outcome"]), ODD))
def test_nothing_raises(found: dict[str, Any]) -> None:
    """PROTOCOL-8.13: whatever the columns hold; what stands there then has its column's type."""
    row = clean_row(GOOD | found)
    assert isinstance(row["state"], str) and row["state"] in {*DeliveryState}
    assert all(isinstance(row[name], int | float) for name in ("size", "deadline", "deaths"))
    assert isinstance(row["id"], str) and {*HARMLESS} <= {*COLUMNS}
