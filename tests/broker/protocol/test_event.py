"""One event as one frame."""

import enum
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.errors import BadFrame, BadMessage, TooBig
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.event import (
    MAX_EVENT,
    MAX_NUMBER,
    Event,
    OwnStream,
    check_numbers,
    decode,
    encode,
    frame_of,
    open_envelope,
    stamp,
)

PUB = "0123456789abcdef"
HEAD = f"a.b\0{PUB} 7\0".encode()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none()
    | st.booleans()
    | texts
    | st.floats(allow_nan=False, allow_infinity=False)
    # what is whole and beyond 64 bits comes back as the same number, too
    | st.integers(-(10**300), 10**300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def test_the_bytes() -> None:
    """EVENTS-3.1: exactly those of the page."""
    envelope = stamp("ci.build.done", {"commit": "79d4366"}, 1764288000.5)
    assert encode("ci.build.done", "5be1c2a09d6f4711", 1, envelope) == (
        b'ci.build.done\x005be1c2a09d6f4711 1\x00{"type":"ci.build.done","ts":1764288000.5,'
        b'"src":"ci","commit":"79d4366"}'
    )


@given(st.dictionaries(texts, values, max_size=4), st.integers(1, MAX_NUMBER))
def test_there_and_back(fields: dict[str, Any], n: int) -> None:
    """EVENTS-3.1: what was published is what comes."""
    assert decode(encode("a.b", PUB, n, fields)) == Event("a.b", PUB, n, fields)


def test_stamps() -> None:
    """EVENTS-3.2: only where they are missing; what is given stays, also another `type`."""
    assert stamp("a.b", None, 2.5) == {"type": "a.b", "ts": 2.5, "src": "a"}
    given_ = {"type": "x", "ts": 1, "src": None, "n": 3}
    assert stamp("a.b", given_, 2.5) == given_
    assert stamp("a", {}, 2.5) == {"type": "a", "ts": 2.5, "src": "a"}
    with pytest.raises(BadMessage, match=r"event a\.b: an object, not list"):
        stamp("a.b", [], 2.5)  # type: ignore[arg-type]


def test_properties() -> None:
    """EVENTS-3.2: what stands in the envelope; something of the right type where it is wrong."""
    event = decode(HEAD + b'{"type":"x","ts":1,"src":"y"}')
    assert (event.type, event.ts, event.src) == ("x", 1.0, "y")
    for wrong in (b"{}", b'{"type":1,"ts":"now","src":[]}', b'{"ts":true}', b'{"ts":null}'):
        event = decode(HEAD + wrong)
        assert (event.type, event.ts, event.src) == ("a.b", 0.0, "a")


class _Colour(enum.StrEnum):
    RED = "red"


def test_what_the_standard_library_writes_is_written() -> None:
    """EVENTS-3.2: text and numbers of other classes, tuples, numbers as keys."""
    fields = {"a": _Colour.RED, "b": (1, (2,)), "c": {1: 2, None: 3}, "d": 2**70, "e": 10**305}
    assert decode(encode("a", PUB, 1, fields)).envelope == json.loads(json.dumps(fields))


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, [math.nan], {"a": {"b": math.inf}}, 10**309, [-(10**400)]),
        *("\ud800", {"\ud800": 1}, b"bytes", {1, 2}, object(), 1j, {(1, 2): 3}, [b"x"]),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_what_json_cannot_carry(value: object) -> None:
    """EVENTS-3.2: refused, named by its topic; nothing is turned into something else in silence."""
    with pytest.raises(BadMessage, match=r"^event a\.b: "):
        encode("a.b", PUB, 1, {"value": value})


@given(st.dictionaries(texts | st.sampled_from(["type", "ts", "src"]), values, max_size=4))
def test_the_short_way_writes_what_the_exact_one_writes(fields: dict[str, Any]) -> None:
    """EVENTS-3.2: byte for byte, whatever the fields are."""
    exact = encode("a.b", PUB, 7, stamp("a.b", fields, 1.5))
    assert frame_of(OwnStream("a.b", PUB), 7, fields, 1.5) == exact


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, [math.inf], 10**309, "\ud800", {"\ud800": 1}, b"bytes", {1, 2}, object()),
        "x" * MAX_EVENT,
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_the_short_way_lets_nothing_through(value: object) -> None:
    """EVENTS-3.2, 3.3: it refuses what the exact one refuses, in the same words."""
    with pytest.raises((BadMessage, TooBig)) as exact:
        encode("a.b", PUB, 7, stamp("a.b", {"value": value}, 1.5))
    with pytest.raises(type(exact.value)) as short:
        frame_of(OwnStream("a.b", PUB), 7, {"value": value}, 1.5)
    assert str(short.value) == str(exact.value)


