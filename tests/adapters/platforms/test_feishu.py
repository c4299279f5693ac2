"""The platform `feishu`: the shapes of its requests, and what they must never be."""

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
from wakebus.adapters import markdown
from wakebus.adapters.base import File, Outgoing, Response
from wakebus.adapters.errors import BadSetting, BadTarget, DeliveryError, Rejected, Throttled
from wakebus.adapters.kit import requests
from wakebus.adapters.platforms.feishu import (
    CODES,
    LIMITS,
    Feishu,
    message_fields,
    read_answer,
    without_mentions,
)

ENV = {"FEISHU_APP_ID": "cli_1", "FEISHU_APP_SECRET": "hush-hush"}
HOOK = "https://open.feishu.cn/open-apis/bot/v2/hook/hush-hook"
API = "https://open.feishu.cn/open-apis"
TOKEN = f"{API}/auth/v3/tenant_access_token/internal"
SENT = {"code": 0, "msg": "success", "data": {"message_id": "om_9"}}


@pytest.fixture
def feishu() -> Iterator[respx.MockRouter]:
    """Feishu's two endpoints: a token, and a message that is taken."""
    with respx.mock(assert_all_called=False) as router:
        token = {"code": 0, "msg": "ok", "tenant_access_token": "t-1", "expire": 7200}
        router.post(TOKEN, name="token").respond(json=token)
        router.post(url__startswith=f"{API}/im/v1/messages", name="send").respond(json=SENT)
        yield router


def sent(router: respx.MockRouter, place: int = -1) -> tuple[httpx.Request, dict[str, Any]]:
    """Return a request for a message and its body."""
    request = router["send"].calls[place].request
    return request, json.loads(request.content)


def test_the_request(feishu: respx.MockRouter) -> None:
    """ADP-9.1: URL, query, headers, JSON in JSON, and the key as uuid."""
    result = Carrier(ENV)("feishu:oc_1", 'say "中"', key="0199-a")
    request, body = sent(feishu)
    assert (result.result, result.id) == ("sent", "om_9")
    assert str(request.url) == f"{API}/im/v1/messages?receive_id_type=chat_id"
    assert request.headers["authorization"] == "Bearer t-1"
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert set(body) == {"receive_id", "msg_type", "content", "uuid"}
    assert (body["receive_id"], body["msg_type"], body["uuid"]) == ("oc_1", "text", "0199-a")
    assert json.loads(body["content"]) == {"text": 'say "中"'}


def test_the_token_request(feishu: respx.MockRouter) -> None:
    """ADP-9.5: the app's id and secret, to the same host."""
    Carrier(ENV)("feishu:oc_1")
    request = feishu["token"].calls[0].request
    assert json.loads(request.content) == {"app_id": "cli_1", "app_secret": "hush-hush"}
    assert "authorization" not in request.headers


def test_lark() -> None:
    """ADP-9.8: FEISHU_DOMAIN=lark is another host, for the token too."""
    adapter = Feishu({**ENV, "FEISHU_DOMAIN": "Lark"})
    token = adapter.token_request("text")
    message = adapter.build_request(adapter.parse_target("oc_1", None), Outgoing("hi", "k"))
    assert token is not None
    for url in (token.url, message.url):
        assert url.startswith("https://open.larksuite.com/open-apis/")


@pytest.mark.parametrize(
    ("chat", "kind", "receive_id"),
    [
        ("oc_1", "chat_id", "oc_1"),
        ("ou_1", "open_id", "ou_1"),
        ("on_1", "union_id", "on_1"),
        ("a@b.c", "email", "a@b.c"),
        ("user_id:x", "user_id", "x"),
        ("feishu_user_id:x", "user_id", "x"),
    ],
)
def test_b7_id_kinds(feishu: respx.MockRouter, chat: str, kind: str, receive_id: str) -> None:
    """B7, ADP-9.2: receive_id_type follows the id, which goes out without its prefix."""
    assert Carrier(ENV)(f"feishu:{chat}").result == "sent"
    request, body = sent(feishu)
    assert request.url.params["receive_id_type"] == kind
    assert body["receive_id"] == receive_id


def test_a_thread_is_a_reply(feishu: respx.MockRouter) -> None:
    """ADP-9.3: a thread is named by the message that opened it, and answered inside."""
    assert Carrier(ENV)("feishu:oc_1?thread=om_7", key="k").result == "sent"
    request, body = sent(feishu)
    assert str(request.url) == f"{API}/im/v1/messages/om_7/reply"
    assert set(body) == {"msg_type", "content", "uuid", "reply_in_thread"}
    assert body["reply_in_thread"] is True


