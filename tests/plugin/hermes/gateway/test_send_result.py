"""What a SendResult of Hermes says, field by field and word by word."""

from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import SendResult
from wakebus.plugin.hermes.gateway.send_result import channel_result, failure_result, verdict

FAILED = SendResult(False, error="Failed to create post")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (SendResult(True, "p1"), {"result": "sent", "id": "p1"}),
        (SendResult(True), {"result": "sent"}),
        (SendResult(False, error="x", error_kind="too_long"), {"result": "rejected"}),
        (SendResult(False, error="x", error_kind="bad_format"), {"result": "rejected"}),
        (SendResult(False, error="x", error_kind="forbidden"), {"result": "rejected"}),
        (SendResult(False, error="x", error_kind="not_found"), {"result": "rejected"}),
        (
            SendResult(False, error="x", error_kind="rate_limited", retry_after=2),
            {"result": "not_sent", "retry_after": 2.0, "reason": "rate_limited: x"},
        ),
        (SendResult(False, error="x", error_kind="transient"), {"result": "uncertain"}),
        (SendResult(False, error="x", error_kind="unknown"), {"result": "uncertain"}),
        (FAILED, {"result": "uncertain", "reason": "Failed to create post"}),
        (SendResult(False), {"result": "uncertain", "reason": "the adapter does not say"}),
        (SendResult(False, error="Not connected"), {"result": "not_sent"}),
        (
            SendResult(False, error="flood_control:97.0", retry_after=97.0),
            {"result": "not_sent", "retry_after": 97.0},
        ),
        (SendResult(False, error="send_path_degraded"), {"result": "not_sent"}),
        (
            SendResult(False, error="No valid session_webhook available. Reply must follow …"),
            {"result": "not_sent"},
        ),
        (None, {"result": "uncertain"}),
        (True, {"result": "uncertain"}),
        (SimpleNamespace(success="yes"), {"result": "uncertain"}),
    ],
)
def test_a_send_result(result: Any, expected: dict[str, Any]) -> None:
    """HERMES-3.8, peer failure 5: the object is true also when it failed; its fields are read."""
    found = channel_result(result, 7.0)
    assert expected.items() <= found.items() and found["at"] == 7.0
    assert ("reason" in found) == (found["result"] != "sent")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("All connection attempts failed", "not_sent"),
        ("[Errno 111] Connection refused", "not_sent"),
        ("[Errno -2] Name or service not known", "not_sent"),
        ("Cannot connect to host discord.com:443 ssl:default [Network is unreachable]", "not_sent"),
        ("httpx.ConnectError: [Errno -3] Temporary failure in name resolution", "not_sent"),
        ("HTTPSConnectionPool(host='x'): Failed to establish a new connection: x", "not_sent"),
        ("Connection to x timed out. (ConnectTimeoutError)", "not_sent"),
        ("Pool timeout: … Request was *not* sent to Telegram", "not_sent"),
        ("429 Too Many Requests (error code: 0): slow", "not_sent"),
        ("503 Service Unavailable (error code: 0): reset reason: connection", "not_sent"),
        ("HTTP 429: {}", "not_sent"),
        ("Flood control exceeded. Retry in 5 seconds", "not_sent"),
        ("iLink sendmessage rate limited; cooldown active for 3.0s", "not_sent"),
        ("[99991400] request trigger frequency limit", "not_sent"),
        ("(url: https://slack.com/api, status: 429)", "not_sent"),
        ("The server responded with: {'ok': False, 'error': 'ratelimited'}", "not_sent"),
        ("The server responded with: {'ok': False, 'error': 'channel_not_found'}", "rejected"),
        ("The server responded with: {'ok': False, 'error': 'internal_error'}", "uncertain"),
        ("403 Forbidden (error code: 50001): Missing Access", "rejected"),
        ("HTTP 404: topic", "rejected"),
        ("Channel 42 not found", "rejected"),
        ("Message thread not found", "rejected"),
        ("target not found", "rejected"),
        ("ignored_channel", "rejected"),
        ("{'errcode': 40058, 'errmsg': 'invalid'}", "rejected"),
        ("{'errcode': 45009, 'errmsg': 'api freq out of limit'}", "not_sent"),
        ("WeCom errcode 846609: not subscribed", "not_sent"),
        ("{'errcode': 0}", ""),
        ('<HttpError 403 when requesting https://chat.googleapis.com returned "x">', "rejected"),
        ("Server error '503 Service Unavailable' for url 'http://x'", "not_sent"),
        ("LINE push 429: too many", "not_sent"),
        ("QQ Bot API error [503] /v2/users/x: busy", "not_sent"),
        ("iLink sendmessage session not ready: ret=-2 errcode=None errmsg=x", "not_sent"),
        ("[Discord] Failed to send Discord message: 500 Internal Server Error", "uncertain"),
        ("WhatsApp bridge process exited unexpectedly (code 1).", "not_sent"),
        ("No req_id available for group chat (passive reply required)", "not_sent"),
        ("Twilio 400: no such number", "rejected"),
        ("WeCom errcode 45009: api freq out of limit", "not_sent"),
        ("WeCom errcode 40058: invalid", "rejected"),
        ("invalid literal for int() with base 10: 'x'", "rejected"),
        ("HTTP 500: connection refused", "uncertain"),
        ("HTTP 502: ", "uncertain"),
        ("Server disconnected", "uncertain"),
        ("[Errno 104] Connection reset by peer", "uncertain"),
        ("Timeout publishing to ntfy", "uncertain"),
        ("Timed out", "uncertain"),
        ("httpx.ReadError", "uncertain"),
        ("(Caused by ReadTimeoutError('read timed out'))", "uncertain"),
        ("something else", ""),
        ("", ""),
    ],
)
def test_a_word(text: str, expected: str) -> None:
    """HERMES-3.8: no connection, too many, not served now are `not_sent`; in doubt uncertain."""
    assert verdict(text) == expected


