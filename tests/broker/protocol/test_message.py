"""The message: fields, limits, sameness."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import each
from wakebus.broker.errors import BadMessage, BadName, Refused, TooBig
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.message import Message

GOOD = {"id": "m1", "ts": 1.5, "from": "ci", "to": "worker", "body": {"text": "hi"}}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
fields = st.sampled_from([*messages._FIELDS, "other"])


@given(st.dictionaries(fields, anything))
def test_any_fields_are_checked_or_refused(changes: dict[str, Any]) -> None:
    """PROTOCOL-4.2: anything at all gives a message or an error that is ours."""
    with suppress(Refused):
        found = messages.from_wire({**GOOD, **changes})
        assert messages.from_wire(json.loads(wire.dumps(found.to_wire()))) == found
        assert wire.dumps([found.type, found.text, found.channel, found.lane])


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_no_object(value: Any) -> None:
    """A message is an object."""
    with pytest.raises(BadMessage, match="not an object"):
        messages.from_wire(value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("id", bad) for bad in each("", "a b", "a.b", "x" * 65, "a\n", 5, None, "ü")),
        *(("ts", bad) for bad in each("1", None, -1, True, 1e13, [])),
        *(("wake", bad) for bad in each("loud", "", 1, [], {})),
        *(("session", bad) for bad in each("", "a\nb", "a\0", 1, [])),
        *(("key", bad) for bad in each("", "\x7f", False)),
        *(("reply_to", bad) for bad in each("", "a b", 1)),
        *(("cause", bad) for bad in each("", "a b", 1)),
        *(("hops", bad) for bad in each(-1, True, "1", 1_000_001)),
        *(("ttl_s", bad) for bad in each(0, -1, 1e9, "1", False)),
        *(("path", bad) for bad in each("ab", 1, ["a"] * 65)),
        *(("body", bad) for bad in each("hi", None, [], 1)),
        ("priority", 1),
    ],
)
def test_a_wrong_field_is_named(field: str, value: Any) -> None:
    """PROTOCOL-4.2: the error's text names the field."""
    with pytest.raises(BadMessage, match=field):
        messages.from_wire({**GOOD, field: value})


@pytest.mark.parametrize("field", ["from", "to"])
@pytest.mark.parametrize("value", ["", "a.b", "a b", "x" * 65, "a\n", "ü", None, 3, ["a"]])
def test_no_endpoint_name(field: str, value: Any) -> None:
    """PROTOCOL-4.3: dots, spaces, length and type."""
    with pytest.raises(BadName, match=field):
        messages.from_wire({**GOOD, field: value})


@pytest.mark.parametrize(
    "body",
    [
        {"type": ""},
        {"type": "  "},
        {"type": None},
        {"type": 5},
        {"type": "a\nb"},
        {"type": "x" * 129},
        {"text": None},
        {"text": ["a"]},
        {"channel": ""},
        {"channel": 5},
        {"channel": "a\nb"},
        {"text": "a\0b"},
        {"deep": {"list": ["a\0b"]}},
        {"key\0": 1},
        {"text": "\ud800"},
        {"x": float("nan")},
        {"x": float("inf")},
    ],
    ids=repr,
)
def test_a_wrong_body(body: dict[str, Any]) -> None:
    """PROTOCOL-4.4: empty type, wrong kinds, NUL, surrogates, NaN."""
    with pytest.raises(BadMessage):
        messages.from_wire({**GOOD, "body": body})


def test_nesting_has_a_limit() -> None:
    """PROTOCOL-4.4: 32 levels; deeper ones would end in somebody's recursion limit."""
    value: Any = "x"
    for _ in range(31):
        value = [value]
    assert messages.from_wire({**GOOD, "body": {"v": value}})
    with pytest.raises(BadMessage, match="32 levels"):
        messages.from_wire({**GOOD, "body": {"v": [value]}})


def test_sizes() -> None:
    """PROTOCOL-4.4: body, session and channel at and over their limits, in bytes."""
    fits = "a" * (wire.MAX_BODY - len('{"text":""}'))
    assert messages.from_wire({**GOOD, "body": {"text": fits}}).text == fits
    for change in (
        {"body": {"text": fits + "a"}},
        {"session": "ü" * 129},
        {"body": {"channel": "ü" * 257}},
    ):
        with pytest.raises(TooBig):
            messages.from_wire({**GOOD, **change})
    assert messages.from_wire({**GOOD, "session": "ü" * 128, "body": {"channel": "ü" * 256}})


def test_the_body_is_unchanged() -> None:
    """PROTOCOL-4.4: own fields, odd keys, numbers and big integers come out as they went in."""
    body = {"text": "{type} $(x) \u202e\x1b[1m", "": [1, 2.5, None, True], "n": 2**70, "ü": {}}
    assert messages.from_wire({**GOOD, "body": body}).to_wire()["body"] == body


def test_properties_of_an_empty_body() -> None:
    """What is absent or null is an empty string."""
    found = messages.from_wire({**GOOD, "body": {"channel": None}})
    assert (found.type, found.text, found.channel) == ("", "", "")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"ts": 9.0}, True),
        ({"hops": 3}, True),
        ({"path": ["a"]}, True),
        ({"ttl_s": 5}, True),
        ({"cause": "c1"}, True),
        ({"to": "other"}, False),
        ({"from": "other"}, False),
        ({"body": {"text": "ho"}}, False),
        ({"session": "s"}, False),
        ({"wake": "silent"}, False),
        ({"reply_to": "r"}, False),
        ({"key": "k"}, False),
    ],
)
def test_what_makes_two_messages_the_same(change: dict[str, Any], same: bool) -> None:
    """PROTOCOL-4.5: sender and content, never its stamps."""
    one, two = messages.from_wire(GOOD), messages.from_wire({**GOOD, **change})
    assert (messages.content(one) == messages.content(two)) is same


def test_the_order_of_keys_is_no_content() -> None:
    """PROTOCOL-4.5: at any depth."""
    one = messages.from_wire({**GOOD, "body": {"a": 1, "b": [{"c": 1, "d": 2}]}})
    two = messages.from_wire({**GOOD, "body": {"b": [{"d": 2, "c": 1}], "a": 1}})
    assert messages.content(one) == messages.content(two)


@pytest.mark.parametrize(
    ("change", "lane"),
    [
        ({}, "ci\n"),
        ({"session": "s", "body": {"channel": "c"}}, "ci\ns"),
        ({"body": {"channel": "feishu:oc_1"}}, "ci\nfeishu:oc_1"),
    ],
)
def test_lanes(change: dict[str, Any], lane: str) -> None:
    """PROTOCOL-7.1: sender, then session, else channel, else nothing."""
    assert messages.from_wire({**GOOD, **change}).lane == lane


def test_ids_sort_by_time_and_are_names() -> None:
    """New ids are ordered by milliseconds and differ within one."""
    ids = [messages.new_id(now) for now in (0.0, 1.0, 1e9, 1.764e9, 1.765e9, 4e9)]
    assert ids == sorted(ids) and len({messages.new_id(5.0) for _ in range(100)}) == 100
    assert all(messages.NAME.match(id) for id in ids)


def test_ids_of_one_client() -> None:
    """As single ones, also after the bits that were drawn at once are used up."""
    ids = messages.Ids()
    found = [ids.new(now) for now in range(200)]
    assert found == sorted(found)
    assert len({id[11:] for id in found}) == 200 and {len(id) for id in found} == {21}


def test_absent_fields_are_left_out() -> None:
    """The wire object of a small message is small."""
    found = Message("m1", 1.5, "ci", "worker", {"text": "hi"})
    assert found.to_wire() == GOOD
