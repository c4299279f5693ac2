"""Whatever a handler returns becomes an ack."""

import math
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.protocol import wire
from wakebus.broker.protocol.outcome import (
    MAX_LATER_S,
    MAX_OUTCOME,
    Later,
    Refusal,
    ack_of,
    left_open,
)


def test_later_after_a_failure() -> None:
    """PROTOCOL-6.16: its reason, as JSON can carry it."""
    said = ack_of(Later(30, failed="exit 1\ud800" + "x" * 2000))[1]
    assert said == {"after_s": 30, "failed": "exit 1?" + "x" * 993}
    assert "failed" not in ack_of(Later(30))[1]


def test_a_refusal_that_nobody_is_told() -> None:
    """PROTOCOL-6.6: only where it is said."""
    assert "notice" not in ack_of(Refusal("no"))[1]
    assert ack_of(Refusal("no", {"failed": True}, notice=False)) == (
        "refused",
        {"reason": "no", "outcome": {"failed": True}, "notice": False},
    )


def test_a_mapping_is_the_outcome() -> None:
    """A mapping, or None, means handled."""
    assert ack_of({"turn": 1}) == ("handled", {"outcome": {"turn": 1}})
    assert ack_of(MappingProxyType({"a": 1})) == ("handled", {"outcome": {"a": 1}})
    assert ack_of(None) == ("handled", {"outcome": None})


def test_the_outcome_is_a_copy() -> None:
    """A handler that goes on changing what it returned changes nothing."""
    inner: list[int] = [1]
    _, fields = ack_of({"inner": inner})
    inner.append(2)
    assert fields["outcome"] == {"inner": [1]}


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        *((0.5, 0.5), (3, 3.0), (0, 0.0), (-1, 0.0), (1e9, MAX_LATER_S)),
        *((math.nan, 0.0), (math.inf, MAX_LATER_S), ("soon", 0.0), (None, 0.0)),
    ],
)
def test_later_is_a_number_of_seconds(after: Any, seconds: float) -> None:
    """What is no number of seconds, or out of range, becomes the nearest one that is."""
    assert ack_of(Later(after)) == ("later", {"after_s": seconds})
    assert ack_of(Later(1, "throttled"))[1] == {"after_s": 1.0, "reason": "throttled"}


@pytest.mark.parametrize("work", ["none", "maybe"])
def test_later_says_what_was_done(work: Any) -> None:
    """Whether work may have been done; what is no such word is not said."""
    assert ack_of(Later(1, work=work))[1] == {"after_s": 1.0, "work": work}
    for odd in ("perhaps", 7, None, ["none"]):
        assert ack_of(Later(1, work=odd))[1] == {"after_s": 1.0}  # type: ignore[arg-type]


def test_a_refusal_has_a_reason() -> None:
    """Its reason is cut to what the protocol takes, and holds nothing that JSON cannot carry."""
    verb, fields = ack_of(Refusal("a\ud800b" + "x" * 2000, {"a": 1}))
    assert verb == "refused"
    assert fields["outcome"] == {"a": 1}
    assert fields["reason"].startswith("a?bxx")
    assert len(fields["reason"]) == 1000
    assert ack_of(Refusal(None))[1]["reason"] == "None"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "note"),
    [
        (7, "the handler returned a int, no mapping"),
        (["a"], "the handler returned a list, no mapping"),
        ({"x": math.nan}, "the outcome is not JSON"),
        ({"x": object()}, "the outcome is not JSON"),
        ({"x": "\ud800"}, "the outcome is not JSON"),
        ({("a", "b"): 1}, "the outcome is not JSON"),
        ({"x": "y" * MAX_OUTCOME}, f"the limit is {MAX_OUTCOME}"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_an_impossible_outcome_is_said_so(outcome: Any, note: str) -> None:
    """The message is handled all the same, with a note that says what was wrong."""
    verb, fields = ack_of(outcome)
    assert verb == "handled"
    assert note in fields["outcome"]["note"]


def test_an_outcome_without_end_is_said_so() -> None:
    """A mapping that holds itself, or is nested too deeply, is no outcome."""
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    deep: dict[str, Any] = {}
    for _ in range(wire.MAX_DEPTH + 1):
        deep = {"x": deep}
    assert "not JSON" in ack_of(loop)[1]["outcome"]["note"]
    assert "nested deeper" in ack_of(deep)[1]["outcome"]["note"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(anything, st.sampled_from([lambda x: x, Later, Refusal, lambda x: Refusal("no", x)]))
def test_every_outcome_makes_a_frame(value: Any, wrap: Any) -> None:
    """No value that a handler returns raises, and the ack can always be written."""
    verb, fields = ack_of(wrap(value))
    wire.decode(wire.encode(verb, 1, fields))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (None, ""),
        ({"rule": "none", "actions": []}, ""),
        ({"actions": [{"what": "print", "result": "sent"}]}, ""),
        ({"channel": {"result": "answered"}}, ""),
        ({"actions": [{"what": "print", "result": "queued", "to": "courier"}]}, "for the courier"),
        ({"channel": {"result": "queued"}}, "not there yet"),
        ({"channel": {"result": "uncertain"}}, "look there"),
        ({"failure_told": {"result": "uncertain"}}, "look there"),
        ({"failure_told": {"together_with": "m2"}}, ""),
        ({"answer": {"result": "queued"}}, ""),  # in the sender's own mailbox
        ({"actions": "odd", "channel": 5}, ""),
    ],
)
def test_what_is_not_in_a_chat_yet(outcome: Any, words: str) -> None:
    """What the courier has, and what is in doubt, does not read as if it had arrived."""
    assert words in left_open(outcome) and bool(words) == bool(left_open(outcome))
