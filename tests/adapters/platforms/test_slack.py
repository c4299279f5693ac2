"""The platform `slack`: the shapes of its requests, and what they must never be."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.carrier import Carrier
from wakebus.adapters.base import File, Outgoing, Response
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Unavailable,
    Uncertain,
)
from wakebus.adapters.platforms.slack import (
    CODES,
    Slack,
    bot_token,
    read_answer,
    read_direct_chat,
    read_sent_id,
    read_upload,
)

TOKEN = "xoxb-1-2-hush-hush"
HOOK = "https://hooks.slack.com/services/T1/B1/hush-hook"
ENV = {"SLACK_BOT_TOKEN": TOKEN}
API = "https://slack.com/api"
SENT = {"ok": True, "channel": "C0123456789", "ts": "1503435956.000247"}
PLACE = "https://files.slack.com/upload/v1/hush-place"
CHANNEL, PERSON = "slack:C0123456789", "slack:U0123456789"


@pytest.fixture
def slack() -> Iterator[respx.MockRouter]:
    """The Web API: a message that is taken, a direct chat, an upload."""
    with respx.mock(assert_all_called=False) as router:
        router.post(f"{API}/chat.postMessage", name="send").respond(json=SENT)
        opened = {"ok": True, "channel": {"id": "D1"}}
        router.post(f"{API}/conversations.open", name="open").respond(json=opened)
        place = {"ok": True, "upload_url": PLACE, "file_id": "F123ABC456"}
        router.post(f"{API}/files.getUploadURLExternal", name="place").respond(json=place)
        router.post(PLACE, name="put").respond(text="OK - 5")
        shown = {"ok": True, "files": [{"id": "F123ABC456", "title": "a.txt"}]}
        router.post(f"{API}/files.completeUploadExternal", name="show").respond(json=shown)
        router.post(HOOK, name="hook").respond(text="ok")
        yield router


def sent(router: respx.MockRouter, route: str = "send") -> list[dict[str, Any]]:
    """Return the bodies at a route."""
    return [json.loads(call.request.content) for call in router[route].calls]


def test_the_request(slack: respx.MockRouter) -> None:
    """ADP-13.1: the token in the header, the text as mrkdwn, no previews; the id is the ts."""
    result = Carrier(ENV)(CHANNEL, "hi 中")
    request = slack["send"].calls[0].request
    assert (result.result, result.id) == ("sent", "1503435956.000247")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert sent(slack) == [
        {
            "channel": "C0123456789",
            "text": "hi 中",
            "mrkdwn": True,
            "unfurl_links": False,
            "unfurl_media": False,
        }
    ]


@pytest.mark.parametrize(
    ("chat", "kind"),
    [
        *(("C0123456789", "channel"), ("G0123456789", "channel"), ("D0123456789", "dm")),
        *(("U0123456789", "user"), ("W0123456789", "user"), ("webhook", "webhook")),
    ],
)
def test_ids(chat: str, kind: str) -> None:
    """ADP-13.2: the first letter says what an id is."""
    assert Slack(ENV).parse_target(chat, None).kind == kind


def test_no_name() -> None:
    """ADP-13.2: a channel's name is no id, and the error says what is."""
    with pytest.raises(BadTarget, match="C…"):
        Slack(ENV).parse_target("#general", None)


def test_b8_a_person(slack: respx.MockRouter) -> None:
    """B8, ADP-13.3: the direct chat is opened once, and the texts go there."""
    carrier = Carrier(ENV)
    assert [carrier(PERSON, text).result for text in ("one", "two")] == ["sent", "sent"]
    assert sent(slack, "open") == [{"users": "U0123456789"}]
    assert [body["channel"] for body in sent(slack)] == ["D1", "D1"]


def test_b8_a_missing_scope(slack: respx.MockRouter) -> None:
    """B8, ADP-13.3: without im:write it is refused, with the scope by name."""
    answer = {"ok": False, "error": "missing_scope", "needed": "im:write", "provided": "chat:write"}
    slack["open"].respond(json=answer)
    result = Carrier(ENV)(PERSON)
    assert (result.result, len(slack["send"].calls)) == ("rejected", 0)
    assert "im:write" in result.reason


