"""The platform `wecom`: the shapes of its requests, and what they must never be."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.carrier import Carrier
from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Throttled,
    TokenRefused,
    Unavailable,
)
from wakebus.adapters.platforms.wecom import (
    AGENT,
    CODES,
    CORP,
    TOKEN_CODES,
    WeCom,
    message_content,
    read_answer,
    read_app_name,
    without_mentions,
)

API = "https://qyapi.weixin.qq.com/cgi-bin"
ROBOT = f"{API}/webhook/send?key=hush-key-7f3a"
ENV = {
    "WECOM_CALLBACK_CORP_ID": "ww1",
    "WECOM_CALLBACK_CORP_SECRET": "hush-hush",
    "WECOM_CALLBACK_AGENT_ID": "1000002",
    "WECOM_WEBHOOK_URL": ROBOT,
}
OK = {"errcode": 0, "errmsg": "ok"}


@pytest.fixture
def wecom() -> Iterator[respx.MockRouter]:
    """WeCom: a token, and messages that are taken."""
    with respx.mock(assert_all_called=False) as router:
        token = {**OK, "access_token": "at-1", "expires_in": 7200}
        router.get(url__startswith=f"{API}/gettoken", name="token").respond(json=token)
        router.post(url__startswith=f"{API}/", name="send").respond(json={**OK, "msgid": "m-1"})
        yield router


def sent(router: respx.MockRouter, place: int = -1) -> tuple[httpx.Request, dict[str, Any]]:
    """Return a request for a message and its body."""
    request = router["send"].calls[place].request
    return request, json.loads(request.content)


def content(body: dict[str, Any]) -> str:
    """Return the text of a message, whichever its type."""
    found: str = body[body["msgtype"]]["content"]
    return found


@pytest.mark.parametrize(
    ("chat", "path", "more"),
    [
        ("zhangsan", "message/send", {"touser": "zhangsan", "agentid": 1000002}),
        ("user:zhangsan", "message/send", {"touser": "zhangsan", "agentid": 1000002}),
        ("user:webhook", "message/send", {"touser": "webhook", "agentid": 1000002}),
        ("@all", "message/send", {"touser": "@all", "agentid": 1000002}),
        ("chat:CHATID", "appchat/send", {"chatid": "CHATID"}),
    ],
)
def test_the_request_of_an_app(
    wecom: respx.MockRouter, chat: str, path: str, more: dict[str, Any]
) -> None:
    """ADP-18.1: each kind has its own endpoint and field; the token stands in the query."""
    assert Carrier(ENV)(f"wecom:{chat}", "hi").result == "sent"
    request, body = sent(wecom)
    assert str(request.url) == f"{API}/{path}?access_token=at-1"
    assert body == {**more, "msgtype": "text", "text": {"content": "hi"}}


def test_the_request_of_a_robot(wecom: respx.MockRouter) -> None:
    """ADP-18.1, ADP-18.5: a robot's URL is all that it needs."""
    assert Carrier({"WECOM_WEBHOOK_URL": ROBOT})("wecom:webhook", "hi").result == "sent"
    request, body = sent(wecom)
    assert str(request.url) == ROBOT
    assert body == {"msgtype": "text", "text": {"content": "hi"}}
    assert not wecom["token"].called


@pytest.mark.parametrize("chat", ["a|b", "user:@all", "a|@all", "chat:a-b", "张三", "@ALL"])
def test_ids_that_cannot_work(chat: str) -> None:
    """ADP-18.1: one chat is one person or group; everybody is meant by `@all` only."""
    with pytest.raises(BadTarget, match="user:USERID"):
        WeCom(ENV).parse_target(chat, None)


def test_threads() -> None:
    """ADP-18.1: there are none; one is refused, not dropped."""
    with pytest.raises(BadTarget, match="thread"):
        WeCom(ENV).parse_target("zhangsan", "5")


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"msgid": "m-1"}, "sent"),
        ({"invaliduser": ""}, "sent"),
        ({"invaliduser": "ZhangSan"}, "rejected"),
        ({"unlicenseduser": "zhangsan"}, "rejected"),
        ({"invaliduser": "lisi|zhangsan"}, "uncertain"),
    ],
)
def test_whom_it_did_not_reach(wecom: respx.MockRouter, more: dict[str, str], word: str) -> None:
    """ADP-18.2: a 0 with somebody's name beside it is no success."""
    wecom["send"].respond(json={**OK, **more})
    result = Carrier(ENV)("wecom:zhangsan")
    assert result.result == word
    assert all(name in result.reason for name in more.values() if word != "sent")


