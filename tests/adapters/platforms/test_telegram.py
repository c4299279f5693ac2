"""The platform `telegram`: the shapes of its requests, and what they must never be."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.carrier import Carrier
from fakes.markdown import texts
from wakebus.adapters.base import File, Outgoing, Response
from wakebus.adapters.delivery.split import split
from wakebus.adapters.errors import BadSetting, BadTarget, DeliveryError, Moved, WayClosed
from wakebus.adapters.kit.requests import utf16_length
from wakebus.adapters.markdown import telegram_as_written, telegram_plain
from wakebus.adapters.platforms.telegram import (
    CODES,
    DESCRIPTIONS,
    Telegram,
    destination_fields,
    read_result,
)
from wakebus.adapters.settings.redact import redacted_request

TOKEN = "123456:AAH-hush-hush_hush-hush-hush-hush1"
ENV = {"TELEGRAM_BOT_TOKEN": TOKEN}
API = f"https://api.telegram.org/bot{TOKEN}"
SENT = {"ok": True, "result": {"message_id": 7}}
MARKED = "**bold** & `code`"


@pytest.fixture
def telegram() -> Iterator[respx.MockRouter]:
    """The Bot API: a message that is taken."""
    with respx.mock(assert_all_called=False) as router:
        router.post(f"{API}/sendMessage", name="send").respond(json=SENT)
        router.post(f"{API}/sendDocument", name="file").respond(json=SENT)
        yield router


def bodies(router: respx.MockRouter) -> list[dict[str, Any]]:
    """Return the bodies of all messages."""
    return [json.loads(call.request.content) for call in router["send"].calls]


def error(code: int, text: str, **parameters: int) -> httpx.Response:
    """Return an error as Telegram writes it."""
    more = {"parameters": parameters} if parameters else {}
    body = {"ok": False, "error_code": code, "description": text, **more}
    return httpx.Response(code, json=body)


def test_the_request(telegram: respx.MockRouter) -> None:
    """ADP-12.1: chat, text, no preview; the id is Telegram's."""
    result = Carrier(ENV)("telegram:987", 'say "中"')
    assert (result.result, result.id) == ("sent", "7")
    assert bodies(telegram) == [
        {"chat_id": 987, "link_preview_options": {"is_disabled": True}, "text": 'say "中"'}
    ]


@pytest.mark.parametrize(
    ("chat", "kind", "sent"),
    [
        ("987654321", "user", 987654321),
        ("-4123", "group", -4123),
        ("-1001234567890", "group", -1001234567890),
        ("@wakebus_news", "name", "@wakebus_news"),
    ],
)
def test_ids(chat: str, kind: str, sent: int | str) -> None:
    """ADP-12.2: numbers go out as numbers, names with their @."""
    adapter = Telegram(ENV)
    target = adapter.parse_target(chat, None)
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k")).body)
    assert (target.kind, body["chat_id"]) == (kind, sent)


@pytest.mark.parametrize("channel", ["-100123?thread=42", "-100123:42"])
def test_a_topic(telegram: respx.MockRouter, channel: str) -> None:
    """ADP-12.3: `?thread=`, and Hermes's chat:topic, are the same topic."""
    result = Carrier(ENV)(f"telegram:{channel}")
    assert result.chat == "telegram:-100123?thread=42"
    assert bodies(telegram)[0]["message_thread_id"] == 42


def test_the_general_topic(telegram: respx.MockRouter) -> None:
    """ADP-12.3: topic 1 arrives as 1 and is refused as 1; it is left out."""
    assert Carrier(ENV)("telegram:-100123?thread=1").result == "sent"
    assert "message_thread_id" not in bodies(telegram)[0]


def test_two_threads() -> None:
    """ADP-12.3: two threads are one too many."""
    with pytest.raises(BadTarget, match="two threads"):
        Telegram(ENV).parse_target("-100123:42", "43")


def test_a_topic_that_is_gone(telegram: respx.MockRouter) -> None:
    """ADP-12.3: the text is refused, and does not go to the whole group instead."""
    telegram["send"].side_effect = [error(400, "Bad Request: message thread not found")]
    result = Carrier(ENV)("telegram:-100123?thread=42")
    assert (result.result, len(bodies(telegram))) == ("rejected", 1)
    assert "topic is gone" in result.reason


