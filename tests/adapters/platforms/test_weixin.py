"""The platform `weixin`: the shapes of its requests, and its answers that mean many things."""

import base64
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
    Uncertain,
    WayClosed,
)
from wakebus.adapters.platforms.weixin import Weixin, message_body, message_id_in, read_answer

URL = "https://ilinkai.weixin.qq.com/ilink/bot/sendmessage"
USER, OTHER = "o9cq8@im.wechat", "stranger@im.wechat"
ENV = {
    "WEIXIN_TOKEN": "hush-bot-token",
    "WEIXIN_CONTEXT_TOKENS": json.dumps({USER: "hush-context"}),
}


@pytest.fixture
def weixin() -> Iterator[respx.Route]:
    """Weixin, which takes every message."""
    with respx.mock(assert_all_called=False) as router:
        yield router.post(URL).respond(json={})


def said(route: respx.Route, place: int = -1) -> dict[str, Any]:
    """Return the message in a request."""
    found: dict[str, Any] = json.loads(route.calls[place].request.content)["msg"]
    return found


def texts(route: respx.Route) -> list[str]:
    """Return the texts that went out, in order."""
    places = range(len(route.calls))
    return [said(route, place)["item_list"][0]["text_item"]["text"] for place in places]


def test_the_request(weixin: respx.Route) -> None:
    """ADP-19.1: URL, headers, a finished text of the bot's with the chat's context token."""
    assert Carrier(ENV)(f"weixin:{USER}", "你好", key="k1").result == "sent"
    request = weixin.calls[0].request
    assert request.headers["authorization"] == "Bearer hush-bot-token"
    assert request.headers["authorizationtype"] == "ilink_bot_token"
    assert request.headers["ilink-app-id"] == "bot"
    assert request.headers["ilink-app-clientversion"] == str(2 << 16 | 4 << 8 | 9)
    assert json.loads(request.content)["base_info"] == {"channel_version": "2.4.9"}
    assert said(weixin) == {
        "from_user_id": "",
        "to_user_id": USER,
        "client_id": "k1",
        "message_type": 2,
        "message_state": 2,
        "item_list": [{"type": 1, "text_item": {"text": "你好"}}],
        "context_token": "hush-context",
    }


def test_a_request_is_a_function() -> None:
    """ADP-19.1: the UIN that is random elsewhere follows from the key, and is a 32-bit number."""
    adapter = Weixin(ENV)
    target = adapter.parse_target(USER, None)
    uins = []
    for key in ("k1", "k1", "k" * 99):
        headers = adapter.build_request(target, Outgoing("hi", key)).headers
        uins.append(int(base64.b64decode(headers["X-WECHAT-UIN"])))
    assert uins[0] == uins[1] != uins[2] and all(0 <= uin < 1 << 32 for uin in uins)
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k" * 99)).body)
    assert len(body["msg"]["client_id"]) == 64


@pytest.mark.parametrize(
    ("chat", "kind"),
    [
        (USER, "user"),
        ("123@chatroom", "room"),
        ("wxid_1", "id"),
        ("gh_1", "id"),
        ("filehelper", "filehelper"),
    ],
)
def test_chat_ids(chat: str, kind: str) -> None:
    """ADP-19.2: each shape is told, and goes out as it is."""
    adapter = Weixin(ENV)
    target = adapter.parse_target(chat, None)
    assert target.kind == kind
    body = json.loads(adapter.build_request(target, Outgoing("hi", "k")).body)
    assert body["msg"]["to_user_id"] == chat


@pytest.mark.parametrize(("chat", "thread"), [("zhangsan", None), (USER + "x", None), (USER, "5")])
def test_ids_that_cannot_work(chat: str, thread: str | None) -> None:
    """ADP-19.2: another shape, and a thread, are refused before any IO."""
    with pytest.raises(BadTarget, match="weixin"):
        Weixin(ENV).parse_target(chat, thread)


@pytest.mark.parametrize(
    ("body", "id"),
    [({}, ""), ({"ret": 0}, ""), ({"errcode": 0, "message_id": 74}, "74"), ({"ret": None}, "")],
)
def test_b14_success(weixin: respx.Route, body: dict[str, Any], id: str) -> None:
    """B14, ADP-19.3: an empty object is success; so are codes that are 0 or absent."""
    weixin.respond(json=body)
    result = Carrier(ENV)(f"weixin:{USER}")
    assert (result.result, result.id) == ("sent", id)


