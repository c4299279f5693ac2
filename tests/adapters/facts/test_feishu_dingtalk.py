"""What Feishu and DingTalk say and want to hear."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import markdown
from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import DeliveryError, Throttled, Uncertain
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.platforms import dingtalk_facts as dingtalk
from wakebus.adapters.platforms import feishu_facts as feishu
from wakebus.adapters.platforms.dingtalk import DingTalk
from wakebus.adapters.platforms.feishu import Feishu

HOOK = "https://open.feishu.cn/open-apis/bot/v2/hook/x"


@given(st.text(st.sampled_from('a"\\\n 中😀')), st.text(st.sampled_from('a"\\\n 中😀')))
def test_a_longer_text_measures_more(one: str, two: str) -> None:
    """Cutting finds its place by halving: the measure grows with the text."""
    for change in (marks.dingtalk, feishu.without_mentions):
        assert bodies.nested(change(one)) <= bodies.nested(change(one + two))


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
    assert feishu.without_mentions(text) == shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["\n", "[", "![", "`", "< ", "<", "|", "*", "  ", "![a](", "<\n/"])
def test_a_hostile_text(unit: str) -> None:
    """A hundred kilobytes of marks are read in no time worth speaking of, not in its square."""
    text = unit * (1 << 16)
    feishu.measure(text)
    feishu.measure(unit * (15_000 // len(unit)))
    marks.safe(feishu.without_mentions(text))
    dingtalk.titled(text)


TABLE = "| a | **b** |\n|---|--:|\n| 中文 | <at id=all> |"


WIDE = f"\n| {'x' * 40} | y |\n|-|-|\n" + "|a|b|\n" * 50


@given(markdown.texts(), st.sampled_from(["", TABLE, WIDE, f"> {TABLE}"]))
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
    md = json.loads(feishu.message("post", Outgoing(f"x\n\n{TABLE}\n\n- y", "k"))["content"])
    shown = md["zh_cn"]["content"][0][0]["text"]
    first, _, last = shown.partition("\n\n```\n")
    assert first == "x" and last.endswith("```\n\n- y") and "| a |" not in shown
    assert "＜at id=all>" in shown and "中文" in shown and "**" not in shown
    plain = json.loads(feishu.message("text", Outgoing(TABLE, "k"))["content"])["text"]
    assert plain == feishu.without_mentions(TABLE)


def test_a_mention_by_its_entity_in_a_table() -> None:
    """ADP-9.7: what a cell's entity names is in a block of code, and calls nobody there either."""
    text = "|a|\n|-|\n|&lt;at user_id=all&gt;|"
    content = feishu.message("post", Outgoing(text, "k"))["content"]
    assert "＜at user_id=all>" in content and "<at" not in content


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
    assert dingtalk.titled(text)["title"] == title


def test_an_unsigned_robot() -> None:
    """Without a secret the URL stays as it is; with one it gets a query."""
    assert dingtalk.signed("https://x/", "", 1.0) == "https://x/"
    assert dingtalk.signed("https://x/", "s", 1.0).startswith("https://x/?timestamp=1000&")


@pytest.mark.parametrize(
    "body",
    [{"code": 0}, {"StatusCode": 0}, {"code": 0, "StatusCode": 1}],
)
def test_of_feishu(body: dict[str, Any]) -> None:
    """Code 0, or an old custom bot's StatusCode, with a 2xx."""
    data = json.dumps(body).encode()
    assert feishu.read(Response(200, data)) == body
    for status in (302, 400, 500):
        with pytest.raises(DeliveryError):
            feishu.read(Response(status, data))


def test_of_dingtalk() -> None:
    """No error code, no list with the user in it."""
    for body in (
        {"errcode": 0, "errmsg": "ok"},
        {"processQueryKey": "k", "invalidStaffIdList": []},
    ):
        assert dingtalk.read(Response(200, json.dumps(body).encode())) == body
    for bad in ({"errcode": 0.5}, {"errcode": None}, {"errcode": False}, {"errcode": "0"}):
        with pytest.raises(Uncertain):
            dingtalk.read(Response(200, json.dumps(bad).encode()))


VALUE = (
    st.none() | st.booleans() | st.integers(-1, 1) | st.floats() | st.sampled_from(["", "a", []])
)


