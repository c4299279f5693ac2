"""The platform `apprise`: names of the settings, and what a yes and a no of Apprise's mean."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters import registry
from wakebus.adapters.base import Outgoing, Response
from wakebus.adapters.errors import BadSetting, BadTarget, DeliveryError, Rejected, Uncertain
from wakebus.adapters.platforms.apprise import Apprise, check_answer, own_adapter_hint
from wakebus.adapters.settings.redact import redacted_request

MAIL = "mailto://me:hush-pass@example.com"


@pytest.mark.parametrize("chat", ["ops-mail", "OPS_MAIL"])
def test_names(chat: str) -> None:
    """ADP-21.1: a name is its variable's, in capitals, with _ for -."""
    adapter = Apprise({"APPRISE_URL_OPS_MAIL": MAIL})
    request = adapter.build_request(adapter.parse_target(chat, None), Outgoing("hi 中", "k"))
    assert (request.scheme, request.body) == ("apprise", "hi 中".encode())
    assert MAIL in request.headers.values()


@pytest.mark.parametrize("chat", ["mailto://me@example.com", "json://evil.example", "a.b", ""])
def test_a_url_is_no_chat(chat: str) -> None:
    """ADP-21.1: who writes a message does not choose where it goes."""
    with pytest.raises(BadTarget, match=r"APPRISE_URL_<NAME>"):
        Apprise({}).parse_target(chat, None)


def test_a_name_without_a_url() -> None:
    """ADP-21.1: the variable is named, and those that there are."""
    adapter = Apprise({"APPRISE_URL_MAIL": MAIL})
    with pytest.raises(BadSetting, match=r"APPRISE_URL_OPS_MAIL: .*; set are APPRISE_URL_MAIL$"):
        adapter.build_request(adapter.parse_target("ops-mail", None), Outgoing("hi", "k"))


@pytest.mark.parametrize(
    ("url", "platform"),
    [
        ("wecombot://hush", "wecom"),
        ("FEISHU://hush", "feishu"),
        ("lark://hush", "feishu"),
        ("dingtalk://hush/1", "dingtalk"),
        ("tgram://hush/1", "telegram"),
        ("slack://hush", "slack"),
        ("discord://hush/1", "discord"),
        ("mmosts://hush", "mattermost"),
        ("matrixs://hush", "matrix"),
        ("ntfys://hush", "ntfy"),
    ],
)
def test_b11_services_of_ours(url: str, platform: str) -> None:
    """B11, ADP-21.3: where we read the answer ourselves, Apprise's yes is not asked for."""
    adapter = Apprise({"APPRISE_URL_X": url})
    with pytest.raises(BadSetting, match=f"APPRISE_URL_X: .*{platform}:CHAT") as caught:
        adapter.build_request(adapter.parse_target("x", None), Outgoing("hi", "k"))
    assert "hush" not in caught.value.text


def test_what_answers_mean() -> None:
    """ADP-21.2: yes is sent, without an id; a no does not say how far it came."""
    adapter = Apprise({})
    assert adapter.parse_response(Response(200, b'{"sent": true}')).id == ""
    with pytest.raises(Uncertain, match="Apprise says"):
        adapter.parse_response(Response(200, b'{"sent": false}'))
    with pytest.raises(Rejected, match="pip install"):
        adapter.parse_response(Response(400, b'{"error": "pip install it"}'))
    assert adapter.capabilities.idempotent_s == 0


def test_a_request_that_is_shown() -> None:
    """ADP-21.7: `--dry-run` shows the text, and no part of the URL."""
    adapter = Apprise({"APPRISE_URL_MAIL": MAIL})
    request = adapter.build_request(adapter.parse_target("mail", None), Outgoing("hi", "k"))
    shown = f"{redacted_request(request)} {request!r}"
    assert "hush" not in shown and "example.com" not in shown and "'body': 'hi'" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@all @**all** (@bob) 请@everyone _@x_", "@Zall @Z**all** (@Zbob) 请@Zeveryone _@Zx_"),
        ("<users/all> <!here> <at>x</at> <@U1>", "＜users/all> ＜!here> ＜at>x＜/at> <@ZU1>"),
        ("me@b.c mailto:me@b.c https://m.s/@bob", "me@b.c mailto:me@b.c https://m.s/%40bob"),
        ("a < b <users> @ x", "a < b <users> @Z x"),
    ],
)
def test_nobody_is_mentioned(text: str, shown: str) -> None:
    """ADP-21.8: nor measured shorter than it goes out; an e-mail's address stays one."""
    adapter = Apprise({"APPRISE_URL_X": MAIL})
    wanted = shown.replace("Z", "\u200b")
    request = adapter.build_request(adapter.parse_target("x", None), Outgoing(text, "k"))
    assert request.body.decode() == wanted and adapter.measure(text) == len(wanted)


@given(st.sampled_from([0, 200, 400, 500]), st.sampled_from([True, False, None, 1, "true"]))
@settings(max_examples=40, deadline=None)
def test_a_yes_is_exactly_that(status: int, said: object) -> None:
    """Nothing but a 200 with a true is one."""
    try:
        check_answer(Response(status, json.dumps({"sent": said}).encode()))
    except DeliveryError:
        return
    assert status == 200 and said is True


@pytest.mark.parametrize(
    "scheme",
    [
        *("wecombot", "feishu", "lark", "dingtalk", "tgram", "slack", "discord", "mmost"),
        *("mmosts", "matrix", "matrixs", "ntfy", "ntfys"),
    ],
)
def test_b11_who_is_ours(scheme: str) -> None:
    """B11: the platform that is named instead is one that is there."""
    said = own_adapter_hint(["x", scheme])
    platform = said.partition("use ")[2].partition(":")[0]
    assert platform in registry.found()


def test_anybody_else() -> None:
    """Everything that no adapter of ours reaches."""
    assert own_adapter_hint(["mailto", "pover", "msteams"]) == ""