def test_an_answer(telegram: respx.MockRouter) -> None:
    """ADP-12.1: what is answered may be gone; what is no message's id is left out."""
    adapter = Telegram(ENV)
    target = adapter.parse_target("987", None)
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k", "55")).body)
    assert body["reply_parameters"] == {"message_id": 55, "allow_sending_without_reply": True}
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k", "om_5")).body)
    assert "reply_parameters" not in body


def test_markup(telegram: respx.MockRouter) -> None:
    """ADP-12.4: a text with marks goes as HTML."""
    assert Carrier(ENV)("telegram:987", MARKED).result == "sent"
    body = bodies(telegram)[0]
    assert body["parse_mode"] == "HTML" and "&amp;" in body["text"]


def test_markup_that_is_not_read(telegram: respx.MockRouter) -> None:
    """ADP-12.4: the same text as plain text, at once and once."""
    refused = error(400, 'Bad Request: can\'t parse entities: Unsupported start tag "24h."')
    telegram["send"].side_effect = [refused, httpx.Response(200, json=SENT)]
    carrier = Carrier(ENV)
    assert carrier("telegram:987", MARKED).result == "sent"
    html, plain = bodies(telegram)
    assert html["parse_mode"] == "HTML" and "parse_mode" not in plain
    assert "bold" in plain["text"] and "&amp;" not in plain["text"]
    assert not carrier.waits


def test_marks_without_words(telegram: respx.MockRouter) -> None:
    """ADP-12.4: what has no words as HTML is shown with its marks, and not refused."""
    assert Carrier(ENV)("telegram:987", "```py\n```").result == "sent"
    assert "```py" in bodies(telegram)[0]["text"]


def test_other_errors_do_not_change_the_markup(telegram: respx.MockRouter) -> None:
    """ADP-12.4: after a throttle the same way goes on, with its markup."""
    telegram["send"].side_effect = [
        error(429, "Too Many Requests: retry after 1", retry_after=1),
        httpx.Response(200, json=SENT),
    ]
    carrier = Carrier(ENV)
    assert carrier("telegram:987", MARKED).result == "sent"
    assert [body["parse_mode"] for body in bodies(telegram)] == ["HTML", "HTML"]
    assert carrier.waits == [1.0]


