"""What platforms say in words."""

import pytest

from wakebus.adapters.base import Response
from wakebus.adapters.errors import Rejected, Throttled
from wakebus.adapters.kit import error_words, responses

FAST = """too many request;Too Many Requests: retry after 7;You are being rate limited.
frequency limit;request trigger frequency limit;chat rate limit;ratelimited
rate_limit_exceeded;freq out of limit;send too fast;TooManyRequests;Throttling.User
Request was denied due to api flow control
qps limit;FLOOD_WAIT_7;M_TOO_MANY_REQUESTS;request limit exceeded;mustslower;Slow down please
请求过于频繁;发送速度太快而限流;调用频率超限;请求太频繁;too frequent;rate limit is exceeded"""
OTHER = """Bad Request;message.content exceed max length 4096;request exceeds the maximum length
too many tags;request entity too large;invalid receive_id;keywords not in content;corporate
sign not match;chat not found;message is too long;the limit of attachments;频道不存在;unlimited"""


@pytest.mark.parametrize("words", FAST.replace("\n", ";").split(";"))
def test_b1_too_fast(words: str) -> None:
    """ADP-4.8: as a message or as a code, whatever the status."""
    for code, message, status in ((9499, words, 400), (words, "refused", 200), (7, words, 500)):
        error = responses.refusal({}, code, message, Response(status))
        assert type(error) is Throttled, (code, message)


@pytest.mark.parametrize("words", OTHER.replace("\n", ";").split(";"))
def test_not_too_fast(words: str) -> None:
    """ADP-4.8: other words are what the code or the status says."""
    assert type(responses.refusal({}, 9499, words, Response(400))) is Rejected


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("Too Many Requests: retry after 7", 7.0),
        ("slow down, retry in 250 ms", 0.25),
        ("try again in 1.5 s", 1.5),
        ("Bad Request: FLOOD_WAIT_12", 12.0),
        ("too many requests", None),
        (None, None),
    ],
)
def test_a_wait_in_words(said: object, wait: float | None) -> None:
    """ADP-4.4: where nothing else says it."""
    assert error_words.wait_in(said) == wait


@pytest.mark.parametrize(
    "words",
    [
        "sign match fail or timestamp is not within one hour from current time",
        *("Message timestamp too old", "invalid timestamp", "RequestTimeTooSkewed", "签名过期"),
        *("Signature expired: now earlier", "InvalidTimeStamp.Expired", "expired signature"),
        *("clock skew too great", "签名已过期", "时间戳无效"),
    ],
)
def test_b1_the_clock(words: str) -> None:
    """ADP-4.10: a signature that is too old or too new is about this machine's clock."""
    error = responses.refusal({}, 7, words, Response(401))
    assert type(error) is Rejected and error.text.endswith(error_words.CLOCK)


@pytest.mark.parametrize("words", ["blocked", "sign not match", "token expired", "unlocked"])
def test_no_clock(words: str) -> None:
    """ADP-4.10: what is not about time says nothing of it."""
    assert "clock" not in responses.refusal({}, 7, words, Response(401)).text


def test_whose_clock_says_what() -> None:
    """ADP-4.10: the answer's own date stands there, clean and short."""
    dates = {"date": "Fri, 27 Nov 2026 10:00:00 GMT\x1b[31m" + "x" * 99}
    shown = error_words.clock_advice(Response(401, b"", dates), "timestamp")
    assert "; there it is Fri, 27 Nov 2026 10:00:00 GMTx" in shown and len(shown) < 130
