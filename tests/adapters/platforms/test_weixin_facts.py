"""What iLink says and wants to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled, Uncertain, WayClosed
from wakebus.adapters.platforms import weixin_facts as facts


def answer(body: object, status: int = 200) -> Response:
    return Response(status, json.dumps(body).encode())


VALUE = st.none() | st.booleans() | st.integers(-2, 1) | st.floats() | st.sampled_from(["", "a"])


@given(
    st.sampled_from([200, 302, 400, 500]),
    st.dictionaries(st.sampled_from(("ret", "errcode", "errmsg", "message_id", "other")), VALUE),
)
@settings(max_examples=100, deadline=None)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B14: a 2xx, both codes a whole 0 or absent, and nothing but what iLink writes."""
    try:
        facts.read(answer(body, status))
    except DeliveryError:
        return
    assert status == 200 and body.keys() != {"other"}
    for name in ("ret", "errcode"):
        assert body.get(name) is None or (body[name] == 0 and type(body[name]) is int)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("prepare failed", WayClosed),
        ("Unknown Error", WayClosed),
        ("", WayClosed),
        ("rate limited", Throttled),
        ("frequency limit", Throttled),
        ("操作太频繁", Throttled),
        ("rate_limit", Throttled),
        ("ratelimited", Throttled),
        ("Too many messages", Throttled),
        ("too many api calls", Throttled),
        ("发送频率过高", Throttled),
        ("invalid to_user_id", Rejected),
        ("operate failed", Rejected),
        ("text exceeds the length limit", Rejected),
        ("too many characters", Rejected),
        ("generated text is not allowed", Rejected),
        ("频道不存在", Rejected),
        ("视频超过大小限制", Rejected),
    ],
)
def test_b14_one_number_three_meanings(message: str, error: type[DeliveryError]) -> None:
    """B14, ADP-19.5: -2 is told apart by its words, a throttle is a rate's only."""
    for name in ("ret", "errcode"):
        with pytest.raises(error):
            facts.read(answer({name: -2, "errmsg": message}))


def test_somebody_elses_object() -> None:
    """A 200 with JSON of a proxy's is no success."""
    for body in ({"error": "x"}, {"code": 0}, {"ok": True}):
        with pytest.raises(Uncertain):
            facts.read(answer(body))


@pytest.mark.parametrize(
    ("found", "id"),
    [({"message_id": 7}, "7"), ({"message_id": "a"}, "a"), ({"message_id": True}, ""), ({}, "")],
)
def test_ids(found: dict[str, Any], id: str) -> None:
    """A number or a text; anything else is none."""
    assert facts.message_id(found) == id


def test_no_context_no_field() -> None:
    """Without a context token the field is not there at all."""
    assert "context_token" not in facts.body("u", "hi", "k", "")["msg"]
    assert facts.body("u", "hi", "k", "c")["msg"]["context_token"] == "c"