@pytest.mark.parametrize("answer", [{"ok": True}, {"ok": True, "channel": {"id": "../x"}}])
def test_no_chat_in_the_answer(answer: dict[str, Any]) -> None:
    """ADP-13.3: what names no chat is none."""
    adapter = Slack(ENV)
    person = adapter.parse_target("U0123456789", None)
    with pytest.raises(DeliveryError):
        adapter.parse_lookup(person, Response(200, json.dumps(answer).encode()))
    assert adapter.lookup(adapter.parse_target("D0123456789", None)) is None


@pytest.mark.parametrize("ending", ["?thread=1503435956.000247", ":1503435956.000247"])
def test_a_thread(slack: respx.MockRouter, ending: str) -> None:
    """ADP-13.4: by `?thread=`, or as Hermes writes it."""
    result = Carrier(ENV)(CHANNEL + ending)
    assert result.chat == f"{CHANNEL}?thread=1503435956.000247"
    assert sent(slack)[0]["thread_ts"] == "1503435956.000247"


def test_an_answer_opens_a_thread() -> None:
    """ADP-13.4: a text that answers a message stands in its thread."""
    adapter = Slack(ENV)
    target = adapter.parse_target("C0123456789", None)
    request = adapter.build_request(target, Outgoing("hi", "k", "1503435956.000247"))
    assert json.loads(request.body)["thread_ts"] == "1503435956.000247"
    request = adapter.build_request(target, Outgoing("hi", "k", "om_5"))
    assert "thread_ts" not in json.loads(request.body)


@pytest.mark.parametrize("text", ["<!channel> hi", "<@U0123456789>", "<!here|x>", "a <b> & c"])
def test_mentions(slack: respx.MockRouter, text: str) -> None:
    """ADP-13.5: a text from elsewhere calls nobody."""
    Carrier(ENV)(CHANNEL, text)
    shown = sent(slack)[0]["text"]
    assert "<!" not in shown and "<@" not in shown and "&lt;" in shown


@pytest.mark.parametrize("text", ["😀" * 3000, "&" * 4000, "a" * 3999 + "👨‍👩‍👧‍👦" * 9, "x" * 4000])
def test_b23_length(slack: respx.MockRouter, text: str) -> None:
    """B23, ADP-13.5: at most 4000, escapes counted: Slack never cuts by itself."""
    assert Carrier(ENV)(CHANNEL, text).result == "sent"
    texts = [body["text"] for body in sent(slack)]
    assert all(len(part.encode("utf-16-le")) // 2 <= 4000 for part in texts)
    assert "".join(texts).replace("&amp;", "&") == text


@pytest.mark.parametrize("code", ["internal_error", "fatal_error"])
def test_b1_a_doubt(slack: respx.MockRouter, code: str) -> None:
    """B1, ADP-13.6: some of it may have succeeded: said, and not sent again."""
    slack["send"].respond(json={"ok": False, "error": code})
    result = Carrier(ENV)(CHANNEL)
    assert (result.result, len(slack["send"].calls)) == ("uncertain", 1)


def test_b19_a_throttle_in_the_middle(slack: respx.MockRouter) -> None:
    """B19: the hint is a header; all parts come once, in order."""
    ok = httpx.Response(200, json=SENT)
    busy = {"ok": False, "error": "ratelimited"}
    throttled = httpx.Response(429, json=busy, headers={"Retry-After": "1"})
    slack["send"].side_effect = [ok, throttled, ok, ok]
    carrier = Carrier(ENV)
    text = "a" * 3900 + "\n\n" + "b" * 3900 + "\n\n" + "c" * 3900
    result = carrier(CHANNEL, text)
    assert (result.result, result.parts, carrier.waits) == ("sent", 3, [1.0])
    assert [body["text"][0] for body in sent(slack)] == ["a", "b", "b", "c"]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        *(("not_in_channel", "invite"), ("channel_not_found", "invite")),
        *(("is_archived", "unarchive"), ("invalid_auth", "SLACK_BOT_TOKEN")),
        *(("missing_scope", "chat:write"), ("a_code_of_tomorrow", "refused by Slack")),
    ],
)
def test_b20_what_is_refused(slack: respx.MockRouter, code: str, advice: str) -> None:
    """B20, ADP-13.1: an error in a 200 is one: one request, the code and what to do."""
    slack["send"].respond(json={"ok": False, "error": code})
    result = Carrier(ENV)(CHANNEL)
    assert (result.result, len(slack["send"].calls)) == ("rejected", 1)
    assert code in result.reason and advice in result.reason