@pytest.mark.parametrize("message", ["unknown error", "prepare failed", "", None])
def test_b14_stale_context(weixin: respx.Route, message: str | None) -> None:
    """B14, ADP-19.4: once more without the context token, at once, and the parts after it too."""
    refused = httpx.Response(200, json={"ret": -2, "errmsg": message})
    weixin.side_effect = [refused, *(httpx.Response(200, json={}) for _ in range(2))]
    carrier = Carrier(ENV)
    result = carrier(f"weixin:{USER}", "中" * 8000)
    assert (result.result, result.parts, carrier.waits) == ("sent", 2, [])
    contexts = [said(weixin, place).get("context_token") for place in range(3)]
    assert contexts == ["hush-context", None, None]
    assert said(weixin, 0)["client_id"] == said(weixin, 1)["client_id"]


@pytest.mark.parametrize(("chat", "tries"), [(OTHER, 1), (USER, 2)])
def test_b14_prepare_failed(weixin: respx.Route, chat: str, tries: int) -> None:
    """B14, ADP-19.4: `rejected` when no way is left: the user has to write first; no waiting."""
    weixin.respond(json={"ret": -2, "errmsg": "prepare failed"})
    carrier = Carrier(ENV)
    result = carrier(f"weixin:{chat}")
    assert result.result == "rejected" and "the user has to write to the bot first" in result.reason
    assert (len(weixin.calls), carrier.waits) == (tries, [])


def test_b14_rate_limited(weixin: respx.Route) -> None:
    """B14, ADP-19.5: a throttle is put off, with this context token as before."""
    weixin.respond(json={"ret": -2, "errmsg": "rate limited"})
    result = Carrier(ENV)(f"weixin:{USER}")
    assert (result.result, result.retry_after, result.again) == ("not_sent", 30.0, True)
    assert len(weixin.calls) == 1


@pytest.mark.parametrize("body", [{"errcode": -14}, {"ret": -14, "errmsg": "session timeout"}])
def test_b14_the_login_is_over(weixin: respx.Route, body: dict[str, Any]) -> None:
    """B14, ADP-19.5: no later try helps; it is said who has to do what."""
    weixin.respond(json=body)
    result = Carrier(ENV)(f"weixin:{USER}")
    assert result.result == "rejected" and "log in" in result.reason
    assert len(weixin.calls) == 1


def test_any_other_refusal(weixin: respx.Route) -> None:
    """ADP-19.5: -2 with other words is a bad request."""
    weixin.respond(json={"ret": -2, "errmsg": "text too long"})
    result = Carrier(ENV)(f"weixin:{USER}")
    assert result.result == "rejected" and "text too long" in result.reason


def test_a_lost_answer(weixin: respx.Route) -> None:
    """ADP-19.6: `client_id` is there, but nobody knows whether it helps: one request."""
    weixin.side_effect = [httpx.ReadTimeout("x")]
    assert Carrier(ENV)(f"weixin:{USER}").result == "uncertain"
    assert len(weixin.calls) == 1
    assert Weixin.capabilities.idempotent_s == 0


def test_parts(weixin: respx.Route) -> None:
    """ADP-19.7: as few as fit into 16,384 bytes each; nothing is lost."""
    result = Carrier(ENV)(f"weixin:{USER}", "中" * 10_000)
    sizes = [len(text.encode()) for text in texts(weixin)]
    assert (result.result, len(sizes)) == ("sent", 2) and max(sizes) <= 16_384
    assert "".join(texts(weixin)) == "中" * 10_000


def test_no_markup(weixin: respx.Route) -> None:
    """ADP-19.7: Weixin shows Markdown as it stands, so a reader gets none."""
    Carrier(ENV)(f"weixin:{USER}", "**done** see [log](https://x.example/1)")
    assert "**" not in texts(weixin)[0]
    assert "done" in texts(weixin)[0] and "https://x.example/1" in texts(weixin)[0]


@pytest.mark.parametrize("text", ["C:\\x\\\ny", "a * b * c", "2*3*4", "snake_case_name", "<b>"])
def test_a_text_without_markup(weixin: respx.Route, text: str) -> None:
    """ADP-19.7: what is no Markdown goes out as it is, to the character."""
    Carrier(ENV)(f"weixin:{USER}", text)
    assert texts(weixin) == [text]


