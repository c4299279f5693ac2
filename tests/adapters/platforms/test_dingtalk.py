"""The platform `dingtalk`: the shapes of its requests, and what they must never be."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

from fakes.carrier import Carrier
from wakebus.adapters import markdown
from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Throttled,
    Uncertain,
)
from wakebus.adapters.kit import requests
from wakebus.adapters.platforms.dingtalk import (
    CODES,
    LIMITS,
    WEBHOOK_CODES,
    DingTalk,
    markdown_content,
    read_answer,
    signed_url,
)

ENV = {"DINGTALK_CLIENT_ID": "ding1", "DINGTALK_CLIENT_SECRET": "hush-hush"}
API = "https://api.dingtalk.com"
ROBOT = "https://oapi.dingtalk.com/robot/send?access_token=hush-hook"
SESSION = "https://oapi.dingtalk.com/robot/sendBySession?session=hush-session"
GROUP, USER = "groupMessages/send", "oToMessages/batchSend"


@pytest.fixture
def dingtalk() -> Iterator[respx.MockRouter]:
    """DingTalk's OpenAPI: a token, and messages that are taken."""
    with respx.mock(assert_all_called=False) as router:
        token = {"accessToken": "at-1", "expireIn": 7200}
        router.post(f"{API}/v1.0/oauth2/accessToken", name="token").respond(json=token)
        router.post(url__startswith=f"{API}/v1.0/robot/", name="send").respond(
            json={"processQueryKey": "pqk"}
        )
        yield router


def sent(router: respx.MockRouter, place: int = -1) -> tuple[httpx.Request, dict[str, Any]]:
    """Return a request for a message and its body."""
    request = router["send"].calls[place].request
    return request, json.loads(request.content)


def test_the_request(dingtalk: respx.MockRouter) -> None:
    """ADP-10.1: URL, token header, JSON in JSON."""
    result = Carrier(ENV)("dingtalk:cidA/+b==", '## 中\n"x"')
    request, body = sent(dingtalk)
    assert (result.result, result.id) == ("sent", "pqk")
    assert str(request.url) == f"{API}/v1.0/robot/{GROUP}"
    assert request.headers["x-acs-dingtalk-access-token"] == "at-1"
    assert request.headers["content-type"] == "application/json; charset=utf-8"
    assert set(body) == {"openConversationId", "robotCode", "msgKey", "msgParam"}
    assert body["openConversationId"] == "cidA/+b=="
    assert (body["robotCode"], body["msgKey"]) == ("ding1", "sampleMarkdown")
    assert json.loads(body["msgParam"]) == {"title": '中 "x"', "text": '## 中  \n"x"'}


def test_the_token_request(dingtalk: respx.MockRouter) -> None:
    """ADP-10.6: appKey and appSecret."""
    Carrier(ENV)("dingtalk:cidA==")
    body = json.loads(dingtalk["token"].calls[0].request.content)
    assert body == {"appKey": "ding1", "appSecret": "hush-hush"}


@pytest.mark.parametrize(
    ("chat", "path", "chat_field"),
    [
        ("group:cidA==", GROUP, {"openConversationId": "cidA=="}),
        ("cidA/+b==", GROUP, {"openConversationId": "cidA/+b=="}),
        ("user:manager1234", USER, {"userIds": ["manager1234"]}),
        ("manager1234", USER, {"userIds": ["manager1234"]}),
        ("user:cid99", USER, {"userIds": ["cid99"]}),
    ],
)
def test_b5_id_kinds(
    dingtalk: respx.MockRouter, chat: str, path: str, chat_field: dict[str, Any]
) -> None:
    """B5, ADP-10.2: groups and people have their own endpoint and field; no prefix goes out."""
    assert Carrier(ENV)(f"dingtalk:{chat}").result == "sent"
    request, body = sent(dingtalk)
    assert request.url.path == f"/v1.0/robot/{path}"
    assert chat_field.items() <= body.items()
    assert ("userIds" in body) != ("openConversationId" in body)


