"""One frame, in and out."""

import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.errors import BadFrame, BadVersion, ProtocolError, TooBig
from wakebus.broker.protocol import wire

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
READERS: list[Callable[[bytes], Any]] = [wire.loads, msgspec.json.decode]


@pytest.mark.parametrize("loads", READERS, ids=["json", "msgspec"])
@given(data=st.binary(max_size=80))
def test_any_bytes_decode_or_raise(loads: Any, data: bytes) -> None:
    """PROTOCOL-2.5: any bytes decode, or raise ProtocolError or TooBig; never anything else."""
    with suppress(ProtocolError, TooBig):
        wire.decode(data, loads)


@pytest.mark.parametrize("loads", READERS, ids=["json", "msgspec"])
@given(value=anything)
def test_any_json_decodes_or_raises(loads: Any, value: Any) -> None:
    """PROTOCOL-2.1: also JSON of any shape, with NaN and lone surrogates."""
    with suppress(ProtocolError):
        verb, sequence, payload = wire.decode(json.dumps(value).encode(), loads)
        assert isinstance(verb, str) and type(sequence) is int and isinstance(payload, dict)


@given(st.text(min_size=1, max_size=32), st.integers(0, wire.MAX_SEQUENCE), values)
def test_what_is_written_is_read(verb: str, sequence: int, value: Any) -> None:
    """Both readers return what was encoded; what cannot be encoded is BadFrame."""
    try:
        data = wire.encode(verb, sequence, {"v": value})
    except BadFrame:
        assert any("\ud800" <= c <= "\udfff" for c in verb)
        return
    for loads in READERS:
        frame = wire.decode(data, loads)
        assert frame[:2] == (verb, sequence)
    assert wire.decode(data).payload == {"v": value}


@pytest.mark.parametrize("bad", [math.nan, math.inf, "\ud800", {"\udfff": 1}, {1, 2}, object()])
def test_what_json_cannot_carry_is_refused(bad: object) -> None:
    """PROTOCOL-2.2: no NaN, infinity or lone surrogate is ever written."""
    with pytest.raises(BadFrame):
        wire.encode("send", 1, {"v": bad})


def test_deep_nesting_is_refused_not_a_crash() -> None:
    """A structure beyond the recursion limit is BadFrame, in and out."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(BadFrame, match="deep"):
        wire.dumps(value)
    for loads in READERS:
        with pytest.raises(BadFrame):
            wire.decode(b'[1,"x",1,{"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}]", loads)
    while value:  # by hand: the garbage collector would recurse
        value = value[0]


@pytest.mark.parametrize("loads", READERS, ids=["json", "msgspec"])
@pytest.mark.parametrize(
    "data",
    [
        b"NaN",
        b'[1,"x",1,{"v":NaN}]',
        b'[1,"x",1,{"v":Infinity}]',
        b'[1,"x",1,{"v":1e999}]',
        b'[1,"x",1,{"v":"\\ud800"}]',
        b'[1,"x",1,{"v":"\xed\xa0\x80"}]',
        b'[1,"x",1,{"v":"\xff"}]',
        b"",
        b"[]",
        b"{}",
        b'[1,"x",1]',
        b'[1,"x",1,{},0]',
        b'[1,"x",1,[]]',
        b'[1,"",1,{}]',
        b'[1,"' + b"x" * 33 + b'",1,{}]',
        b"[1,5,1,{}]",
        b'[1,"x",-1,{}]',
        b'[1,"x",true,{}]',
        b'[1,"x",false,{}]',
        b'[1,"x",0.0,{}]',
        b'[1,"x",1.5,{}]',
        b'[1,"x","1",{}]',
        b'[1,"x",9007199254740992,{}]',
        b'[1,"x",1,{}] ]',
    ],
)
def test_no_frame(loads: Any, data: bytes) -> None:
    """PROTOCOL-2.2, PROTOCOL-2.3: each of these is BadFrame for both readers."""
    with pytest.raises(BadFrame):
        wire.decode(data, loads)


@pytest.mark.parametrize("version", ["0", "2", "true", "1.0", "null", '"1"', "[1]"])
def test_another_version_is_said_with_its_sequence(version: str) -> None:
    """PROTOCOL-2.5: BadVersion names what is served and the sequence."""
    with pytest.raises(BadVersion) as caught:
        wire.decode(f'[{version},"x",7,{{}}]'.encode())
    assert caught.value.data == {"min": 1, "max": 1, "sequence": 7}


def test_another_version_without_a_sequence() -> None:
    """A frame of another shape has sequence 0."""
    with pytest.raises(BadVersion) as caught:
        wire.decode(b'[2,"x"]')
    assert caught.value.data["sequence"] == 0


def test_the_limit_is_exact() -> None:
    """PROTOCOL-2.4: a frame of MAX_FRAME bytes is read, one byte more is TooBig."""
    head, tail = b'[1,"x",1,{"v":"', b'"}]'
    fits = head + b"a" * (wire.MAX_FRAME - len(head) - len(tail)) + tail
    assert wire.decode(fits).verb == "x"
    with pytest.raises(TooBig):
        wire.decode(fits + b" ")


def test_a_message_is_put_in_as_it_is() -> None:
    """`encode_around` gives the frame that `encode` would."""
    frame = wire.encode_around("deliver", {"to": "a"}, b'{"id":"1"}')
    assert frame == b'[1,"deliver",0,{"to":"a","message":{"id":"1"}}]'


@pytest.mark.parametrize(("levels", "deep"), [(1, False), (32, False), (33, True), (90, True)])
def test_depth_is_counted_exactly(levels: int, deep: bool) -> None:
    """32 levels are allowed, the outermost counts."""
    value: Any = {"s": "[[[[{{{{" * 20}
    for number in range(levels - 1):
        value = {"v": value} if number % 2 else [value, 1]
    assert wire.too_deep(value, wire.dumps(value)) is deep