@pytest.mark.parametrize("value", ["", "{", "[]", "7", '{"a": 7}', "[" * 100_000])
def test_contexts_that_are_none(value: str) -> None:
    """ADP-19.8: without a token for a chat there is one way to it."""
    adapter = Weixin({**ENV, "WEIXIN_CONTEXT_TOKENS": value})
    assert adapter.ways(adapter.parse_target(USER, None), Outgoing("hi", "k")) == ("plain",)


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({}, "WEIXIN_TOKEN"),
        ({"WEIXIN_TOKEN": "hush\nhush"}, "WEIXIN_TOKEN"),
        ({"WEIXIN_TOKEN": "hush名"}, "WEIXIN_TOKEN"),
        ({"WEIXIN_TOKEN": "t", "WEIXIN_BASE_URL": "http://hush.example"}, "WEIXIN_BASE_URL"),
    ],
)
def test_settings(env: dict[str, str], named: str) -> None:
    """ADP-19.9: the variable is named, never its value."""
    with pytest.raises(BadSetting, match=named) as caught:
        Weixin(env)
    assert "hush" not in caught.value.text


def test_another_host(weixin: respx.Route) -> None:
    """ADP-19.9: WEIXIN_BASE_URL, which the login may have given."""
    adapter = Weixin({**ENV, "WEIXIN_BASE_URL": "https://sz.ilink.example/"})
    request = adapter.build_request(adapter.parse_target(USER, None), Outgoing("hi", "k"))
    assert request.url == "https://sz.ilink.example/ilink/bot/sendmessage"


def answer(body: object, status: int = 200) -> Response:
    return Response(status, json.dumps(body).encode())


VALUE = st.none() | st.booleans() | st.integers(-2, 1) | st.floats() | st.sampled_from(["", "a"])


@given(
    st.sampled_from([200, 302, 400, 500]),
    st.dictionaries(st.sampled_from(("ret", "errcode", "errmsg", "message_id", "other")), VALUE),
)
@settings(max_examples=100, deadline=None)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B14: a 2xx, both codes a whole 0 or absent, and nothing but what iLink writes."""
    try:
        read_answer(answer(body, status))
    except DeliveryError:
        return
    assert status == 200 and body.keys() != {"other"}
    for name in ("ret", "errcode"):
        assert body.get(name) is None or (body[name] == 0 and type(body[name]) is int)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("prepare failed", WayClosed),
        ("Unknown Error", WayClosed),
        ("", WayClosed),
        ("rate limited", Throttled),
        ("frequency limit", Throttled),
        ("操作太频繁", Throttled),
        ("rate_limit", Throttled),
        ("ratelimited", Throttled),
        ("Too many messages", Throttled),
        ("too many api calls", Throttled),
        ("发送频率过高", Throttled),
        ("invalid to_user_id", Rejected),
        ("operate failed", Rejected),
        ("text exceeds the length limit", Rejected),
        ("too many characters", Rejected),
        ("generated text is not allowed", Rejected),
        ("频道不存在", Rejected),
        ("视频超过大小限制", Rejected),
    ],
)
def test_b14_one_number_three_meanings(message: str, error: type[DeliveryError]) -> None:
    """B14, ADP-19.5: -2 is told apart by its words, a throttle is a rate's only."""
    for name in ("ret", "errcode"):
        with pytest.raises(error):
            read_answer(answer({name: -2, "errmsg": message}))


def test_somebody_elses_object() -> None:
    """A 200 with JSON of a proxy's is no success."""
    for body in ({"error": "x"}, {"code": 0}, {"ok": True}):
        with pytest.raises(Uncertain):
            read_answer(answer(body))


@pytest.mark.parametrize(
    ("found", "id"),
    [({"message_id": 7}, "7"), ({"message_id": "a"}, "a"), ({"message_id": True}, ""), ({}, "")],
)
def test_ids(found: dict[str, Any], id: str) -> None:
    """A number or a text; anything else is none."""
    assert message_id_in(found) == id


def test_no_context_no_field() -> None:
    """Without a context token the field is not there at all."""
    assert "context_token" not in message_body("u", "hi", "k", "")["msg"]
    assert message_body("u", "hi", "k", "c")["msg"]["context_token"] == "c"