@pytest.mark.parametrize(
    "body", [{"errcode": 45009}, {"errcode": 40058}, {"errcode": 93000}, "<p>"]
)
@pytest.mark.parametrize("chat", ["webhook", "zhangsan", "chat:C1"])
def test_b11_errors_in_200(wecom: respx.MockRouter, chat: str, body: Any) -> None:
    """B11, ADP-18.2: 200 with an error or a page is never `sent`."""
    wecom["send"].respond(200, text=body if isinstance(body, str) else json.dumps(body))
    assert Carrier(ENV)(f"wecom:{chat}").result != "sent"


@pytest.mark.parametrize("chat", ["zhangsan", "chat:C1", "webhook"])
@pytest.mark.parametrize(
    "text", ["中" * 3000, "**中**\n" * 600, "| a | b |\n|---|---|\n" + "| 中 | 1 |\n" * 300]
)
def test_b24_parts(wecom: respx.MockRouter, chat: str, text: str) -> None:
    """B24, ADP-18.3: each part has at most 2048 bytes, in order, and nothing is lost."""
    result = Carrier(ENV)(f"wecom:{chat}", text)
    bodies = [sent(wecom, place)[1] for place in range(len(wecom["send"].calls))]
    assert (result.result, result.parts) == ("sent", len(bodies)) and len(bodies) > 1
    assert max(len(content(body).encode()) for body in bodies) <= 2048
    assert len({body["msgtype"] for body in bodies}) == 1
    assert "".join(map(content, bodies)).count("中") == text.count("中")


def test_a_text_that_would_be_cut_off() -> None:
    """ADP-18.3: whatever measured it, more than WeCom shows is not sent."""
    adapter = WeCom(ENV)
    with pytest.raises(Rejected, match="2048"):
        adapter.build_request(adapter.parse_target("zhangsan", None), Outgoing("x" * 2049, "k"))


def test_markdown_and_text(wecom: respx.MockRouter) -> None:
    """ADP-18.4: Markdown where there is some, by the whole message; else a text for WeChat."""
    adapter = WeCom(ENV)
    target = adapter.parse_target("zhangsan", None)
    for text, whole, kind in (
        ("hi", "", "text"),
        ("## hi", "", "markdown"),
        ("hi", "hi\n## more", "markdown"),
    ):
        request = adapter.build_request(target, Outgoing(text, "k", whole=whole))
        assert json.loads(request.body)["msgtype"] == kind


@pytest.mark.parametrize("text", ["<@zhangsan> <@all> hi", "**b** <@zhangsan>"])
def test_nobody_is_mentioned(wecom: respx.MockRouter, text: str) -> None:
    """ADP-18.4: a robot's text and its Markdown call whoever stands in `<@…>`."""
    Carrier(ENV)("wecom:webhook", text)
    body = sent(wecom)[1]
    assert "<@" not in content(body) and "zhangsan" in content(body)
    assert not {"mentioned_list", "mentioned_mobile_list"} & body.keys()


@pytest.mark.parametrize("code", [40014, 42001, 40001, 41001])
def test_b17_refresh(wecom: respx.MockRouter, code: int) -> None:
    """B17, ADP-18.5: each of the codes fetches another token, once."""
    refused = httpx.Response(200, json={"errcode": code, "errmsg": "invalid access_token"})
    wecom["send"].side_effect = [refused, httpx.Response(200, json=OK)]
    wecom["token"].side_effect = [
        httpx.Response(200, json={**OK, "access_token": f"at-{n}", "expires_in": 7200})
        for n in (1, 2)
    ]
    assert Carrier(ENV)("wecom:zhangsan").result == "sent"
    tokens = [call.request.url.params["access_token"] for call in wecom["send"].calls]
    assert tokens == ["at-1", "at-2"]


def test_b17_once_only(wecom: respx.MockRouter) -> None:
    """B17, ADP-18.5: a new token that is refused too is `not_sent`; nobody asks for ever."""
    wecom["send"].respond(json={"errcode": 40014, "errmsg": "invalid access_token"})
    carrier = Carrier(ENV)
    assert carrier("wecom:zhangsan").result == "not_sent"
    tries = 1 + len(carrier.waits)
    assert len(wecom["token"].calls) <= 1 + tries


def test_the_token_request(wecom: respx.MockRouter) -> None:
    """ADP-18.5: corpid and corpsecret in the query of a GET; a wrong secret is final."""
    Carrier(ENV)("wecom:zhangsan")
    asked = wecom["token"].calls[0].request
    assert dict(asked.url.params) == {"corpid": "ww1", "corpsecret": "hush-hush"}
    wecom["token"].respond(json={"errcode": 40001, "errmsg": "invalid credential"})
    result = Carrier(ENV)("wecom:zhangsan")
    assert result.result == "rejected" and "WECOM_CALLBACK_CORP_SECRET" in result.reason


