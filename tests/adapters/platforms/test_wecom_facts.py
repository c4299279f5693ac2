"""What WeCom says and wants to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled, TokenRefused, Unavailable
from wakebus.adapters.platforms import wecom_facts as facts


def answer(body: object, status: int = 200) -> Response:
    return Response(status, json.dumps(body).encode())


NAMES = ("errcode", "errmsg", "msgid", "invaliduser", "unlicenseduser", "access_token")
VALUE = st.none() | st.booleans() | st.integers(-2, 1) | st.floats() | st.sampled_from(["", "a"])


@given(st.sampled_from([200, 302, 400, 500]), st.dictionaries(st.sampled_from(NAMES), VALUE))
@settings(max_examples=100, deadline=None)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B11: whatever stands in an answer, it is a 2xx with a whole 0 and nobody's name."""
    try:
        facts.read(answer(body, status))
    except DeliveryError:
        return
    assert status == 200 and body["errcode"] == 0 and body["errcode"] is not False
    assert not body.get("invaliduser") and not body.get("unlicenseduser")


@pytest.mark.parametrize("code", [40001, 40014, 41001, 42001])
def test_b17_one_code_two_meanings(code: int) -> None:
    """B17: of a message it is the token, of the request for one the credentials."""
    with pytest.raises(TokenRefused):
        facts.read(answer({"errcode": code}))
    with pytest.raises(Rejected):
        facts.read(answer({"errcode": code}), facts.TOKEN_CODES)


def test_throttles() -> None:
    """The whole app waits for the minute, also where a token is asked for."""
    for table in (facts.CODES, facts.TOKEN_CODES):
        with pytest.raises(Throttled) as caught:
            facts.read(answer({"errcode": 45009}), table)
        assert (caught.value.retry_after, caught.value.scope) == (60.0, "app")


def test_busy() -> None:
    """The one code that is to be repeated."""
    with pytest.raises(Unavailable, match="-1: system error"):
        facts.read(answer({"errcode": -1, "errmsg": "system error"}))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (facts.CODES, facts.TOKEN_CODES):
        assert all(found.advice for found in table.values() if found.kind == "rejected")


def test_an_app_without_a_name() -> None:
    """A check needs no name to be fine."""
    assert facts.app_name(answer({"errcode": 0})) == "no name"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("<@zhang> hi", "＜@zhang> hi"), ("a<b @c", "a<b @c"), ("<@", "＜@"), ("< @a>", "< @a>")),
        ('<a href="https://e">b</a>', '＜a href="https://e">b＜/a>'),
        *(
            ("<A\nhref=x>", "＜A\nhref=x>"),
            ("<a/href=x>", "＜a/href=x>"),
            ("<abc> a<a1", "<abc> a<a1"),
        ),
    ],
)
def test_without_mentions(text: str, shown: str) -> None:
    """ADP-18.4: nobody is called, a link shows where it leads, and it can still be read."""
    assert facts.without_mentions(text) == shown


@given(st.text(st.sampled_from("a*`#<@>| \n中😀"), max_size=300))
@settings(max_examples=100, deadline=None)
def test_what_is_measured_is_enough(text: str) -> None:
    """B24: whichever kind it becomes, no content is larger than its measure."""
    for whole in ("plain", "**marks**"):
        body = facts.content(text, whole)
        assert len(body[body["msgtype"]]["content"].encode()) <= facts.measure(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(("*x*", "markdown"), ("1) a", "markdown"), ("a\n---", "markdown"), ("`a`", "markdown")),
        *(("2*3*4", "text"), ("5 ** 2", "text"), ("| a |", "text"), ("[a](b)", "text")),
    ],
)
def test_markdown(text: str, kind: str) -> None:
    """ADP-18.4: Markdown is what the markup makes something of, here as on every platform."""
    assert facts.content(text, "")["msgtype"] == kind