@pytest.mark.parametrize("chat", ["$:LWCP_v1:$abc==", "user:$:LWCP_v1:$abc==", "group:manager1"])
def test_ids_that_cannot_work(chat: str) -> None:
    """ADP-10.2: a sender's encrypted id and a group that is none are refused before any IO."""
    with pytest.raises(BadTarget, match="STAFF_ID"):
        DingTalk(ENV).parse_target(chat, None)


def test_robot_code(dingtalk: respx.MockRouter) -> None:
    """ADP-10.8: DINGTALK_ROBOT_CODE where it is not the client id."""
    Carrier({**ENV, "DINGTALK_ROBOT_CODE": "robot9"})("dingtalk:manager1234")
    assert sent(dingtalk)[1]["robotCode"] == "robot9"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ({"processQueryKey": "k", "invalidStaffIdList": ["u1"]}, "rejected"),
        ({"processQueryKey": "k", "filteredStaffIdList": ["u1"]}, "rejected"),
        ({"processQueryKey": "k", "flowControlledStaffIdList": ["u1"]}, "not_sent"),
        ({"invalidStaffIdList": []}, "uncertain"),
        ({}, "uncertain"),
    ],
)
def test_b12_no_success(dingtalk: respx.MockRouter, answer: dict[str, Any], word: str) -> None:
    """B12: 200 is no success where a list names the user, or no processQueryKey came."""
    dingtalk["send"].respond(200, json=answer)
    assert Carrier(ENV)("dingtalk:user:u1").result == word


@pytest.mark.parametrize(
    "body",
    [{"errcode": 130101}, {"errcode": 310000}, {"errcode": 300001}, {"errcode": 9}, "<html>"],
)
def test_b11_webhook_errors(body: Any) -> None:
    """B11: 200 with an error or a page is never `sent`."""
    text = body if isinstance(body, str) else json.dumps(body)
    with respx.mock() as router:
        router.post(ROBOT).respond(200, text=text)
        assert Carrier({"DINGTALK_WEBHOOK_URL": ROBOT})("dingtalk:webhook").result != "sent"


def test_b16_refresh(dingtalk: respx.MockRouter) -> None:
    """B16: InvalidAuthentication in 400: another token, once, raw in its header."""
    body = {"code": "InvalidAuthentication", "requestid": "R", "message": "不合法的access_token"}
    fine = httpx.Response(200, json={"processQueryKey": "pqk"})
    dingtalk["send"].side_effect = [httpx.Response(400, json=body), fine]
    dingtalk["token"].side_effect = [
        httpx.Response(200, json={"accessToken": f"at-{n}", "expireIn": 7200}) for n in (1, 2)
    ]
    assert Carrier(ENV)("dingtalk:cidA==").result == "sent"
    tokens = [c.request.headers["x-acs-dingtalk-access-token"] for c in dingtalk["send"].calls]
    assert tokens == ["at-1", "at-2"]


@pytest.mark.parametrize("answer", [{"expireIn": 7200}, {"accessToken": None}, {"accessToken": ""}])
def test_b16_no_token(dingtalk: respx.MockRouter, answer: dict[str, Any]) -> None:
    """B16: without a token nothing is sent: no `undefined`, no `None` in a header."""
    dingtalk["token"].respond(200, json=answer)
    assert Carrier(ENV)("dingtalk:cidA==").result == "not_sent"
    assert not dingtalk["send"].called


def test_b16_expire() -> None:
    """B16: a token's time is what DingTalk says."""
    body = b'{"accessToken":"at-1","expireIn":600}'
    assert DingTalk(ENV).parse_token(Response(200, body)).expires_s == 600


