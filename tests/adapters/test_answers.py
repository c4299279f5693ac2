"""What platforms answer."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters import answers
from wakebus.adapters.base import Response
from wakebus.adapters.codes import Meaning
from wakebus.adapters.dingtalk import DingTalk
from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.feishu import Feishu


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((200, Uncertain), (204, Uncertain), (0, Uncertain), (408, Uncertain), (500, Uncertain)),
        *((302, Unavailable), (400, Unavailable), (403, Unavailable), (429, Throttled)),
        *((404, Rejected), (405, Rejected), (503, Uncertain)),
    ],
)
def test_a_stranger(status: int, expected: type[DeliveryError]) -> None:
    """A page of somebody else's: a 4xx took nothing in, a 2xx or 5xx may have."""
    with pytest.raises(DeliveryError) as caught:
        answers.answer(Response(status, b"<html>"))
    assert type(caught.value) is expected and str(status) in caught.value.text


@pytest.mark.parametrize(
    ("status", "expected"), [(400, Rejected), (200, Rejected), (429, Throttled), (500, Uncertain)]
)
def test_an_unknown_code(status: int, expected: type[DeliveryError]) -> None:
    """A code that no table lists is permanent, unless the status says more."""
    assert type(answers.refusal({}, "new.code", "?", Response(status))) is expected
    listed = {"new.code": Meaning("uncertain")}
    assert type(answers.refusal(listed, "new.code", "?", Response(status))) is Uncertain


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"X-Ogw-Ratelimit-Reset": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "9", "x-ogw-ratelimit-reset": "2"}, 2.0),
        ({"retry-after": "9", "x-ogw-ratelimit-reset": "soon"}, 9.0),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        *(({"retry-after": value}, None) for value in ("-1", "nan", "inf", "1e9", "", "٣")),
        ({}, None),
    ],
)
def test_seconds(headers: dict[str, str], wait: float | None) -> None:
    """Seconds from the first header that has some, in any case of its name."""
    response = Response(429, b"", headers)
    assert answers.seconds(response, "x-ogw-ratelimit-reset", "retry-after") == wait


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("chat rate limit", "7: chat rate limit; do this"),
        ("token t-g1044ghJRUIJJ5ELPEFY6ZUE is bad", "7: token *** is bad; do this"),
        ("AccessTokenPermissionDenied", "7: AccessTokenPermissionDenied; do this"),
        ("two\nlines\x1b[31m", "7: two lines; do this"),
        (None, "7: no reason given; do this"),
        ({"a": 1}, "7: {'a': 1}; do this"),
    ],
)
def test_reason(message: object, shown: str) -> None:
    """One clean line without what looks like a credential."""
    assert answers.reason(7, message, "do this") == shown


def test_reason_with_a_url() -> None:
    """A signed URL that a platform quotes back."""
    assert "Zm9v" not in answers.reason(7, "https://x.example/?sign=Zm9vYmFyYmF6cXV4MTIzNDU2%3D")


def test_reason_is_bounded() -> None:
    """Whatever a platform writes."""
    assert len(answers.reason("c " * 999, "m " * 9999)) < 300


@pytest.mark.parametrize("value", [None, "", 7, "a b", "a\r\nb: c", "t\u4e2d", "x" * 5000, ["t"]])
def test_no_token(value: object) -> None:
    """What cannot stand in a header is no token."""
    with pytest.raises(Unavailable):
        answers.token(value, 7200)


@pytest.mark.parametrize(
    ("expires", "held"),
    [(7200, 7200.0), (0.5, 0.5), (0, 0.0), (-1, 0.0), ("7200", 0.0), (1e30, 0.0)],
)
def test_token(expires: object, held: float) -> None:
    """A time that is none is no time: the token is used once."""
    token = answers.token("t-1", expires)
    assert (token.value, token.expires_s) == ("t-1", held)


def test_a_doubt_about_a_token() -> None:
    """It is none about the text: nothing of it went out."""
    with pytest.raises(Unavailable, match="no access token: lost"):
        with answers.of_a_token():
            raise Uncertain("lost")
    with pytest.raises(Rejected):
        with answers.of_a_token():
            raise Rejected("no")


@pytest.mark.parametrize(
    "body",
    [{"code": 0}, {"StatusCode": 0}, {"code": 0, "StatusCode": 1}],
)
def test_of_feishu(body: dict[str, Any]) -> None:
    """Code 0, or an old custom bot's StatusCode, with a 2xx."""
    data = json.dumps(body).encode()
    assert answers.of_feishu(Response(200, data)) == body
    for status in (302, 400, 500):
        with pytest.raises(DeliveryError):
            answers.of_feishu(Response(status, data))


def test_of_dingtalk() -> None:
    """No error code, no list with the user in it."""
    for body in ({"errcode": 0}, {"processQueryKey": "k", "invalidStaffIdList": []}):
        assert answers.of_dingtalk(Response(200, json.dumps(body).encode())) == body
    for bad in ({"errcode": 0.5}, {"errcode": None}, {"errcode": False}, {"errcode": "0"}):
        with pytest.raises(Uncertain):
            answers.of_dingtalk(Response(200, json.dumps(bad).encode()))


VALUE = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.floats() | st.sampled_from(["", "a", []])
)
LISTS = ("invalidStaffIdList", "filteredStaffIdList", "flowControlledStaffIdList")
NAMES = ("code", "StatusCode", "errcode", "processQueryKey", "punish", "msg", "data", *LISTS)


@given(
    st.sampled_from([200, 201, 302, 400, 429, 500]), st.dictionaries(st.sampled_from(NAMES), VALUE)
)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B11, B12: whatever stands in an answer, `sent` is a 2xx with the platform's own criterion."""
    response = Response(status, json.dumps(body).encode())
    for adapter in (Feishu({}), DingTalk({})):
        try:
            adapter.parse_response(response)
        except DeliveryError:
            continue
        assert 200 <= status < 300
        if isinstance(adapter, Feishu):
            assert body.get("code", body.get("StatusCode")) == 0
        else:
            assert body.get("errcode") == 0 or body["processQueryKey"] == "a"
            assert not any(body.get(name) for name in (*LISTS, "punish"))