def test_an_answer() -> None:
    """ADP-3.10, ADP-9.3: to a message, in the open; in a thread it stays there."""
    adapter = Feishu(ENV)
    for thread, url in ((None, "om_5"), ("om_7", "om_7")):
        target = adapter.parse_target("oc_1", thread)
        request = adapter.build_request(target, Outgoing("hi", "k", "om_5"))
        assert request.url.endswith(f"/im/v1/messages/{url}/reply")
        assert ("reply_in_thread" in json.loads(request.body)) == (thread is not None)


def test_a_topic_is_no_thread() -> None:
    """ADP-9.3: `omt_…` has no documented way to it; it is refused, not answered in the open."""
    with pytest.raises(BadTarget, match="om_"):
        Feishu(ENV).parse_target("oc_1", "omt_7")


def test_b3_uuid() -> None:
    """B3, ADP-9.4: the key, or from 51 characters on a hash of it that never changes."""
    adapter = Feishu(ENV)
    target = adapter.parse_target("oc_1", None)

    def uuid(key: str) -> str:
        return str(json.loads(adapter.build_request(target, Outgoing("hi", key)).body)["uuid"])

    assert uuid("k" * 50) == "k" * 50
    assert uuid("k" * 64) == uuid("k" * 64) != uuid("k" * 63)
    assert len(uuid("k" * 64)) == 50
    assert uuid(f"{'k' * 64}.1") != uuid(f"{'k' * 64}.2")


def test_a_key_by_way() -> None:
    """ADP-9.4: an hour for the app's messages, never for a custom bot."""
    adapter = Feishu({**ENV, "FEISHU_WEBHOOK_URL": HOOK})
    chat, bot = (adapter.parse_target(chat, None) for chat in ("oc_1", "webhook"))
    assert adapter.key_time(chat, "text") == adapter.capabilities.idempotent_s == 3600
    assert adapter.key_time(bot, "webhook") == 0


def test_markdown_is_a_post(feishu: respx.MockRouter) -> None:
    """ADP-9.7: Markdown goes as a post, and so do all its parts; anything else as text."""
    text = "# report\n\n" + "\n\n".join(f"plain {n} " + "x" * 9000 for n in range(3))
    assert Carrier(ENV)("feishu:oc_1", text).parts > 1
    bodies = [sent(feishu, place)[1] for place in range(len(feishu["send"].calls))]
    assert {body["msg_type"] for body in bodies} == {"post"}
    assert json.loads(bodies[0]["content"])["zh_cn"]["content"][0][0]["tag"] == "md"
    for text, kind in (("2*3*4 = 24, snake_case_name", "text"), ("*x*", "post"), ("1) a", "post")):
        Carrier(ENV)("feishu:oc_1", text)
        assert sent(feishu)[1]["msg_type"] == kind


@pytest.mark.parametrize("text", ['<at user_id="all">x</at>', "**b** <AT id=all></at>", "< at>"])
@pytest.mark.parametrize("chat", ["oc_1", "webhook"])
def test_mentions(chat: str, text: str) -> None:
    """ADP-9.7: a text from elsewhere calls nobody."""
    adapter = Feishu({**ENV, "FEISHU_WEBHOOK_URL": HOOK})
    request = adapter.build_request(adapter.parse_target(chat, None), Outgoing(text, "k"))
    assert b"<at" not in request.body.lower() and b"</at" not in request.body
    assert b"< at" not in request.body and "＜" in request.body.decode()


def test_custom_bot() -> None:
    """ADP-9.6: text, signed with seconds where the bot has a secret; no token."""
    adapter = Feishu({"FEISHU_WEBHOOK_URL": HOOK, "FEISHU_WEBHOOK_SECRET": "hush"})
    target = adapter.parse_target("webhook", None)
    request = adapter.build_request(target, Outgoing("# hi", "k", way="webhook", at=1599360473.9))
    assert request.url == HOOK and adapter.token_request("webhook") is None
    assert json.loads(request.body) == {
        "timestamp": "1599360473",
        "sign": "Hc5dM02+ptmh0EjeNEkR6VFXhMrl0OC0GhbSOWeacu0=",
        "msg_type": "text",
        "content": {"text": "# hi"},
    }


