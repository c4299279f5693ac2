"""What Discord says and wants to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import DeliveryError, Rejected, Unavailable, Uncertain
from wakebus.adapters.platforms import discord_facts as facts
from wakebus.adapters.platforms.discord import Discord

VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-1, 10_003)
    | st.floats()
    | st.sampled_from(["", "7", "07", "x", {}, []])
)
NAMES = ["id", "code", "message", "retry_after", "global", "errors", "channel_id"]


@given(
    st.sampled_from([200, 201, 204, 302, 400, 401, 429, 500]),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
)
@settings(max_examples=100)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """ADP-14.1: `sent` is a 2xx with a snowflake and no code; all else is an error of ours."""
    try:
        sent = Discord({}).parse_response(Response(status, json.dumps(body).encode()))
    except DeliveryError:
        return
    assert 200 <= status < 300 and body.get("code") is None
    assert sent.id == body["id"] == "7"


def test_errors_that_are_too_deep() -> None:
    """ADP-14.1: what can just be read and not be shown is left out."""
    deep: dict[str, Any] = {}
    body = json.dumps({"code": 50035, "message": "Invalid Form Body", "errors": deep})
    for depth in range(200, 1100, 20):
        nested = body.replace("{}", '{"a":' * depth + "1" + "}" * depth)
        with pytest.raises(DeliveryError):
            facts.read(Response(400, nested.encode()))


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        *((503, 130000, Unavailable), (403, 40333, Unavailable), (500, 0, Uncertain)),
        *((400, 1, Rejected), (401, 0, Rejected), (404, 0, Rejected)),
    ],
)
def test_codes(status: int, code: int, error: type[DeliveryError]) -> None:
    """ADP-14.1: the code decides; code 0, and one that is not listed, mean what the status says."""
    body = json.dumps({"message": "x", "code": code}).encode()
    with pytest.raises(error):
        facts.read(Response(status, body))


def test_code_0_is_not_shown() -> None:
    """ADP-14.1: it says nothing: the status stands there instead, once."""
    body = json.dumps({"message": "401: Unauthorized", "code": 0}).encode()
    with pytest.raises(Rejected, match=r"^401: Unauthorized; check DISCORD_BOT_TOKEN$"):
        facts.read(Response(401, body))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in facts.CODES.values() if found.kind == "rejected")


@pytest.mark.parametrize(
    ("url", "thread", "shown"),
    [
        ("https://x/h", None, "https://x/h?wait=true"),
        ("https://x/h", "6", "https://x/h?wait=true&thread_id=6"),
        ("https://x/h?a=1", None, "https://x/h?a=1&wait=true"),
        ("https://x/h?thread_id=5", None, "https://x/h?thread_id=5&wait=true"),
        ("https://x/h?thread_id=5", "6", "https://x/h?thread_id=6&wait=true"),
    ],
)
def test_hook(url: str, thread: str | None, shown: str) -> None:
    """ADP-14.5: a webhook's URL may have a query of its own."""
    assert facts.hook(url, thread) == shown


def test_keyed() -> None:
    """ADP-14.4: the key as it is, or a hash of 25 characters that never changes."""
    short, long = Outgoing("x", "k" * 25), Outgoing("x", "k" * 26)
    assert facts.keyed(short)["nonce"] == "k" * 25
    assert facts.keyed(long) == facts.keyed(long)
    assert len(facts.keyed(long)["nonce"]) == 25 != facts.keyed(short)["nonce"]
    assert facts.keyed(long)["enforce_nonce"] is True


@pytest.mark.parametrize("body", [b"{}", b'{"id": "1"}', b'{"id": 1, "username": "bus"}'])
def test_who_is_nobody(body: bytes) -> None:
    """ADP-14.10: an answer without our name and id is none."""
    with pytest.raises(DeliveryError):
        facts.who(Response(200, body))
