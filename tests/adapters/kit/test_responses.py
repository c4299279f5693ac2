"""What platforms answer."""

import pytest

from wakebus.adapters.base import Response
from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.kit import responses
from wakebus.adapters.kit.error_codes import Meaning

DATE = "Fri, 27 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((200, Uncertain), (204, Uncertain), (0, Uncertain), (408, Uncertain), (500, Uncertain)),
        *(
            (302, Rejected),
            (413, Rejected),
            (400, Unavailable),
            (403, Unavailable),
            (429, Throttled),
        ),
        *((404, Rejected), (405, Rejected), (503, Uncertain)),
    ],
)
def test_unexpected(status: int, expected: type[DeliveryError]) -> None:
    """A page of somebody else's: a 4xx took nothing in, a 2xx or 5xx may have."""
    with pytest.raises(DeliveryError) as caught:
        responses.json_answer(Response(status, b"<html>"))
    assert type(caught.value) is expected and str(status) in caught.value.text


@pytest.mark.parametrize(
    ("headers", "wait"),
    [({"Retry-After": "120"}, 120.0), ({"Retry-After": "soon"}, None), ({}, None)],
)
def test_b19_a_stranger_that_says_how_long(headers: dict[str, str], wait: float | None) -> None:
    """B19, ADP-4.4: a proxy's 429 has a hint too."""
    with pytest.raises(Throttled) as caught:
        responses.json_answer(Response(429, b"<html>", headers))
    assert caught.value.retry_after == wait


@pytest.mark.parametrize(
    ("status", "expected"), [(400, Rejected), (200, Rejected), (429, Throttled), (500, Uncertain)]
)
def test_an_unknown_code(status: int, expected: type[DeliveryError]) -> None:
    """A code that no table lists is permanent, unless the status says more."""
    assert type(responses.refusal({}, "new.code", "?", Response(status))) is expected
    listed = {"new.code": Meaning("uncertain")}
    assert type(responses.refusal(listed, "new.code", "?", Response(status))) is Uncertain


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"X-Ogw-Ratelimit-Reset": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "9", "x-ogw-ratelimit-reset": "2"}, 2.0),
        ({"retry-after": "9", "x-ogw-ratelimit-reset": "soon"}, 9.0),
        ({"retry-after": "Fri, 27 Nov 2026 10:02:00 GMT", "DATE": DATE}, 120.0),
        ({"retry-after": "Fri, 27 Nov 2026 09:00:00 GMT", "Date": DATE}, 0.0),
        ({"retry-after": "Fri, 27 Nov 2026 10:02:00 GMT"}, None),
        ({"retry-after": "Fri, 27 Nov 99999 10:02:00 GMT", "Date": DATE}, None),
        *(({"retry-after": value, "Date": DATE}, None) for value in ("soon", "")),
        *(({"retry-after": value}, None) for value in ("-1", "nan", "inf", "1e9", "", "٣")),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], wait: float | None) -> None:
    """Of the first header that has some, in any case of its name; a date by the answer's clock."""
    response = Response(429, b"", headers)
    assert responses.retry_after(response, "x-ogw-ratelimit-reset", "retry-after") == wait


@pytest.mark.parametrize("found", [{}, {"name": ""}, {"name": 7}, {"name": None}])
def test_text_field(found: dict[str, object]) -> None:
    """What names nothing is not the platform's answer."""
    assert responses.text_field({"name": "a"}, "name", Response(200)) == "a"
    with pytest.raises(Uncertain):
        responses.text_field(found, "name", Response(200))


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
    assert responses.reason(7, message, "do this") == shown


def test_reason_with_a_url() -> None:
    """A signed URL that a platform quotes back."""
    assert "Zm9v" not in responses.reason(7, "https://x.example/?sign=Zm9vYmFyYmF6cXV4MTIzNDU2%3D")


TOKEN = "syt-1a2b3c4d5e6f7g8h9i0j"


@pytest.mark.parametrize("before", [0, 150, 185, 200, 375, 390, 399, 5000])
def test_a_cut_leaves_no_beginning_of_a_token(before: int) -> None:
    """What looks like a credential is hidden before the text is cut, and a cut word is left out."""
    said = responses.reason(
        TOKEN, "a" * (before % 19) + " b" * (before // 2) + f" {TOKEN} {TOKEN[:9]}c"
    )
    assert "syt-1a2" not in said.replace(f"{TOKEN[:9]}c", "")
    assert said.startswith("***: ")


@pytest.mark.parametrize(
    ("value", "unit", "wait"),
    [
        *((5, 1.0, 5.0), (1.5, 1.0, 1.5), (2000, 0.001, 2.0), (0, 1.0, 0.0), (-1, 1.0, None)),
        *((10**400, 0.001, None), (float("nan"), 1.0, None), (float("inf"), 1.0, None)),
        *((True, 1.0, None), ("5", 1.0, None), (None, 1.0, None), ([5], 1.0, None)),
    ],
)
def test_the_wait_in_an_answer(value: object, unit: float, wait: float | None) -> None:
    """ADP-4.4: a number of seconds or milliseconds, however large; else none."""
    assert responses.seconds_of(value, unit) == wait


def test_reason_is_bounded() -> None:
    """Whatever a platform writes."""
    assert len(responses.reason("c " * 999, "m " * 9999)) < 500


@pytest.mark.parametrize("value", [None, "", 7, "a b", "a\r\nb: c", "t\u4e2d", "x" * 5000, ["t"]])
def test_no_token(value: object) -> None:
    """What cannot stand in a header is no token."""
    with pytest.raises(Unavailable):
        responses.access_token(value, 7200)


@pytest.mark.parametrize(
    ("expires", "held"),
    [(7200, 7200.0), (0.5, 0.5), (0, 0.0), (-1, 0.0), ("7200", 0.0), (1e30, 0.0)],
)
def test_token(expires: object, held: float) -> None:
    """A time that is none is no time: the token is used once."""
    token = responses.access_token("t-1", expires)
    assert (token.value, token.expires_s) == ("t-1", held)


def test_a_doubt_about_a_token() -> None:
    """It is none about the text: nothing of it went out."""
    with pytest.raises(Unavailable, match="no access token: lost"):
        with responses.fetching_token():
            raise Uncertain("lost")
    with pytest.raises(Rejected):
        with responses.fetching_token():
            raise Rejected("no")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"\xff", b"[" * 200_000])
def test_an_answer_that_is_no_object(body: bytes) -> None:
    """ADP-4.2: what is no JSON object is uncertain, with the status in the reason."""
    with pytest.raises(Uncertain, match="200"):
        responses.json_object(Response(200, body))