@pytest.mark.parametrize(
    "body", [{"code": 19001}, {"code": 11232}, {}, {"StatusCode": 1}, "<html>"]
)
def test_b11_custom_bot_errors(body: Any) -> None:
    """B11: 200 with an error, a page or nothing of Feishu's is never `sent`."""
    text = body if isinstance(body, str) else json.dumps(body)
    with respx.mock() as router:
        router.post(HOOK).respond(200, text=text)
        assert Carrier({"FEISHU_WEBHOOK_URL": HOOK})("feishu:webhook").result != "sent"


@pytest.mark.parametrize("status", [400, 200])
def test_b15_refresh(feishu: respx.MockRouter, status: int) -> None:
    """B15: 99991663, in 400 and in 200: another token, once, and the same uuid."""
    refused = httpx.Response(status, json={"code": 99991663, "msg": "Invalid access token"})
    feishu["send"].side_effect = [refused, httpx.Response(200, json=SENT)]
    feishu["token"].side_effect = [
        httpx.Response(200, json={"code": 0, "tenant_access_token": f"t-{n}", "expire": 7200})
        for n in (1, 2)
    ]
    assert Carrier(ENV)("feishu:oc_1").result == "sent"
    (first, one), (second, two) = sent(feishu, 0), sent(feishu, 1)
    assert [r.headers["authorization"] for r in (first, second)] == ["Bearer t-1", "Bearer t-2"]
    assert one["uuid"] == two["uuid"]


