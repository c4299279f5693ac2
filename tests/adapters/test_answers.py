"""What platforms answer."""

import pytest

from wakebus.adapters import answers
from wakebus.adapters.base import Response
from wakebus.adapters.codes import Meaning
from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)


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
