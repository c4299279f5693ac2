"""The platform `ntfy`: the shapes of its requests, and what they must never be."""

import base64
import json
from email.header import decode_header
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.carrier import Carrier
from wakebus.adapters.base import File, Outgoing, Request, Response
from wakebus.adapters.errors import BadSetting, DeliveryError, Rejected, Throttled, Uncertain
from wakebus.adapters.inspect.credential_check import check_credential
from wakebus.adapters.platforms.ntfy import CODES, Ntfy, header_text, message_size, read_answer

SERVER = "https://ntfy.sh"
SENT = {"id": "sPs71M8A2T28", "time": 1764288000, "event": "message", "topic": "builds"}


def request(text: str, whole: str = "", env: dict[str, str] | None = None) -> Request:
    """Return the request that publishes this text."""
    adapter = Ntfy(env or {})
    outgoing = Outgoing(text, "k", whole=whole)
    return adapter.build_request(adapter.parse_target("builds", None), outgoing)


def body(text: str, whole: str = "") -> dict[str, Any]:
    """Return the body of that request."""
    found: dict[str, Any] = json.loads(request(text, whole).body)
    return found


def test_the_request() -> None:
    """ADP-17.1: JSON to the server's root; the id is the message's."""
    with respx.mock() as router:
        route = router.post(f"{SERVER}/").respond(json=SENT)
        result = Carrier({"NTFY_TOKEN": "tk_1"})("ntfy:builds", 'say "中"')
    sent = route.calls[0].request
    assert (result.result, result.id) == ("sent", "sPs71M8A2T28")
    assert json.loads(sent.content) == {"topic": "builds", "message": 'say "中"'}
    assert sent.headers["authorization"] == "Bearer tk_1"


def test_markdown_only_where_there_is_some() -> None:
    """ADP-17.2: the flag is that of the whole message, for all its parts."""
    assert body("**done**")["markdown"] is True
    assert "markdown" not in body("2 * 3 = 6, snake_case_name")
    assert body("plain", "# report\n\nplain")["markdown"] is True


def test_a_doubt_is_not_resent() -> None:
    """ADP-17.3: there is no key: a lost answer is `uncertain`, and ends there."""
    with respx.mock() as router:
        route = router.post(f"{SERVER}/").mock(side_effect=httpx.ReadTimeout)
        result = Carrier({})("ntfy:builds")
    assert (result.result, result.again, len(route.calls)) == ("uncertain", False, 1)


@pytest.mark.parametrize("unit", ["x", "中", "😀", '"', "\\", "\n", "\t", "**x** ", "<&"])
def test_a_long_text(unit: str) -> None:
    """ADP-17.4: no message has over 4,096 bytes (ntfy would make a file of it), nor JSON 8,192."""
    text = "y" + unit * (6000 // len(unit.encode())) + "y"
    with respx.mock() as router:
        route = router.post(f"{SERVER}/").respond(json=SENT)
        result = Carrier({})("ntfy:builds", text)
    bodies = [call.request.content for call in route.calls]
    assert result.result == "sent" and 1 < len(bodies) == result.parts < 8
    for one in bodies:
        assert len(json.loads(one)["message"].encode()) <= 4096
        assert len(one) <= 8192


def test_credentials() -> None:
    """ADP-17.5: a token, or user:password as Hermes takes it, or nothing."""
    assert request("hi", env={"NTFY_TOKEN": "tk_1\n"}).headers["Authorization"] == "Bearer tk_1"
    basic = request("hi", env={"NTFY_TOKEN": "ada:s3:cret"}).headers["Authorization"]
    assert base64.b64decode(basic.removeprefix("Basic ")) == b"ada:s3:cret"
    assert "Authorization" not in request("hi").headers


def test_the_server() -> None:
    """ADP-17.5: ntfy.sh, or another one over https."""
    assert request("hi").url == f"{SERVER}/"
    mine = request("hi", env={"NTFY_SERVER_URL": "https://push.example/"})
    assert mine.url == "https://push.example/"
    with pytest.raises(BadSetting, match=r"NTFY_SERVER_URL.*TLS"):
        Ntfy({"NTFY_SERVER_URL": "http://192.168.1.5"})


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("report 1.pdf", "report 1.pdf"),
        ("报告.pdf", "=?UTF-8?B?5oql5ZGKLnBkZg==?="),
        ("=?x?=", "=?UTF-8?B?PT94Pz0=?="),
    ],
)
def test_a_file(name: str, header: str) -> None:
    """ADP-17.6: the file is the request's body, and its name a header as RFC 2047 writes it."""
    env = {"NTFY_TOKEN": "tk_1"}
    with respx.mock() as router:
        route = router.put(f"{SERVER}/builds").respond(json=SENT)
        file = File(name, b"\x00data")
        result = Carrier(env)("ntfy:builds", "", "k", file=file)
    sent = route.calls[0].request
    assert result.result == "sent"
    assert (sent.content, sent.headers["filename"]) == (b"\x00data", header)
    assert sent.headers["authorization"] == "Bearer tk_1"


