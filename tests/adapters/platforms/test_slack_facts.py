"""What Slack says and wants to hear."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import File, Response
from wakebus.adapters.errors import DeliveryError, Rejected, Unavailable, Uncertain
from wakebus.adapters.platforms import slack_facts as facts
from wakebus.adapters.platforms.slack import Slack

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
        assert facts.sent(Response(status, body), hook=True) == ""
        return
    with pytest.raises(DeliveryError):
        facts.sent(Response(status, body), hook=True)


@pytest.mark.parametrize("body", [b"ok", b"no_service"])
def test_a_word_is_no_answer_of_the_web_api(body: bytes) -> None:
    """ADP-13.7: where there is no webhook, and to any other question, a plain word says nothing."""
    response = Response(200, body)
    asked: list[Callable[[], object]] = [
        *(lambda: facts.opened(response), lambda: facts.who(response)),
        lambda: Slack({"SLACK_BOT_TOKEN": "xoxb-1"}).parse_response(response),
        lambda: facts.uploaded(File("a", b"x"), response, "https://slack.com/api"),
    ]
    for ask in asked:
        with pytest.raises(Uncertain):
            ask()


@pytest.mark.parametrize("body", [{"ok": True}, {"ok": True, "user": "bus", "team": 7}])
def test_who_is_nobody(body: dict[str, Any]) -> None:
    """ADP-13.10: an answer without our name and workspace is none."""
    with pytest.raises(Uncertain):
        facts.who(Response(200, json.dumps(body).encode()))


@pytest.mark.parametrize("id", ["C0123456789", "G0123456789", "U0123456789", "D1?x=1", "", 5])
def test_another_chat_is_not_the_person(id: object) -> None:
    """ADP-13.3: what conversations.open opens is a direct chat; a wrong answer chooses no other."""
    with pytest.raises(Uncertain):
        facts.opened(Response(200, json.dumps({"ok": True, "channel": {"id": id}}).encode()))


def test_a_proxys_word() -> None:
    """ADP-13.7: a plain word without a _ is not Slack's: the text is kept for later."""
    with pytest.raises(Unavailable):
        facts.sent(Response(403, b"forbidden"), hook=True)
    with pytest.raises(Rejected):
        facts.sent(Response(403, b"action_prohibited"), hook=True)


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