def test_no_key() -> None:
    """ADP-18.6: no duplicate check goes out, and equal texts make equal requests."""
    adapter = WeCom(ENV)
    for chat in ("zhangsan", "chat:C1", "webhook"):
        target = adapter.parse_target(chat, None)
        one, other = (adapter.build_request(target, Outgoing("hi", key)) for key in ("k1", "k2"))
        assert one == other and b"duplicate" not in one.body
    assert adapter.capabilities.idempotent_s == 0


@pytest.mark.parametrize("fault", [httpx.ReadTimeout("x"), httpx.Response(502, text="<html>")])
def test_a_lost_answer(wecom: respx.MockRouter, fault: Any) -> None:
    """ADP-18.6: what may have been accepted is said to be uncertain, after one request."""
    wecom["send"].side_effect = [fault]
    assert Carrier(ENV)("wecom:zhangsan").result == "uncertain"
    assert len(wecom["send"].calls) == 1


def test_busy(wecom: respx.MockRouter) -> None:
    """ADP-18.6: -1 took nothing, and is tried again."""
    busy = httpx.Response(200, json={"errcode": -1, "errmsg": "system error"})
    wecom["send"].side_effect = [busy, httpx.Response(200, json=OK)]
    assert Carrier(ENV)("wecom:zhangsan").result == "sent"


def test_limits() -> None:
    """ADP-18.7: every kind of chat has a limit, by the published numbers."""
    limits = WeCom.capabilities.limits
    found = {(kind, one.count, one.seconds) for one in limits for kind in one.kinds}
    assert {("user", 30, 60), ("user", 1000, 3600), ("chat", 200, 60), ("webhook", 20, 60)} <= found
    assert {kind for one in limits for kind in one.kinds} == {"user", "all", "chat", "webhook"}
    assert {one.scope for one in limits if "chat" in one.kinds} == {"app"}


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"WECOM_CALLBACK_CORP_ID": "ww1"}, "WECOM_CALLBACK_CORP_SECRET"),
        ({"WECOM_CALLBACK_CORP_SECRET": "hush-hush"}, "WECOM_CALLBACK_CORP_ID"),
        ({"WECOM_CALLBACK_AGENT_ID": "hush-hush"}, "WECOM_CALLBACK_AGENT_ID"),
        ({"WECOM_CALLBACK_AGENT_ID": "１"}, "WECOM_CALLBACK_AGENT_ID"),
        ({"WECOM_API_BASE": "http://hush-hush.example"}, "WECOM_API_BASE"),
        ({"WECOM_WEBHOOK_URL": "hush-hush"}, "WECOM_WEBHOOK_URL"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-18.8: half of a pair, no number, no safe URL: the variable is named, never its value."""
    with pytest.raises(BadSetting, match=named) as caught:
        WeCom(env)
    assert "hush-hush" not in caught.value.text


@pytest.mark.parametrize(
    ("chat", "lacking", "named"),
    [
        ("webhook", "WECOM_WEBHOOK_URL", "WECOM_WEBHOOK_URL"),
        ("zhangsan", "WECOM_CALLBACK_AGENT_ID", "WECOM_CALLBACK_AGENT_ID"),
        ("@all", "WECOM_CALLBACK_AGENT_ID", "WECOM_CALLBACK_AGENT_ID"),
    ],
)
def test_a_chat_that_is_not_set_up(chat: str, lacking: str, named: str) -> None:
    """ADP-18.8: what a chat needs is named when it is used; a group needs no AgentId."""
    adapter = WeCom({name: value for name, value in ENV.items() if name != lacking})
    with pytest.raises(BadSetting, match=named):
        adapter.ways(adapter.parse_target(chat, None), Outgoing("hi", "k"))
    assert adapter.ways(adapter.parse_target("chat:C1", None), Outgoing("hi", "k")) == ("app",)


@pytest.mark.parametrize(
    ("chat", "names"), [("user:ann", (*CORP, AGENT)), ("@all", (*CORP, AGENT)), ("chat:C1", CORP)]
)
def test_all_that_a_chat_needs(chat: str, names: tuple[str, ...]) -> None:
    """ADP-18.8: all that is missing is named at once, not one after the other."""
    adapter = WeCom({})
    with pytest.raises(BadSetting, match=f"^{', '.join(names)}: not set"):
        adapter.ways(adapter.parse_target(chat, None), Outgoing("hi", "k"))


def test_the_check() -> None:
    """ADP-18.9: the app's name, asked for with its token; without an AgentId the token is all."""
    adapter = WeCom(ENV)
    request = adapter.check_request("at-1")
    assert request is not None and request.method == "GET"
    assert request.url == f"{API}/agent/get?access_token=at-1&agentid=1000002"
    named = json.dumps({**OK, "agentid": 1000002, "name": "HR助手", "close": 0}).encode()
    assert adapter.parse_check(Response(200, named)) == "app HR助手"
    assert WeCom({}).check_request("at-1") is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({**OK, "name": "HR助手", "close": 1}, "switched off"),
        ({"errcode": 60020, "errmsg": "not allow to access from your ip"}, "address"),
        ({"errcode": 301002, "errmsg": "not allow"}, "WECOM_CALLBACK_AGENT_ID"),
    ],
)
def test_a_check_that_fails(body: dict[str, Any], said: str) -> None:
    """ADP-18.9: an app that is off, an address or an AgentId that is wrong: it is said which."""
    with pytest.raises(Rejected, match=said):
        WeCom(ENV).parse_check(Response(200, json.dumps(body).encode()))