def test_b18_throttle_looks_permanent(dingtalk: respx.MockRouter) -> None:
    """B18: 403 Forbidden…QpsLimit… is a throttle: again after a second."""
    body = {"code": "Forbidden.AccessDenied.QpsLimitForAppkeyAndApi", "message": "QPS"}
    fine = httpx.Response(200, json={"processQueryKey": "pqk"})
    dingtalk["send"].side_effect = [httpx.Response(403, json=body), fine]
    carrier = Carrier(ENV)
    assert (carrier("dingtalk:cidA==").result, carrier.waits) == ("sent", [1.0])


def test_b20_permanent(dingtalk: respx.MockRouter) -> None:
    """B20: a 1:1 chat's cid is no group: asked once, and the reason says what to write."""
    dingtalk["send"].respond(400, json={"code": "resource.not.found", "message": "robot 不存在"})
    result = Carrier(ENV)("dingtalk:cidA==")
    assert result.result == "rejected" and "user:STAFF_ID" in result.reason
    assert dingtalk["send"].call_count == 1


def test_custom_robot() -> None:
    """ADP-10.5: signed with milliseconds where the robot has a secret; no `at`, no token."""
    adapter = DingTalk({"DINGTALK_WEBHOOK_URL": ROBOT, "DINGTALK_WEBHOOK_SECRET": "hush"})
    target = adapter.parse_target("webhook", None)
    request = adapter.build_request(
        target, Outgoing("hi @all", "k", way="webhook", at=1577262236.757)
    )
    sign = "drHGXx2WfAM%2F8SYplq16rMgVaYjg8YXQtVMXeodEMDw%3D"
    assert request.url == f"{ROBOT}&timestamp=1577262236757&sign={sign}"
    assert json.loads(request.body) == {
        "msgtype": "markdown",
        "markdown": {"title": "hi @all", "text": "hi @all"},
    }
    assert adapter.token_request("webhook") is None


def test_session_webhook() -> None:
    """ADP-10.3: it comes before the OpenAPI, needs no token, and works without credentials."""
    for env, ways in ((ENV, ("session", "openapi")), ({}, ("session",))):
        adapter = DingTalk(env)
        target, outgoing = (
            adapter.parse_target("cidA==", None),
            Outgoing("hi", "k", webhook=SESSION),
        )
        assert adapter.ways(target, outgoing) == ways
        assert adapter.token_request("session") is None
        assert adapter.build_request(target, outgoing).url == SESSION