@pytest.mark.parametrize(
    "body",
    [
        *(b"{}", b'{"a":1.5,"b":null}', b'{"a":' + b"9" * 308 + b"}", b'{"a":' + b"9" * 310 + b"}"),
        *(b"[]", b"1", b"{", b'{"a":NaN}', b'{"a":"' + b"x" * 400 + b'"}'),
        *(b'{"a":' + b"[" * n + b"]" * n + b"}" for n in (1, 31, 32, 40, 200)),
        b'{"a":' + b"[{}," * 10 + b"1" + b"]" * 10 + b',"b":[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]'
        b"]]]]]]]]]]]]}",
    ],
    ids=lambda body: ascii(body)[:40],
)
def test_an_envelope_is_opened_as_strictly_as_a_whole_frame(body: bytes) -> None:
    """EVENTS-3.4: behind a known head the same envelopes are refused, and no others."""
    try:
        whole = decode(HEAD + body).envelope
    except BadFrame:
        with pytest.raises(BadFrame):
            open_envelope(body)
    else:
        assert open_envelope(body) == whole


def test_depth() -> None:
    """EVENTS-3.2: 32 levels with the envelope itself, both ways."""
    inner: Any = 1
    for _ in range(31):
        inner = [inner]
    frame = encode("a.b", PUB, 7, {"a": inner})
    assert decode(frame).envelope == {"a": inner}
    for deeper in ({"a": [inner]}, {"a": {"b": inner}}):
        with pytest.raises(BadMessage, match="32 levels"):
            encode("a.b", PUB, 1, deeper)
        with pytest.raises(BadFrame, match="deep"):
            decode(HEAD + wire.dumps(deeper))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(BadMessage):
        encode("a.b", PUB, 1, {"a": loop})


def test_size() -> None:
    """EVENTS-3.3: 65,536 bytes are an event, one more are none."""
    room = MAX_EVENT - len(encode("a.b", PUB, 7, {"t": ""}))
    frame = encode("a.b", PUB, 7, {"t": "x" * room})
    assert len(frame) == MAX_EVENT == 65536 and decode(frame).n == 7
    with pytest.raises(TooBig, match=r"a\.b has 65537 bytes; the limit is 65536"):
        encode("a.b", PUB, 7, {"t": "x" * (room + 1)})
    with pytest.raises(BadFrame):
        decode(frame.replace(b'"t"', b'"tt"'))


@pytest.mark.parametrize(
    "frame",
    [
        *(b"", b"a", b"\0", b"a.b", HEAD, HEAD[:-1] + b"{}", HEAD + b"[]", HEAD + b"1"),
        *(HEAD + b'{"a":1', HEAD + b"{}{}", HEAD + b'{"a":NaN}', HEAD + b'{"a":1e999}'),
        HEAD + b'{"a":"\\ud800"}',
        *(HEAD + b'{"a":"\xff"}', HEAD + b'{"a":"\0"}', HEAD + b'{"a":' + b"9" * 310 + b"}"),
        *(HEAD + b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}",),
        *(b"a..b" + HEAD[3:] + b"{}", b"\xff" + HEAD[3:] + b"{}", b"a b" + HEAD[3:] + b"{}"),
        *(b"a*" + HEAD[3:] + b"{}", b"a" * 300 + HEAD[3:] + b"{}", HEAD[3:] + b"{}"),
        *(f"a\0{PUB} 0\0{{}}".encode(), f"a\0{PUB} -1\0{{}}".encode(), f"a\0{PUB}\0{{}}".encode()),
        *(f"a\0{PUB} 01\0{{}}".encode(), f"a\0{PUB} {2**53}\0{{}}".encode()),
        *(f"a\0{PUB.upper()} 1\0{{}}".encode(), f"a\0{PUB}0 1\0{{}}".encode()),
    ],
    ids=lambda frame: ascii(frame)[:40],
)
def test_no_event(frame: bytes) -> None:
    """EVENTS-3.4: BadFrame."""
    with pytest.raises(BadFrame):
        decode(frame)


@given(
    st.binary(max_size=80)
    | st.binary(max_size=60).map(lambda rest: HEAD + rest)
    | st.binary(max_size=60).map(lambda rest: HEAD + b"{" + rest)
    | st.tuples(st.binary(max_size=5), st.integers(0, 60)).map(
        lambda cut: (full := HEAD + b'{"a":[1,{"b":null}]}')[: cut[1]] + cut[0] + full[cut[1] :]
    )
)
def test_garbage(frame: bytes) -> None:
    """EVENTS-3.4: any bytes are an event that could be published again, or BadFrame."""
    try:
        event = decode(frame)
    except BadFrame:
        return
    json.loads(json.dumps(event.envelope))
    again = encode(event.topic, event.pub, event.n, event.envelope)
    assert decode(again) == event


@pytest.mark.parametrize(("pub", "n"), [("x" * 16, 1), (PUB, 0), (PUB, True), (1, 1), (PUB, "1")])
def test_numbers(pub: object, n: object) -> None:
    """EVENTS-3.1: `pub` and `n` as their publisher gave them, or BadMessage."""
    assert check_numbers(PUB, 1) == (PUB, 1)
    with pytest.raises(BadMessage, match=r"pub: |n: "):
        check_numbers(pub, n)