@pytest.mark.parametrize(
    "text", ["😀" * 5000, "a" * 4095 + "👨‍👩‍👧‍👦" * 40, "<&>" * 1500, "x" * 4096]
)
def test_b23_length(telegram: respx.MockRouter, text: str) -> None:
    """B23, ADP-12.5: 4096 UTF-16 units are never passed, and no emoji is cut."""
    assert Carrier(ENV)("telegram:987", text).result == "sent"
    texts = [body["text"] for body in bodies(telegram)]
    assert all(len(part.encode("utf-16-le")) // 2 <= 4096 for part in texts)
    assert "".join(texts) == text and "\ufffd" not in "".join(texts)
    assert not any(part.startswith("\u200d") for part in texts)


def test_length_with_markup() -> None:
    """ADP-12.5: the tags and escapes of the markup are counted."""
    adapter = Telegram(ENV)
    assert adapter.measure("x" * 10) == 10
    assert adapter.measure("**x** " + "&" * 100) >= 500
    assert adapter.measure("😀") == 2


def texts_of(text: str) -> list[str]:
    """Return what a text is on each of its ways."""
    adapter = Telegram(ENV)
    target = adapter.parse_target("987", None)
    made = [
        adapter.build_request(target, Outgoing(text, "k", way=way)) for way in ("html", "plain")
    ]
    return [json.loads(request.body)["text"] for request in made]


@given(texts(), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_both_ways_fit(text: str, times: int) -> None:
    """ADP-12.5: a part that fits as HTML fits as plain text, whatever its quotes and names add."""
    adapter = Telegram(ENV)
    for part in split((text + "\n") * times, adapter.measure, 4096)[:3]:
        assert all(utf16_length(shown) <= 4096 for shown in texts_of(part))


@pytest.mark.parametrize("text", ["`" + "@a " * 1300 + "`", "> " + "waq\n" * 1000])
def test_a_plain_text_that_would_be_too_long(text: str) -> None:
    """ADP-12.5: names in code and lines of a quote take more as plain text: as written it fits."""
    assert Telegram(ENV).measure(text) <= 4096 < utf16_length(telegram_plain(text))
    html, plain = texts_of(text)
    assert utf16_length(html) <= 4096 and plain == text.replace("@", "＠")


def test_as_written_names_nobody() -> None:
    """ADP-11.3: also where a text keeps its marks, and in an address; an email stays one."""
    shown = telegram_as_written("**@all** a@b.c https://x.y/@z")
    assert shown == "**＠all** a@b.c https://x.y/＠z"


def test_a_group_that_moved(telegram: respx.MockRouter) -> None:
    """ADP-12.6: what a group became is followed, once, and said."""
    moved = error(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-100777)
    telegram["send"].side_effect = [moved, httpx.Response(200, json=SENT)]
    result = Carrier(ENV)("telegram:-4123")
    assert (result.result, [body["chat_id"] for body in bodies(telegram)]) == (
        "sent",
        [-4123, -100777],
    )
    assert "-100777" in result.reason


def test_a_person_does_not_become_a_group(telegram: respx.MockRouter) -> None:
    """ADP-5.21, ADP-12.6: a wrong answer must not choose another chat."""
    telegram["send"].mock(return_value=error(400, "Bad Request: ?", migrate_to_chat_id=-100777))
    result = Carrier(ENV)("telegram:987")
    assert (result.result, len(bodies(telegram))) == ("rejected", 1)
    assert "another kind" in result.reason


def test_moved_says_where() -> None:
    """ADP-12.6: the new id is in the error."""
    body = {
        "ok": False,
        "error_code": 400,
        "description": "Bad Request: group chat was upgraded to a supergroup chat",
        "parameters": {"migrate_to_chat_id": -1001},
    }
    with pytest.raises(Moved) as caught:
        Telegram(ENV).parse_response(Response(400, json.dumps(body).encode()))
    assert caught.value.chat_id == "-1001"


@pytest.mark.parametrize("failure", [httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError])
def test_b1_an_answer_that_is_lost(
    telegram: respx.MockRouter, failure: type[httpx.TransportError]
) -> None:
    """B1, ADP-12.7: what may have been accepted goes out once, and is said to be uncertain."""

    def lose(request: httpx.Request) -> httpx.Response:
        trace = request.extensions["trace"]
        trace("http11.send_request_headers.started", {"request": request})
        raise failure("lost", request=request)

    telegram["send"].side_effect = lose
    result = Carrier(ENV)("telegram:987")
    assert (result.result, len(bodies(telegram)), result.again) == ("uncertain", 1, False)


def test_b1_bad_gateway(telegram: respx.MockRouter) -> None:
    """B1, ADP-12.7: a 502 may have delivered; it is no reason to send again."""
    telegram["send"].side_effect = [error(502, "Bad Gateway")]
    result = Carrier(ENV)("telegram:987")
    assert (result.result, len(bodies(telegram))) == ("uncertain", 1)


def test_b2_no_connection(telegram: respx.MockRouter) -> None:
    """B2: what never left is tried again."""
    telegram["send"].side_effect = [httpx.ConnectTimeout("no"), httpx.Response(200, json=SENT)]
    result = Carrier(ENV)("telegram:987")
    assert (result.result, result.id, len(bodies(telegram))) == ("sent", "7", 2)


def test_b19_a_throttle_in_the_middle(telegram: respx.MockRouter) -> None:
    """B19: the second of three parts waits as long as Telegram says; all come once, in order."""
    ok = httpx.Response(200, json=SENT)
    throttled = error(429, "Too Many Requests: retry after 1", retry_after=1)
    telegram["send"].side_effect = [ok, throttled, ok, ok]
    carrier = Carrier(ENV)
    text = "a" * 4000 + "\n\n" + "b" * 4000 + "\n\n" + "c" * 4000
    result = carrier("telegram:987", text)
    assert (result.result, result.parts, carrier.waits) == ("sent", 3, [1.0])
    assert [body["text"][0] for body in bodies(telegram)] == ["a", "b", "b", "c"]


@pytest.mark.parametrize(
    ("code", "text", "advice"),
    [
        (401, "Unauthorized", "TELEGRAM_BOT_TOKEN"),
        (404, "Not Found", "TELEGRAM_BOT_TOKEN"),
        (400, "Bad Request: chat not found", "is the id right"),
        (400, "Bad Request: TOPIC_CLOSED", "reopen"),
        (400, "Bad Request: not enough rights to send text messages to the chat", "right to write"),
        (403, "Forbidden: bot was blocked by the user", "blocked"),
    ],
)
def test_what_is_refused(telegram: respx.MockRouter, code: int, text: str, advice: str) -> None:
    """B20, ADP-12.8: one request, Telegram's words and what to do."""
    telegram["send"].side_effect = [error(code, text)]
    result = Carrier(ENV)("telegram:987")
    assert (result.result, len(bodies(telegram))) == ("rejected", 1)
    assert text in result.reason and advice in result.reason


def test_the_token_is_nowhere(telegram: respx.MockRouter) -> None:
    """ADP-12.8: it stands in the path; in no repr, reason or dry run."""
    adapter = Telegram(ENV)
    request = adapter.build_request(adapter.parse_target("987", None), Outgoing("hi", "k"))
    shown = [repr(adapter), repr(request), json.dumps(redacted_request(request))]
    telegram["send"].side_effect = httpx.ConnectError(f"cannot reach {API}")
    shown.append(Carrier(ENV)("telegram:987").reason)
    telegram["send"].side_effect = [error(404, f"Not Found: /bot{TOKEN}/sendMessage")]
    shown.append(Carrier(ENV)("telegram:987").reason)
    with pytest.raises(BadSetting) as caught:
        Telegram({"TELEGRAM_BOT_TOKEN": "hush-hush without a number"})
    assert not [text for text in [*shown, caught.value.text] if "hush" in text]


@pytest.mark.parametrize(
    "token", ["", "   ", "123456", "bot123:abc", "123:a/../b", "1:a b", "xoxb-1"]
)
def test_settings(token: str) -> None:
    """ADP-12.8: a token that is none is named by its variable."""
    with pytest.raises(BadSetting, match="TELEGRAM_BOT_TOKEN"):
        Telegram({"TELEGRAM_BOT_TOKEN": token})


def test_another_host() -> None:
    """ADP-12.8: TELEGRAM_API_BASE, a server of one's own."""
    adapter = Telegram({**ENV, "TELEGRAM_API_BASE": "https://bots.example/api/"})
    request = adapter.build_request(adapter.parse_target("987", None), Outgoing("hi", "k"))
    assert request.url == f"https://bots.example/api/bot{TOKEN}/sendMessage"


def test_a_file(telegram: respx.MockRouter) -> None:
    """ADP-12.9: a document without a caption, in the topic, after the text."""
    carrier = Carrier(ENV)
    file = File('出 "x".txt', b"\x00data\r\n--", "text/plain")
    result = carrier("telegram:-100123:42", "look", "k", file=file)
    assert (result.result, result.parts) == ("sent", 2)
    request = telegram["file"].calls[0].request
    assert request.headers["content-type"].startswith("multipart/form-data; boundary=")
    for piece in (b'name="chat_id"\r\n\r\n-100123', b'name="message_thread_id"\r\n\r\n42'):
        assert piece in request.content
    assert 'name="document"; filename="出 %22x%22.txt"'.encode() in request.content
    assert b"\x00data\r\n--" in request.content and b"caption" not in request.content


def test_the_check() -> None:
    """ADP-12.10: getMe says who the bot is, and sends nothing."""
    adapter = Telegram(ENV)
    request = adapter.check_request("")
    assert request is not None and (request.method, request.url) == ("GET", f"{API}/getMe")
    body = {"ok": True, "result": {"id": 1, "is_bot": True, "username": "busbot"}}
    assert adapter.parse_check(Response(200, json.dumps(body).encode())) == "@busbot"


def test_a_check_that_names_nobody() -> None:
    """ADP-12.10: an answer without a name is no answer."""
    with pytest.raises(DeliveryError):
        Telegram(ENV).parse_check(Response(200, b'{"ok": true, "result": {}}'))


def test_closed_only_for_markup() -> None:
    """ADP-12.4: no other words close a way."""
    for text in ("can't parse entities: x", "Bad Request: can't parse entities in text"):
        body = {"ok": False, "error_code": 400, "description": text}
        with pytest.raises(WayClosed):
            Telegram(ENV).parse_response(Response(400, json.dumps(body).encode()))


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
        read_result(Response(code, json.dumps(body).encode()))
    assert caught.value.code in ("channel_not_sent", "channel_uncertain")


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (DESCRIPTIONS, CODES):
        assert all(found.advice for found in table.values() if found.kind == "rejected")
    assert all(words == words.lower() for words in DESCRIPTIONS)


def test_destination_fields() -> None:
    """ADP-12.2: names stay text, numbers become numbers."""
    target = Telegram({"TELEGRAM_BOT_TOKEN": "1:a"}).parse_target("@wakebus:7", None)
    assert destination_fields(target, Outgoing("x", "k")) == {
        "chat_id": "@wakebus",
        "message_thread_id": 7,
    }