def test_a_file_that_is_too_large() -> None:
    """ADP-17.6: 15 MiB, ntfy's default; more is refused before any request."""
    file = File("a", bytes((15 << 20) + 1))
    result = Carrier({})("ntfy:builds", "", "k", file=file)
    assert result.result == "rejected" and "15" in result.reason


@pytest.mark.parametrize(
    ("status", "answer", "word", "text"),
    [
        (200, {"username": "ada", "role": "user"}, "ok", "ada"),
        (200, {"username": "*", "role": "anonymous"}, "ok", "anybody"),
        (401, {"code": 40101, "http": 401, "error": "unauthorized"}, "failed", "NTFY_TOKEN"),
        (200, {}, "failed", "no answer"),
    ],
)
def test_check(status: int, answer: dict[str, Any], word: str, text: str) -> None:
    """ADP-17.7: the account of this token; a wrong one is said to be wrong."""
    with respx.mock() as router:
        router.get(f"{SERVER}/v1/account").respond(status, json=answer)
        found = check_credential("ntfy", Ntfy({"NTFY_TOKEN": "tk_1"}), Carrier({}).context)
    assert found.result == word and text in found.text


def test_a_quota_is_no_short_wait() -> None:
    """ADP-17.8: a day's quota comes back after an hour, not within this delivery."""
    answer = {"code": 42908, "http": 429, "error": "limit reached: daily message quota reached"}
    with respx.mock() as router:
        route = router.post(f"{SERVER}/").respond(429, json=answer)
        carrier = Carrier({})
        result = carrier("ntfy:builds")
    assert (result.result, result.retry_after, result.again) == ("not_sent", 3600.0, True)
    assert (len(route.calls), carrier.waits) == (1, [])


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_any_name_fits_into_a_header(name: str) -> None:
    """ASCII without line ends, and the name can be read from it again."""
    name = name.encode(errors="replace").decode()
    header = header_text(name)
    assert header.isascii() and header.isprintable()
    ((found, charset),) = decode_header(header)
    text = found.decode(charset or "ascii") if isinstance(found, bytes) else found
    assert text == name or header == name


@given(st.text(max_size=60), st.text(max_size=20))
@settings(max_examples=50, deadline=None)
def test_a_longer_text_measures_more(one: str, two: str) -> None:
    """And never less than its bytes, or half of its JSON."""
    assert message_size(one) <= message_size(one + two)
    assert len(one.encode(errors="surrogatepass")) <= message_size(one)


@pytest.mark.parametrize(
    ("code", "wait"), [(42901, 5.0), (42905, 3600.0), (42908, 3600.0), (42909, 60.0)]
)
def test_throttles(code: int, wait: float) -> None:
    """Each has its own wait, and holds up all topics."""
    body = json.dumps({"code": code, "http": 429, "error": "limit reached"}).encode()
    with pytest.raises(Throttled) as caught:
        read_answer(Response(429, body))
    assert (caught.value.retry_after, caught.value.scope) == (wait, "app")


def test_a_stranger() -> None:
    """What is not ntfy's own answer is judged by what may have become of the message."""
    for status, kind in ((500, Uncertain), (404, Rejected), (403, DeliveryError)):
        with pytest.raises(kind):
            read_answer(Response(status, b'{"error":"x"}'))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in CODES.values() if found.kind == "rejected")