def test_words_that_contradict() -> None:
    """HERMES-3.8: an earlier try that may have arrived leaves it open."""
    refused = SendResult(False, error="[Errno 111] Connection refused")
    assert channel_result(refused, 1.0)["result"] == "not_sent"
    tried = ["attempt 1/3: httpx.ReadError"]
    assert channel_result(refused, 1.0, tried)["result"] == "uncertain"
    both = ["→ 404: root", "network error: Cannot connect to host"]
    assert channel_result(SendResult(False, error="failed"), 1.0, both)["result"] == "uncertain"
    told = channel_result(SendResult(False, error="failed"), 1.0, ["POST → 429: slow"])
    assert (told["result"], told["reason"]) == ("not_sent", "failed: POST → 429: slow")


def test_a_path_that_broke_in_the_middle() -> None:
    """HERMES-3.8: what Discord of 0.22 calls degraded may have arrived; its log has the fault."""
    degraded = SendResult(False, error="send_path_degraded")
    failed = "[Discord] Failed to send Discord message: "
    for fault, result in (
        ("[Errno 104] Connection reset by peer", "uncertain"),
        ("Session is closed", "uncertain"),
        ("503 Service Unavailable (error code: 0): ", "not_sent"),
        ("Cannot connect to host discord.com:443 ssl:default [Connect call failed]", "not_sent"),
    ):
        told = channel_result(degraded, 1.0, [failed + fault])
        assert told["result"] == result and fault.strip() in told["reason"], told


def test_one_try_too_many() -> None:
    """HERMES-3.8: a limit that came after a try in doubt says nothing of that one."""
    limited = SendResult(False, error="Too Many Requests", error_kind="rate_limited")
    assert channel_result(limited, 1.0, ["attempt 1/3: httpx.ReadError"])["result"] == "uncertain"


def test_what_is_there_in_part() -> None:
    """HERMES-3.13: parts that Hermes's adapter has posted are not posted again."""
    raw = {"partial_overflow": True, "delivered_chunks": 2, "total_chunks": 3}
    result = SimpleNamespace(success=False, error="HTTP 429: slow", raw_response=raw)
    told = channel_result(result, 1.0)
    assert told["result"] == "uncertain" and "2 of 3 parts are there" in told["reason"]
    assert channel_result(SimpleNamespace(success=True, raw_response=raw), 1.0)["result"] != "sent"


def test_a_wait_that_only_the_words_say() -> None:
    """HERMES-3.8: Telegram's seconds."""
    told = channel_result(
        SendResult(False, error="Flood control exceeded. Retry in 5 seconds"), 1.0
    )
    assert told["retry_after"] == 5.0


def test_telegram_says_that_it_did_not_connect() -> None:
    """HERMES-3.8: a time-out that its adapter would retry (telegram:4239)."""
    result = SimpleNamespace(success=False, error="Timed out", retryable=True)
    assert channel_result(result, 1.0)["result"] == "not_sent"
    result.retryable = False
    assert channel_result(result, 1.0)["result"] == "uncertain"


def test_a_thread_that_was_gone() -> None:
    """HERMES-3.12: what Telegram's adapter posted beside the thread is not told as sent."""
    raw = {"message_ids": ["1"], "thread_fallback": True}
    result = SimpleNamespace(success=True, message_id="1", raw_response=raw)
    told = channel_result(result, 1.0)
    assert told["result"] == "uncertain" and "beside its thread" in told["reason"]


def test_a_cause() -> None:
    """HERMES-3.8: a refused connection is recognised behind what the adapter makes of it."""
    try:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as exc:
            raise RuntimeError("send failed") from exc
    except RuntimeError as exc:
        assert failure_result(exc, 1.0)["result"] == "not_sent"
    assert failure_result(RuntimeError("send failed"), 1.0)["result"] == "uncertain"
