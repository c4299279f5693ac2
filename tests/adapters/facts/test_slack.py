"""What Slack says and wants to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Response
from wakebus.adapters.errors import DeliveryError, Rejected, Unavailable
from wakebus.adapters.facts import slack as facts
from wakebus.adapters.slack import Slack

VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(["", "ok", "x_y", [], [{}]])
)
FIELDS = st.dictionaries(st.sampled_from(["ok", "error", "ts", "files", "warning"]), VALUES)


@given(st.sampled_from([200, 201, 302, 400, 429, 500]), FIELDS)
@settings(max_examples=100)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """ADP-13.1: `sent` is a 2xx with ok true; all else is an error of ours."""
    try:
        Slack({}).parse_response(Response(status, json.dumps(body).encode()))
    except DeliveryError:
        return
    assert 200 <= status < 300 and body["ok"] is True


@pytest.mark.parametrize(
    ("status", "body", "fine"),
    [
        *((200, b"ok", True), (200, b"ok\n", True), (200, b"okay", False), (404, b"ok", False)),
        *((200, b"OK", False), (200, b'"ok"', False), (204, b"", False), (200, b"ok ok", False)),
    ],
)
def test_a_webhooks_word(status: int, body: bytes, fine: bool) -> None:
    """ADP-13.7: `ok` in a 2xx, and nothing like it."""
    if fine:
        assert facts.read(Response(status, body)) == {}
        return
    with pytest.raises(DeliveryError):
        facts.read(Response(status, body))


def test_a_proxys_word() -> None:
    """ADP-13.7: a plain word without a _ is not Slack's: the text is kept for later."""
    with pytest.raises(Unavailable):
        facts.read(Response(403, b"forbidden"))
    with pytest.raises(Rejected):
        facts.read(Response(403, b"action_prohibited"))


@pytest.mark.parametrize("code", ["service_unavailable", "request_timeout", "team_added_to_org"])
def test_what_took_nothing_in(code: str) -> None:
    """ADP-13.6: what Slack says it did not take comes again."""
    with pytest.raises(Unavailable):
        facts.read(Response(200, json.dumps({"ok": False, "error": code}).encode()))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in facts.CODES.values() if found.kind == "rejected")


@pytest.mark.parametrize(
    ("token", "right"),
    [
        *(("xoxb-1-2-a", True), ("xoxp-1-a", True), ("xoxe.xoxb-1-a", True), ("", True)),
        *(("xapp-1-a", False), ("Bearer xoxb-1", False), ("xoxb-a\nb", False)),
    ],
)
def test_tokens(token: str, right: bool) -> None:
    """ADP-13.9: a bot's or a person's token, also a rotated one; no other."""
    if right:
        assert facts.token(token) == token
        return
    with pytest.raises(DeliveryError):
        facts.token(token)
