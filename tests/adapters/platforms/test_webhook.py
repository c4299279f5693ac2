"""The platform `webhook`, against a receiver that checks signatures with the published library."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as Checker
from standardwebhooks import WebhookVerificationError

from fakes.carrier import Carrier
from fakes.webhook_receiver import WebhookReceiver, receiving
from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import BadSetting, BadTarget, DeliveryError, Throttled
from wakebus.adapters.platforms.webhook import Webhook, read_id, signed_headers, signing_key

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    """A receiver on this machine."""
    with receiving() as found:
        yield found


@pytest.fixture
def carrier(receiver: WebhookReceiver) -> Carrier:
    """A courier's shell that knows the receiver as `my-ci`, by the time that it is."""
    env = {"WEBHOOK_MY_CI_URL": f"{receiver.url}/in", "WEBHOOK_MY_CI_SECRET": SECRET}
    found = Carrier(env)
    found.time = datetime.now(UTC).timestamp()  # the library refuses what is 5 minutes old
    return found


def test_a_signed_request(receiver: WebhookReceiver, carrier: Carrier) -> None:
    """ADP-20.2, ADP-20.3: the published library takes headers and body as they are."""
    receiver.answers = [(200, {}, b'{"id": "evt_1"}')]
    result = carrier("webhook:my-ci", "Grüße 中\n**x**", key="m-1")
    assert (result.result, result.id) == ("sent", "evt_1")
    got = receiver.got[0]
    said = {"id": "m-1", "platform": "webhook", "chat_id": "my-ci", "text": "Grüße 中\n**x**"}
    assert Checker(SECRET).verify(got.body, got.headers) == said
    assert got.headers["webhook-id"] == got.headers["idempotency-key"] == "m-1"
    assert got.headers["content-type"].startswith("application/json")