@pytest.mark.parametrize(
    "url",
    [
        "http://oapi.dingtalk.com/robot/sendBySession?session=1",
        "https://oapi.dingtalk.com.evil.example/robot/sendBySession?session=1",
        "https://evil.example/robot/sendBySession?session=1",
        "https://user@oapi.dingtalk.com/robot/sendBySession?session=1",
        "https://oapi.dingtalk.com:8443/robot/sendBySession?session=1",
        "https://oapi.dingtalk.com@evil.example/robot/sendBySession",
        "https://oapi.dingtalk.com\\@evil.example/robot/sendBySession",
        "https://oapi.dingtalk.com/robot/send?access_token=1",
        "https://oapi.dingtalk.com/robot/sendBySession/../send",
        "https://oapi.dingtalk.com\t/robot/sendBySession",
        "file:///etc/passwd",
        "https://[::1/robot/sendBySession",
        "",
    ],
)
def test_strange_session_webhooks(url: str) -> None:
    """ADP-10.3: a URL that does not lead to DingTalk itself is no way, and it is said why."""
    adapter, alone = DingTalk(ENV), DingTalk({})
    target, outgoing = adapter.parse_target("cidA==", None), Outgoing("hi", "k", webhook=url)
    assert adapter.ways(target, outgoing) == ("openapi",)
    assert "DINGTALK_WEBHOOK_BASE" in adapter.session_fault(url)
    with pytest.raises(Rejected, match="session webhook: "):
        alone.ways(target, outgoing)
    with pytest.raises(Rejected, match="session webhook: "):
        adapter.build_request(target, Outgoing("hi", "k", way="session", webhook=url))


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"DINGTALK_CLIENT_ID": "ding1"}, "DINGTALK_CLIENT_SECRET"),
        ({"DINGTALK_CLIENT_SECRET": "hush-hush"}, "DINGTALK_CLIENT_ID"),
        ({"DINGTALK_API_BASE": "http://hush-hush.example"}, "DINGTALK_API_BASE"),
        ({"DINGTALK_WEBHOOK_BASE": "https://x/?hush-hush"}, "DINGTALK_WEBHOOK_BASE"),
        ({"DINGTALK_WEBHOOK_URL": "hush-hush"}, "DINGTALK_WEBHOOK_URL"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-10.8: half of a pair, or no safe URL: the variable is named, never its value."""
    with pytest.raises(BadSetting, match=named) as caught:
        DingTalk(env)
    assert "hush-hush" not in caught.value.text


def test_a_way_that_is_not_set_up() -> None:
    """ADP-10.8: what a chat needs is named when the chat is used."""
    adapter = DingTalk({})
    for chat, named in (("webhook", "DINGTALK_WEBHOOK_URL"), ("cidA==", "DINGTALK_CLIENT_ID")):
        with pytest.raises(BadSetting, match=named):
            adapter.ways(adapter.parse_target(chat, None), Outgoing("hi", "k"))


@pytest.mark.parametrize("text", ["x" * 15_000, '"\\\n\t' * 3000, "中\n" * 3000, "😀" * 3000])
@pytest.mark.parametrize("chat", ["cidA==", "manager1234", "webhook"])
def test_b27_measure(chat: str, text: str) -> None:
    """B27, ADP-10.7: what is measured is never less than the serialized msgParam."""
    adapter = DingTalk({**ENV, "DINGTALK_WEBHOOK_URL": ROBOT})
    target = adapter.parse_target(chat, None)
    body = json.loads(adapter.build_request(target, Outgoing(text, "k")).body)
    param = body.get("msgParam") or json.dumps(body["markdown"], ensure_ascii=False)
    size, limit = adapter.measure(text), adapter.capabilities.max_text
    assert size > limit or len(param.encode()) <= size


def test_b27_parts(dingtalk: respx.MockRouter) -> None:
    """B27: 30 KB of Chinese with quotes and newlines: every msgParam has at most 15,000 bytes."""
    result = Carrier(ENV)("dingtalk:cidA==", '他说："好"\n' * 1500)
    sizes = [
        len(json.loads(c.request.content)["msgParam"].encode()) for c in dingtalk["send"].calls
    ]
    assert (result.result, result.parts) == ("sent", len(sizes))
    assert 2 <= len(sizes) <= 6 and max(sizes) <= 15_000


def test_nobody_is_mentioned(dingtalk: respx.MockRouter) -> None:
    """ADP-10.1: without an `at` block a name in a text calls nobody."""
    Carrier(ENV)("dingtalk:cidA==", "@all @13800000000")
    assert "at" not in sent(dingtalk)[1]


def test_threads() -> None:
    """ADP-10.2: there are no threads; one is refused, not dropped."""
    with pytest.raises(BadTarget, match="thread"):
        DingTalk(ENV).parse_target("cidA==", "5")


@given(st.text(st.sampled_from('a"\\\n 中😀')), st.text(st.sampled_from('a"\\\n 中😀')))
def test_a_longer_text_measures_more(one: str, two: str) -> None:
    """Cutting finds its place by halving: the measure grows with the text."""
    size = requests.nested_json_size
    assert size(markdown.dingtalk(one)) <= size(markdown.dingtalk(one + two))


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["\n", "[", "![", "`", "< ", "<", "|", "*", "  ", "![a](", "<\n/"])
def test_a_hostile_text(unit: str) -> None:
    """A hundred kilobytes of marks are read in no time worth speaking of, not in its square."""
    text = unit * (1 << 16)
    markdown_content(text)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## Build done\nmore", "Build done more"),
        ("**bold** `x`", "bold x"),
        ("###", "message"),
        ("中" * 99, "中" * 47 + "…"),
    ],
)
def test_title(text: str, title: str) -> None:
    """What the notification shows: the beginning, bounded, never empty."""
    assert markdown_content(text)["title"] == title


def test_an_unsigned_robot() -> None:
    """Without a secret the URL stays as it is; with one it gets a query."""
    assert signed_url("https://x/", "", 1.0) == "https://x/"
    assert signed_url("https://x/", "s", 1.0).startswith("https://x/?timestamp=1000&")


def test_what_is_a_success() -> None:
    """No error code, no list with the user in it."""
    for body in (
        {"errcode": 0, "errmsg": "ok"},
        {"processQueryKey": "k", "invalidStaffIdList": []},
    ):
        assert read_answer(Response(200, json.dumps(body).encode())) == body
    for bad in ({"errcode": 0.5}, {"errcode": None}, {"errcode": False}, {"errcode": "0"}):
        with pytest.raises(Uncertain):
            read_answer(Response(200, json.dumps(bad).encode()))


VALUE = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.floats() | st.sampled_from(["", "a", []])
)

LISTS = ("invalidStaffIdList", "filteredStaffIdList", "flowControlledStaffIdList")

NAMES = ("code", "errcode", "processQueryKey", "punish", "msg", "data", *LISTS)


@given(
    st.sampled_from([200, 201, 302, 400, 429, 500]), st.dictionaries(st.sampled_from(NAMES), VALUE)
)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B12: whatever stands in an answer, `sent` is a 2xx with the platform's own criterion."""
    try:
        DingTalk({}).parse_response(Response(status, json.dumps(body).encode()))
    except DeliveryError:
        return
    assert 200 <= status < 300
    assert body["processQueryKey"] == "a"  # no `errmsg` is "ok"
    assert not any(body.get(name) for name in (*LISTS, "punish"))


def test_b18_what_looks_permanent_is_not() -> None:
    """B18: a code that others took for final is a throttle."""
    assert CODES["Forbidden.AccessDenied.QpsLimitForAppkeyAndApi"].kind == "throttled"


def test_b20_what_looks_passing_is_not() -> None:
    """B20: what no later try mends is final: quotas of a month, a robot's settings."""
    assert CODES["Forbidden.AccessDenied.ApiCountLimitForOrg"].kind == "rejected"
    assert WEBHOOK_CODES[90020].kind == WEBHOOK_CODES[310000].kind == "rejected"


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (CODES, WEBHOOK_CODES):
        assert all(found.advice for found in table.values() if found.kind == "rejected")


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("group", [(20, 1, "app")]),
        ("user", [(20, 1, "app")]),
        ("webhook", [(20, 60, "chat")]),
    ],
)
def test_limits(kind: str, found: list[tuple[int, float, str]]) -> None:
    """Each kind of chat is kept to what is published for it; groups and people are two APIs."""
    mine = [limit for limit in LIMITS if not limit.kinds or kind in limit.kinds]
    assert [(limit.count, limit.seconds, limit.scope) for limit in mine] == found


@pytest.mark.parametrize(
    ("body", "scope"),
    [
        ({"code": "Forbidden.AccessDenied.QpsLimitForApi", "message": ""}, "app"),
        ({"errcode": 90018, "errmsg": "too fast"}, "app"),
        ({"status": 1111, "punish": "deny"}, "app"),
        ({"code": "send.too.fast", "message": ""}, "chat"),
        ({"errcode": 130101, "errmsg": "send too fast"}, "chat"),
    ],
)
def test_whom_a_throttle_holds(body: dict[str, Any], scope: str) -> None:
    """ADP-6.17: all of the app, or this chat alone."""
    with pytest.raises(Throttled) as caught:
        read_answer(Response(400, json.dumps(body).encode()))
    assert caught.value.scope == scope
