"""What Telegram says and wants to hear."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.platforms import telegram_facts as facts
from wakebus.adapters.platforms.telegram import Telegram

VALUES: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-1, 600) | st.floats() | st.sampled_from(["", "7", {}])
)
PARAMETERS = st.dictionaries(st.sampled_from(["retry_after", "migrate_to_chat_id"]), VALUES)
RESULT = st.dictionaries(st.sampled_from(["message_id", "chat"]), VALUES)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "ok": VALUES,
        "error_code": VALUES,
        "description": VALUES | st.text(max_size=20),
        "parameters": VALUES | PARAMETERS,
        "result": VALUES | RESULT,
    },
)


@given(st.sampled_from([200, 201, 302, 400, 403, 429, 500]), FIELDS)
@settings(max_examples=100)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """ADP-12.1: `sent` is a 2xx with ok true and a message's number; all else is an error."""
    try:
        sent = Telegram({"TELEGRAM_BOT_TOKEN": "1:a"}).parse_response(
            Response(status, json.dumps(body).encode())
        )
    except DeliveryError:
        return
    assert 200 <= status < 300 and body["ok"] is True
    assert sent.id == str(body["result"]["message_id"])


@pytest.mark.parametrize("code", [429, 502])
def test_words_do_not_outweigh_a_throttle(code: int) -> None:
    """ADP-12.8: what a throttle or a broken server says is no reason to give up."""
    body = {"ok": False, "error_code": code, "description": "chat not found"}
    with pytest.raises(DeliveryError) as caught:
        facts.read(Response(code, json.dumps(body).encode()))
    assert caught.value.code in ("channel_not_sent", "channel_uncertain")


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (facts.WORDS, facts.CODES):
        assert all(found.advice for found in table.values() if found.kind == "rejected")
    assert all(words == words.lower() for words in facts.WORDS)


def test_where() -> None:
    """ADP-12.2: names stay text, numbers become numbers."""
    target = Telegram({"TELEGRAM_BOT_TOKEN": "1:a"}).parse_target("@wakebus:7", None)
    assert facts.where(target, Outgoing("x", "k")) == {
        "chat_id": "@wakebus",
        "message_thread_id": 7,
    }