def test_another_secret_or_body(receiver: WebhookReceiver, carrier: Carrier) -> None:
    """ADP-20.3: the signature is over this body, by this secret."""
    carrier("webhook:my-ci")
    got = receiver.got[0]
    for secret, body in (("whsec_" + "A" * 32, got.body), (SECRET, got.body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Checker(secret).verify(body, got.headers)


def test_without_a_secret(receiver: WebhookReceiver) -> None:
    """ADP-20.3: nothing is signed, and the id is there all the same."""
    assert Carrier({"WEBHOOK_CI_URL": receiver.url})("webhook:ci").result == "sent"
    assert "webhook-signature" not in receiver.got[0].headers
    assert receiver.got[0].headers["webhook-id"] == "k1"


def test_a_thread(receiver: WebhookReceiver, carrier: Carrier) -> None:
    """ADP-20.2: it is a field of the JSON."""
    carrier("webhook:my-ci?thread=T-1")
    assert receiver.got[0].json["thread"] == "T-1"


def test_a_long_text(receiver: WebhookReceiver, carrier: Carrier) -> None:
    """ADP-20.2: a program gets it whole."""
    text = "中\n" * 200_000
    result = carrier("webhook:my-ci", text)
    assert (result.result, result.parts) == ("sent", 1)
    assert receiver.got[0].json["text"] == text


@pytest.mark.parametrize(
    "chat", ["https://evil.example/x", "//evil.example", "evil.example", "a:b@c", "a/b", ""]
)
def test_a_url_is_no_chat(chat: str) -> None:
    """ADP-20.1: who writes a message does not choose where it goes."""
    with pytest.raises(BadTarget, match=r"WEBHOOK_<NAME>_URL"):
        Webhook({}).parse_target(chat, None)


@pytest.mark.parametrize("chat", ["my-ci", "my_ci", "MY-CI"])
def test_names(chat: str) -> None:
    """ADP-20.1: a name is its variable's, in capitals, with _ for -."""
    adapter = Webhook({"WEBHOOK_MY_CI_URL": "https://ci.example/in"})
    request = adapter.build_request(adapter.parse_target(chat, None), Outgoing("hi", "k"))
    assert request.url == "https://ci.example/in"


def test_a_resend(receiver: WebhookReceiver, carrier: Carrier) -> None:
    """ADP-20.4: the same id, and the same body to the byte, at another time."""
    receiver.answers = [(500, {}, b""), (200, {}, b"")]
    carrier("webhook:my-ci", "hi", key="m-1")
    carrier.time += 3
    carrier("webhook:my-ci", "hi", key="m-1")
    one, other = receiver.got[0], receiver.got[-1]
    assert len(receiver.got) == 3  # a doubt is asked again at once, under its key
    assert one.body == other.body and one.headers["webhook-id"] == other.headers["webhook-id"]
    assert one.headers["webhook-timestamp"] != other.headers["webhook-timestamp"]
    for got in receiver.got:
        assert Checker(SECRET).verify(got.body, got.headers)


@pytest.mark.parametrize(
    ("answer", "word", "wait", "asked"),
    [
        ((204, {}, b""), "sent", None, 1),
        ((202, {}, b"accepted"), "sent", None, 1),
        ((429, {"retry-after": "60"}, b""), "not_sent", 60.0, 1),
        ((503, {"retry-after": "90"}, b""), "not_sent", 90.0, 1),
        ((503, {}, b""), "uncertain", None, 2),
        ((500, {}, b""), "uncertain", None, 2),
        ((408, {}, b""), "uncertain", None, 2),
        ((425, {}, b""), "uncertain", None, 2),
        ((302, {"location": "/elsewhere"}, b""), "rejected", None, 1),
        ((308, {"location": "/elsewhere"}, b""), "rejected", None, 1),
        ((410, {}, b""), "rejected", None, 1),
        ((401, {}, b'{"error": "no matching signature"}'), "rejected", None, 1),
        ((404, {}, b"<html>"), "rejected", None, 1),
    ],
)
def test_answers(
    receiver: WebhookReceiver,
    carrier: Carrier,
    answer: tuple[int, dict[str, str], bytes],
    word: str,
    wait: float | None,
    asked: int,
) -> None:
    """ADP-20.5: the status decides; a doubt is asked again, nothing else is, nothing followed."""
    receiver.answers = [answer]
    result = carrier("webhook:my-ci")
    assert (result.result, result.retry_after) == (word, wait)
    assert [got.path for got in receiver.got] == ["/in"] * asked
    if b"error" in answer[2]:
        assert "no matching signature" in result.reason


def test_b19_a_date() -> None:
    """B19, ADP-20.5: Retry-After as a date, by the clock of the answer and not by ours."""
    dates = {
        "Retry-After": "Sat, 01 Jan 2000 00:02:00 GMT",
        "Date": "Sat, 01 Jan 2000 00:00:00 GMT",
    }
    with pytest.raises(Throttled) as caught:
        Webhook({}).parse_response(Response(429, b"", dates))
    assert caught.value.retry_after == 120.0


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({}, "WEBHOOK_CI_URL"),
        ({"WEBHOOK_CI_URL": "http://hush.example/in"}, "WEBHOOK_CI_URL"),
        ({"WEBHOOK_CI_URL": "https://u:hush@x.example"}, "WEBHOOK_CI_URL"),
        ({"WEBHOOK_CI_SECRET": "whsec_hush!"}, "WEBHOOK_CI_SECRET"),
        ({"WEBHOOK_CI_SECRET": "hush"}, "WEBHOOK_CI_SECRET"),
        ({"WEBHOOK_CI_SECRET": "whsec_"}, "WEBHOOK_CI_SECRET"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-20.6: what is missing or wrong is named when the receiver is used, without its value."""
    url = {} if named.endswith("URL") else {"WEBHOOK_CI_URL": "https://ci.example/in"}
    adapter = Webhook(url | env)
    with pytest.raises(BadSetting, match=named) as caught:
        adapter.build_request(adapter.parse_target("ci", None), Outgoing("hi", "k"))
    assert "hush" not in caught.value.text


def test_a_name_that_is_none() -> None:
    """ADP-20.6: a slip in a name is answered with the names that there are, and no URL."""
    env = {f"WEBHOOK_W{n:02}_URL": "https://hush.example/" for n in range(12)}
    adapter = Webhook({**env, "WEBHOOK_OFF_URL": " ", "WEBHOOK_W00_SECRET": SECRET})
    with pytest.raises(BadSetting) as caught:
        adapter.build_request(adapter.parse_target("nope", None), Outgoing("hi", "k"))
    shown = caught.value.text
    assert shown.startswith("WEBHOOK_NOPE_URL: not set") and "hush" not in shown
    assert shown.endswith(f"set are {', '.join(sorted(env)[:10])}")


DATE, LATER = "Fri, 27 Nov 2026 10:00:00 GMT", "Fri, 27 Nov 2026 10:02:00 GMT"


def test_b19_waits() -> None:
    """B19, ADP-20.5: seconds, or a date by the answer's own clock."""
    for headers in ({"Retry-After": "120"}, {"retry-after": LATER, "DATE": DATE}):
        with pytest.raises(Throttled) as caught:
            read_id(Response(503, b"", headers))
        assert caught.value.retry_after == 120.0


@given(st.integers(0, 599), st.binary(max_size=40), st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_answer(status: int, body: bytes, wait: str) -> None:
    """Only a 2xx is `sent`, whatever else stands there."""
    try:
        read_id(Response(status, body, {"Retry-After": wait, "Date": wait}))
    except DeliveryError:
        assert not 200 <= status < 300
    else:
        assert 200 <= status < 300


def test_the_signature() -> None:
    """As the specification writes it: HMAC-SHA256 of id.timestamp.body, in base64."""
    found = signed_headers(b"secret", "m-1", 1_764_288_000.9, b"{}")
    digest = hmac.new(b"secret", b"m-1.1764288000.{}", hashlib.sha256).digest()
    assert found["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert found["webhook-timestamp"] == "1764288000"


@pytest.mark.parametrize("value", ["whsec_" + "A" * 32, "A" * 32])
def test_a_secret(value: str) -> None:
    """With its prefix or without, as the published libraries take it."""
    assert signing_key(value, "X") == b"\0" * 24


@pytest.mark.parametrize("value", ["", "whsec_", "whsec_AAAA", "whsec_AAA", "hush hush", "名" * 9])
def test_no_secret(value: str) -> None:
    """What is short or no base64 would sign nothing worth checking."""
    with pytest.raises(BadSetting, match="WEBHOOK_X_SECRET"):
        signing_key(value, "WEBHOOK_X_SECRET")
