"""What the JSON columns of a row hold: whatever it is, nothing raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.store.stored_json import message_of, outcome_of, steps_of, unreadable
from wakebus.broker.store.stored_receipt import receipt_of_row

# What `str.splitlines` takes for a line's end, and JSON leaves in a text as it is.
ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
GOOD = json.dumps({"id": "m1", "ts": 1, "from": "a", "to": "b", "body": {"text": "hi"}}).encode()


@pytest.mark.parametrize("end", [end for end in ENDS if end > "\x1f"])
def test_lines_are_cut_by_a_newline_alone(end: str) -> None:
    """PROTOCOL-8.13: a reason with U+2028 is one reason."""
    steps = [{"t": 1.0, "what": "dead", "reason": f"a{end}b"}, {"t": 2.0, "what": "retried"}]
    log = "".join(json.dumps(step, ensure_ascii=False) + "\n" for step in steps)
    assert end in log
    assert steps_of(log) == steps and unreadable({"log": log}) == []


def test_a_step_that_cannot_be_read_hides_no_other() -> None:
    """PROTOCOL-8.13: it stands at its place, and takes the time of the one before."""
    steps = steps_of('{"t":5,"what":"held"}\n{"t":6,"wh\n[1]\n{"t":7,"what":"dead"}\n')
    assert [(step["t"], step["what"]) for step in steps] == [
        (5, "held"),
        (5, "unreadable"),
        (5, "unreadable"),
        (7, "dead"),
    ]
    assert steps[1]["why"] == '{"t":6,"wh'


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        *(("message", bad, ["message"]) for bad in (b"", b"\xff", b"{", b"[]", b'{"body":1}', 5)),
        *(("log", bad, ["steps"]) for bad in ("{\n", b"\xff\n", "5\n", 5)),
        *(("outcome", bad, ["outcome"]) for bad in ("{", "[]", b"\xff", 5)),
        *(("outcome", good, []) for good in (None, "", "{}", b"{}")),
        *(("message", good, []) for good in (None, GOOD, GOOD.decode())),
        *(("log", good, []) for good in (None, "", '{"what":"held"}\n', b"{}\n")),
    ],
)
def test_what_cannot_be_read_is_named(column: str, value: Any, told: list[str]) -> None:
    """PROTOCOL-8.13: of the columns that a row has; also of a type that SQLite kept."""
    assert unreadable({column: value}) == told


@given(st.binary(max_size=30) | st.text(max_size=30) | st.none() | st.integers())
def test_nothing_raises(value: Any) -> None:
    """PROTOCOL-8.13: whatever a column holds."""
    assert message_of(value) is None and outcome_of(value) == outcome_of(value)
    row = {"id": "m1", "state": "dead", "message": value, "log": value, "outcome": value}
    assert {*unreadable(row)} <= {"message", "steps", "outcome"}
    assert receipt_of_row(row)["state"] == "dead"
    assert all(isinstance(step, dict) for step in steps_of(value))


def test_a_deep_one() -> None:
    """PROTOCOL-8.13: no reader's recursion is left."""
    assert message_of(b"[" * 100_000) is None