LISTS = ("invalidStaffIdList", "filteredStaffIdList", "flowControlledStaffIdList")


NAMES = ("code", "StatusCode", "errcode", "processQueryKey", "punish", "msg", "data", *LISTS)


@given(
    st.sampled_from([200, 201, 302, 400, 429, 500]), st.dictionaries(st.sampled_from(NAMES), VALUE)
)
def test_a_success_is_exactly_that(status: int, body: dict[str, Any]) -> None:
    """B11, B12: whatever stands in an answer, `sent` is a 2xx with the platform's own criterion."""
    response = Response(status, json.dumps(body).encode())
    for adapter in (Feishu({}), DingTalk({})):
        try:
            adapter.parse_response(response)
        except DeliveryError:
            continue
        assert 200 <= status < 300
        if isinstance(adapter, Feishu):
            assert body.get("code", body.get("StatusCode")) == 0
        else:
            assert body["processQueryKey"] == "a"  # no `errmsg` is "ok"
            assert not any(body.get(name) for name in (*LISTS, "punish"))


def test_b18_what_looks_permanent_is_not() -> None:
    """B18: the codes that others took for final are throttles or refused tokens."""
    assert {feishu.CODES[code].kind for code in (99991400, 230020, 11232)} == {"throttled"}
    assert feishu.CODES[99991663].kind == "token"
    assert dingtalk.CODES["Forbidden.AccessDenied.QpsLimitForAppkeyAndApi"].kind == "throttled"


def test_b20_what_looks_passing_is_not() -> None:
    """B20: what no later try mends is final: quotas of a month, ids, abilities."""
    assert feishu.CODES[230006].kind == feishu.CODES[230001].kind == "rejected"
    assert dingtalk.CODES["Forbidden.AccessDenied.ApiCountLimitForOrg"].kind == "rejected"
    assert dingtalk.WEBHOOK_CODES[90020].kind == dingtalk.WEBHOOK_CODES[310000].kind == "rejected"


def test_advice_for_what_is_mended_by_hand() -> None:
    """A listed rejection says what to do next."""
    for table in (feishu.CODES, dingtalk.CODES, dingtalk.WEBHOOK_CODES):
        assert all(found.advice for found in table.values() if found.kind == "rejected")


@pytest.mark.parametrize(
    ("channel", "kind", "found"),
    [
        ("feishu", "chat_id", [(5, 1, "chat"), (50, 1, "app"), (1000, 60, "app")]),
        ("feishu", "webhook", [(5, 1, "chat"), (100, 60, "chat")]),
        ("dingtalk", "group", [(20, 1, "app")]),
        ("dingtalk", "user", [(20, 1, "app")]),
        ("dingtalk", "webhook", [(20, 60, "chat")]),
    ],
)
def test_limits(channel: str, kind: str, found: list[tuple[int, float, str]]) -> None:
    """Each kind of chat is kept to what is published for it; groups and people are two APIs."""
    card = {"feishu": feishu.LIMITS, "dingtalk": dingtalk.LIMITS}[channel]
    mine = [limit for limit in card if not limit.kinds or kind in limit.kinds]
    assert [(limit.count, limit.seconds, limit.scope) for limit in mine] == found


@pytest.mark.parametrize(
    ("read", "body", "scope"),
    [
        (feishu.read, {"code": 99991400, "msg": "frequency limit"}, "app"),
        (feishu.read, {"code": 11232, "msg": "tenant"}, "app"),
        (feishu.read, {"code": 230020, "msg": "ext=chat rate limit"}, "chat"),
        (dingtalk.read, {"code": "Forbidden.AccessDenied.QpsLimitForApi", "message": ""}, "app"),
        (dingtalk.read, {"errcode": 90018, "errmsg": "too fast"}, "app"),
        (dingtalk.read, {"status": 1111, "punish": "deny"}, "app"),
        (dingtalk.read, {"code": "send.too.fast", "message": ""}, "chat"),
        (dingtalk.read, {"errcode": 130101, "errmsg": "send too fast"}, "chat"),
    ],
)
def test_whom_a_throttle_holds(
    read: Callable[[Response], object], body: dict[str, Any], scope: str
) -> None:
    """ADP-6.17: all of the app, or this chat alone."""
    with pytest.raises(Throttled) as caught:
        read(Response(400, json.dumps(body).encode()))
    assert caught.value.scope == scope