def test_b15_expire() -> None:
    """B15: a token's time is what Feishu says, not a constant."""
    body = b'{"code":0,"tenant_access_token":"t-1","expire":1800}'
    assert Feishu(ENV).parse_token(Response(200, body)).expires_s == 1800


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"FEISHU_APP_ID": "cli_1"}, "FEISHU_APP_SECRET"),
        ({"FEISHU_APP_SECRET": "hush-hush"}, "FEISHU_APP_ID"),
        ({"FEISHU_DOMAIN": "hush-hush"}, "FEISHU_DOMAIN"),
        ({"FEISHU_API_BASE": "http://hush-hush.example"}, "FEISHU_API_BASE"),
        ({"FEISHU_WEBHOOK_URL": "ftp://hush-hush.example/x"}, "FEISHU_WEBHOOK_URL"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-9.8: half of a pair, or no safe URL: the variable is named, never its value."""
    with pytest.raises(BadSetting, match=named) as caught:
        Feishu(env)
    assert "hush-hush" not in caught.value.text


def test_a_way_that_is_not_set_up() -> None:
    """ADP-9.8: what a chat needs is named when the chat is used."""
    app, bot = Feishu(ENV), Feishu({"FEISHU_WEBHOOK_URL": HOOK})
    with pytest.raises(Rejected, match="FEISHU_WEBHOOK_URL"):
        app.ways(app.parse_target("webhook", None), Outgoing("hi", "k"))
    with pytest.raises(Rejected, match="FEISHU_APP_ID"):
        bot.ways(bot.parse_target("oc_1", None), Outgoing("hi", "k"))
    with pytest.raises(BadTarget):
        app.parse_target("webhook", "om_1")


@pytest.mark.parametrize("text", ["x" * 20_000, '"\\\n\t' * 4000, "<at>" * 4000, "中😀" * 3000])
@pytest.mark.parametrize("chat", ["oc_1", "webhook", f"{'a' * 64}@{'b' * 190}"])
def test_measure(chat: str, text: str) -> None:
    """ADP-9.9: what is measured is never less than the body, escapes and envelope included."""
    adapter = Feishu({**ENV, "FEISHU_WEBHOOK_URL": HOOK, "FEISHU_WEBHOOK_SECRET": "s"})
    target = adapter.parse_target(chat, None)
    for marks in ("", "# "):
        outgoing = Outgoing(marks + text, "k" * 70, at=1_764_288_000.0)
        body = adapter.build_request(target, outgoing).body
        assert len(body) <= adapter.measure(marks + text) <= 2 * len(body) + 800


def test_no_secret_in_a_reason() -> None:
    """ADP-9.8: what Feishu quotes of a token is not passed on."""
    body = {"code": 99991668, "msg": "Invalid token t-g1044ghJRUIJJ5ELPEFY6ZUEYNNZQMFZ2XW"}
    with pytest.raises(Exception, match=r"99991668: Invalid token \*\*\*") as caught:
        Feishu(ENV).parse_response(Response(400, json.dumps(body).encode()))
    assert "ELPEFY" not in str(caught.value)


LOG = File('构建 "7".log', b"\x00bytes\r\n--", "text/plain")


def test_a_file(feishu: respx.MockRouter) -> None:
    """ADP-9.10: brought to Feishu once with the token, then shown by its key, under our uuid."""
    key = {"code": 0, "msg": "success", "data": {"file_key": "file_v2_1"}}
    upload = feishu.post(f"{API}/im/v1/files").respond(json=key)
    result = Carrier(ENV)("feishu:oc_1?thread=om_7", "", key="k7", file=LOG)
    assert (result.result, result.id, upload.call_count) == ("sent", "om_9", 1)
    form = upload.calls[0].request
    assert form.headers["authorization"] == "Bearer t-1"
    assert LOG.data in form.content and b'name="file_type"\r\n\r\nstream' in form.content
    assert "构建".encode() in form.content
    request, body = sent(feishu)
    assert request.url.path.endswith("/om_7/reply")
    assert (body["msg_type"], body["uuid"]) == ("file", "k7")
    assert json.loads(body["content"]) == {"file_key": "file_v2_1"}


def test_a_file_behind_a_text(feishu: respx.MockRouter) -> None:
    """ADP-9.10: the text as ever, the file after it."""
    key = {"code": 0, "msg": "success", "data": {"file_key": "file_v2_1"}}
    feishu.post(f"{API}/im/v1/files").respond(json=key)
    result = Carrier(ENV)("feishu:oc_1", "**the log**", key="k7", file=LOG)
    assert (result.result, result.done, result.parts) == ("sent", 2, 2)
    kinds = [(sent(feishu, at)[1]["msg_type"], sent(feishu, at)[1]["uuid"]) for at in (0, 1)]
    assert kinds == [("post", "k7.1"), ("file", "k7.2")]


def test_a_refused_file(feishu: respx.MockRouter) -> None:
    """ADP-9.10: with Feishu's words; nothing is shown."""
    too_big = {"code": 234006, "msg": "The file size exceed the max value."}
    feishu.post(f"{API}/im/v1/files").respond(400, json=too_big)
    result = Carrier(ENV)("feishu:oc_1", "", file=LOG)
    assert result.result == "rejected" and "234006" in result.reason and "30 MB" in result.reason
    assert not feishu["send"].called


def test_a_custom_bot_takes_no_file() -> None:
    """ADP-9.10: said before any request."""
    with respx.mock:
        env = {**ENV, "FEISHU_WEBHOOK_URL": HOOK}
        result = Carrier(env)("feishu:webhook", "", file=LOG)
    assert result.result == "rejected" and "a custom bot of feishu takes no files" in result.reason


@given(st.text(st.sampled_from('a"\\\n 中😀')), st.text(st.sampled_from('a"\\\n 中😀')))
def test_a_longer_text_measures_more(one: str, two: str) -> None:
    """Cutting finds its place by halving: the measure grows with the text."""
    size = requests.nested_json_size
    assert size(without_mentions(one)) <= size(without_mentions(one + two))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('<at user_id="all">all</at>', '＜at user_id="all">all＜/at>'),
        ("<AT id=all>", "＜AT id=all>"),
        ("< at id=all>", "＜ at id=all>"),
        ("<person id='ou_1'>", "＜person id='ou_1'>"),
        ("<attr> <atomic> a<b", "<attr> <atomic> a<b"),
        ("<at", "＜at"),
    ],
)
def test_without_mentions(text: str, shown: str) -> None:
    """Nobody is called, and it can still be read."""
    assert without_mentions(text) == shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["\n", "[", "![", "`", "< ", "<", "|", "*", "  ", "![a](", "<\n/"])