def answer(body: object, status: int = 200) -> Response:
    return Response(status, json.dumps(body).encode())


NAMES = ("errcode", "errmsg", "msgid", "invaliduser", "unlicenseduser", "access_token")
VALUE = st.none() | st.booleans() | st.integers(-2, 1) | st.floats() | st.sampled_from(["", "a"])


@given(st.sampled_from([200, 302, 400, 500]), st.dictionaries(st.sampled_from(NAMES), VALUE))
@settings(max_examples=100, deadline=None)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B11: whatever stands in an answer, it is a 2xx with a whole 0 and nobody's name."""
    try:
        read_answer(answer(body, status))
    except DeliveryError:
        return
    assert status == 200 and body["errcode"] == 0 and body["errcode"] is not False
    assert not body.get("invaliduser") and not body.get("unlicenseduser")


@pytest.mark.parametrize("code", [40001, 40014, 41001, 42001])
def test_b17_one_code_two_meanings(code: int) -> None:
    """B17: of a message it is the token, of the request for one the credentials."""
    with pytest.raises(TokenRefused):
        read_answer(answer({"errcode": code}))
    with pytest.raises(Rejected):
        read_answer(answer({"errcode": code}), TOKEN_CODES)


def test_throttles() -> None:
    """The whole app waits for the minute, also where a token is asked for."""
    for table in (CODES, TOKEN_CODES):
        with pytest.raises(Throttled) as caught:
            read_answer(answer({"errcode": 45009}), table)
        assert (caught.value.retry_after, caught.value.scope) == (60.0, "app")


def test_only_busy_is_repeated() -> None:
    """The one code that is to be repeated."""
    with pytest.raises(Unavailable, match="-1: system error"):
        read_answer(answer({"errcode": -1, "errmsg": "system error"}))


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (CODES, TOKEN_CODES):
        assert all(found.advice for found in table.values() if found.kind == "rejected")


def test_an_app_without_a_name() -> None:
    """A check needs no name to be fine."""
    assert read_app_name(answer({"errcode": 0})) == "no name"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("<@zhang> hi", "＜@zhang> hi"), ("a<b @c", "a<b @c"), ("<@", "＜@"), ("< @a>", "< @a>")),
        ('<a href="https://e">b</a>', '＜a href="https://e">b＜/a>'),
        *(
            ("<A\nhref=x>", "＜A\nhref=x>"),
            ("<a/href=x>", "＜a/href=x>"),
            ("<abc> a<a1", "<abc> a<a1"),
        ),
    ],
)
def test_without_mentions(text: str, shown: str) -> None:
    """ADP-18.4: nobody is called, a link shows where it leads, and it can still be read."""
    assert without_mentions(text) == shown


@given(st.text(st.sampled_from("a*`#<@>| \n中😀"), max_size=300))
@settings(max_examples=100, deadline=None)
def test_what_is_measured_is_enough(text: str) -> None:
    """B24: whichever kind it becomes, no content is larger than its measure."""
    for whole in ("plain", "**marks**"):
        body = message_content(text, whole)
        assert len(body[body["msgtype"]]["content"].encode()) <= WeCom({}).measure(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(("*x*", "markdown"), ("1) a", "markdown"), ("a\n---", "markdown"), ("`a`", "markdown")),
        *(("2*3*4", "text"), ("5 ** 2", "text"), ("| a |", "text"), ("[a](b)", "text")),
    ],
)
def test_markdown(text: str, kind: str) -> None:
    """ADP-18.4: Markdown is what the markup makes something of, here as on every platform."""
    assert message_content(text, "")["msgtype"] == kind