def test_a_webhook(slack: respx.MockRouter) -> None:
    """ADP-13.7: the text alone, to its URL, without a token; `ok` is the answer, and no id."""
    result = Carrier({"SLACK_WEBHOOK_URL": HOOK})("slack:webhook?thread=1503435956.000247", "a & b")
    request = slack["hook"].calls[0].request
    assert (result.result, result.id) == ("sent", "")
    assert "authorization" not in request.headers
    assert set(sent(slack, "hook")[0]) == {
        *("text", "thread_ts", "mrkdwn", "unfurl_links", "unfurl_media")
    }


def test_a_webhook_that_is_gone(slack: respx.MockRouter) -> None:
    """ADP-13.7: an error in one plain word; the URL is not shown."""
    slack["hook"].respond(404, text="no_service")
    result = Carrier({"SLACK_WEBHOOK_URL": HOOK})("slack:webhook")
    assert result.result == "rejected" and "no_service" in result.reason
    assert "SLACK_WEBHOOK_URL" in result.reason and "hush" not in result.reason


FILE = File("a.txt", b"\x00 data", "text/plain")


def test_a_file(slack: respx.MockRouter) -> None:
    """ADP-13.8: asked for a place, put there, shown in the thread; the credential stays home."""
    carrier = Carrier(ENV)
    result = carrier(f"{CHANNEL}?thread=1503435956.000247", "", "k", file=FILE)
    assert (result.result, result.id) == ("sent", "F123ABC456")
    assert slack["place"].calls[0].request.content == b"filename=a.txt&length=6"
    put = slack["put"].calls[0].request
    assert put.content == FILE.data and "authorization" not in put.headers
    assert sent(slack, "show") == [
        {
            "files": [{"id": "F123ABC456", "title": "a.txt"}],
            "channel_id": "C0123456789",
            "thread_ts": "1503435956.000247",
        }
    ]


@pytest.mark.parametrize(
    "place",
    [
        *(
            "https://files.slack.com.example/x",
            "http://files.slack.com/x",
            "https://evil.example/x",
        ),
        *("https://files.slack.com@evil.example/x", "http://127.0.0.1/x", "file:///x", "", None),
    ],
)
def test_a_place_elsewhere(place: str | None) -> None:
    """ADP-13.8: a file goes to Slack's own hosts only."""
    answer = {"ok": True, "upload_url": place, "file_id": "F1"}
    with pytest.raises(DeliveryError):
        Slack(ENV).parse_upload(FILE, Response(200, json.dumps(answer).encode()))


def test_a_file_that_is_not_stored(slack: respx.MockRouter) -> None:
    """ADP-13.8: what did not arrive is not shown, and nothing was sent."""
    slack["put"].respond(500)
    carrier = Carrier(ENV)
    result = carrier(CHANNEL, "", "k", file=FILE)
    assert (result.result, len(slack["show"].calls)) == ("not_sent", 0)


def test_no_file_for_a_webhook() -> None:
    """ADP-13.8: a webhook takes none, and says so before anything goes out."""
    adapter = Slack({"SLACK_WEBHOOK_URL": HOOK})
    target, outgoing = adapter.parse_target("webhook", None), Outgoing("", "k", file=FILE)
    assert adapter.upload(target, outgoing) is None
    with pytest.raises(Rejected, match="takes no files"):
        adapter.build_request(target, outgoing)


@pytest.mark.parametrize(
    ("token", "said"),
    [("xapp-1-hush", "app-level"), ("hush", "xoxb"), ("xoxb-hush hush", "xoxb"), ("xoxb-", "xoxb")],
)
def test_settings(token: str, said: str) -> None:
    """ADP-13.9: another kind of token is named by its variable, with what is right."""
    with pytest.raises(BadSetting, match="SLACK_BOT_TOKEN") as caught:
        Slack({"SLACK_BOT_TOKEN": token})
    assert said in caught.value.text and "hush" not in caught.value.text