def test_a_hostile_text(unit: str) -> None:
    """A hundred kilobytes of marks are read in no time worth speaking of, not in its square."""
    text = unit * (1 << 16)
    adapter = Feishu({})
    adapter.measure(text)
    adapter.measure(unit * (15_000 // len(unit)))
    markdown.safe(without_mentions(text))


TABLE = "| a | **b** |\n|---|--:|\n| 中文 | <at id=all> |"
WIDE = f"\n| {'x' * 40} | y |\n|-|-|\n" + "|a|b|\n" * 50


@given(texts(), st.sampled_from(["", TABLE, WIDE, f"> {TABLE}"]))
@settings(max_examples=60, deadline=None)
def test_what_is_measured_is_enough(text: str, more: str) -> None:
    """ADP-9.9: whichever way a text takes, no body is larger than its measure."""
    adapter = Feishu({"FEISHU_APP_ID": "a", "FEISHU_APP_SECRET": "b", "FEISHU_WEBHOOK_URL": HOOK})
    for chat, way in (("user_id:" + "u" * 64, "post"), ("oc_1", "text"), ("webhook", "webhook")):
        target = adapter.parse_target(chat, None)
        outgoing = Outgoing(text + more, "k" * 50, token="t", way=way)
        body = adapter.build_request(target, outgoing).body
        assert len(body) <= adapter.measure(text + more)


def test_a_table_in_a_post() -> None:
    """ADP-9.7: a block of code, aligned; in a text's own way it stays as it is."""
    md = json.loads(message_fields("post", Outgoing(f"x\n\n{TABLE}\n\n- y", "k"))["content"])
    shown = md["zh_cn"]["content"][0][0]["text"]
    first, _, last = shown.partition("\n\n```\n")
    assert first == "x" and last.endswith("```\n\n- y") and "| a |" not in shown
    assert "＜at id=all>" in shown and "中文" in shown and "**" not in shown
    plain = json.loads(message_fields("text", Outgoing(TABLE, "k"))["content"])["text"]
    assert plain == without_mentions(TABLE)


def test_a_mention_by_its_entity_in_a_table() -> None:
    """ADP-9.7: what a cell's entity names is in a block of code, and calls nobody there either."""
    text = "|a|\n|-|\n|&lt;at user_id=all&gt;|"
    content = message_fields("post", Outgoing(text, "k"))["content"]
    assert "＜at user_id=all>" in content and "<at" not in content


@pytest.mark.parametrize(
    "body",
    [{"code": 0}, {"StatusCode": 0}, {"code": 0, "StatusCode": 1}],
)
def test_what_is_a_success(body: dict[str, Any]) -> None:
    """Code 0, or an old custom bot's StatusCode, with a 2xx."""
    data = json.dumps(body).encode()
    assert read_answer(Response(200, data)) == body
    for status in (302, 400, 500):
        with pytest.raises(DeliveryError):
            read_answer(Response(status, data))


VALUE = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.floats() | st.sampled_from(["", "a", []])
)

NAMES = ("code", "StatusCode", "errcode", "msg", "data")


@given(
    st.sampled_from([200, 201, 302, 400, 429, 500]), st.dictionaries(st.sampled_from(NAMES), VALUE)
)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B11: whatever stands in an answer, `sent` is a 2xx with the platform's own criterion."""
    try:
        Feishu({}).parse_response(Response(status, json.dumps(body).encode()))
    except DeliveryError:
        return
    assert 200 <= status < 300
    assert body.get("code", body.get("StatusCode")) == 0


def test_b18_what_looks_permanent_is_not() -> None:
    """B18: the codes that others took for final are throttles or refused tokens."""
    assert {CODES[code].kind for code in (99991400, 230020, 11232)} == {"throttled"}
    assert CODES[99991663].kind == "token"


def test_b20_what_looks_passing_is_not() -> None:
    """B20: what no later try mends is final: ids, abilities."""
    assert CODES[230006].kind == CODES[230001].kind == "rejected"


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    assert all(found.advice for found in CODES.values() if found.kind == "rejected")


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("chat_id", [(5, 1, "chat"), (50, 1, "app"), (1000, 60, "app")]),
        ("webhook", [(5, 1, "chat"), (100, 60, "chat")]),
    ],
)
def test_limits(kind: str, found: list[tuple[int, float, str]]) -> None:
    """Each kind of chat is kept to what is published for it."""
    mine = [limit for limit in LIMITS if not limit.kinds or kind in limit.kinds]
    assert [(limit.count, limit.seconds, limit.scope) for limit in mine] == found


@pytest.mark.parametrize(
    ("body", "scope"),
    [
        ({"code": 99991400, "msg": "frequency limit"}, "app"),
        ({"code": 11232, "msg": "tenant"}, "app"),
        ({"code": 230020, "msg": "ext=chat rate limit"}, "chat"),
    ],
)
def test_whom_a_throttle_holds(body: dict[str, Any], scope: str) -> None:
    """ADP-6.17: all of the app, or this chat alone."""
    with pytest.raises(Throttled) as caught:
        read_answer(Response(400, json.dumps(body).encode()))
    assert caught.value.scope == scope