def test_several_workspaces(slack: respx.MockRouter) -> None:
    """ADP-13.9: of several tokens, as Hermes takes them, the first is used."""
    assert Carrier({"SLACK_BOT_TOKEN": f"{TOKEN}, xoxb-other"})(CHANNEL).result == "sent"
    assert slack["send"].calls[0].request.headers["authorization"] == f"Bearer {TOKEN}"


def test_what_is_not_set_up() -> None:
    """ADP-13.9: what a chat needs is named when the chat is used."""
    app, hook = Slack(ENV), Slack({"SLACK_WEBHOOK_URL": HOOK})
    for adapter, chat, name in (
        (app, "webhook", "WEBHOOK_URL"),
        (hook, "C0123456789", "BOT_TOKEN"),
    ):
        with pytest.raises(BadSetting, match=f"SLACK_{name}"):
            adapter.build_request(adapter.parse_target(chat, None), Outgoing("hi", "k"))
    with pytest.raises(BadSetting, match="SLACK_BOT_TOKEN"):
        hook.lookup(hook.parse_target("U0123456789", None))


def test_the_check() -> None:
    """ADP-13.10: auth.test; with a webhook only there is nothing to ask."""
    adapter = Slack(ENV)
    request = adapter.check_request("")
    assert request is not None and request.url == f"{API}/auth.test"
    body = {"ok": True, "url": "https://x.slack.com/", "team": "Ops", "user": "bus"}
    assert adapter.parse_check(Response(200, json.dumps(body).encode())) == "bus in Ops"
    assert Slack({"SLACK_WEBHOOK_URL": HOOK}).check_request("") is None


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
        assert read_sent_id(Response(status, body), hook=True) == ""
        return
    with pytest.raises(DeliveryError):
        read_sent_id(Response(status, body), hook=True)


@pytest.mark.parametrize("body", [b"ok", b"no_service"])
def test_a_word_is_no_answer_of_the_web_api(body: bytes) -> None:
    """ADP-13.7: where there is no webhook, and to any other question, a plain word says nothing."""
    response = Response(200, body)
    asked: list[Callable[[], object]] = [
        lambda: read_direct_chat(response),
        lambda: Slack(ENV).parse_check(response),
        lambda: Slack({"SLACK_BOT_TOKEN": "xoxb-1"}).parse_response(response),
        lambda: read_upload(File("a", b"x"), response, "https://slack.com/api"),
    ]
    for ask in asked:
        with pytest.raises(Uncertain):
            ask()


@pytest.mark.parametrize("body", [{"ok": True}, {"ok": True, "user": "bus", "team": 7}])
def test_who_is_nobody(body: dict[str, Any]) -> None:
    """ADP-13.10: an answer without our name and workspace is none."""
    with pytest.raises(Uncertain):
        Slack(ENV).parse_check(Response(200, json.dumps(body).encode()))


@pytest.mark.parametrize("id", ["C0123456789", "G0123456789", "U0123456789", "D1?x=1", "", 5])
def test_another_chat_is_not_the_person(id: object) -> None:
    """ADP-13.3: what conversations.open opens is a direct chat; a wrong answer chooses no other."""
    with pytest.raises(Uncertain):
        read_direct_chat(Response(200, json.dumps({"ok": True, "channel": {"id": id}}).encode()))


def test_a_proxys_word() -> None:
    """ADP-13.7: a plain word without a _ is not Slack's: the text is kept for later."""
    with pytest.raises(Unavailable):
        read_sent_id(Response(403, b"forbidden"), hook=True)
    with pytest.raises(Rejected):
        read_sent_id(Response(403, b"action_prohibited"), hook=True)


@pytest.mark.parametrize("code", ["service_unavailable", "request_timeout", "team_added_to_org"])
def test_what_took_nothing_in(code: str) -> None:
    """ADP-13.6: what Slack says it did not take comes again."""
    with pytest.raises(Unavailable):
        read_answer(Response(200, json.dumps({"ok": False, "error": code}).encode()))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in CODES.values() if found.kind == "rejected")


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
        assert bot_token(token) == token
        return
    with pytest.raises(DeliveryError):
        bot_token(token)
