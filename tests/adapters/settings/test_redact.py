"""Requests as they may be shown."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.base import Request
from wakebus.adapters.settings.redact import is_secret, redact, redacted_request, secret_values

HUSH = "hush-7f3a"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/send?access_token=abc&timestamp=1700000000000&sign=x%3D", None),
        ("https://h/im/v1/messages?receive_id_type=chat_id", "=chat_id"),
        ("https://h/open-apis/bot/v2/hook/" + HUSH, "/bot/v2/hook/***"),
        ("https://h/api/webhooks/123/" + HUSH, "/api/webhooks/***"),
        ("https://hooks.slack.com/services/T0/B0/" + HUSH, "/services/***"),
        ("https://h/bot123:" + HUSH + "/sendMessage", "/bot***/sendMessage"),
        ("https://h/robot/sendBySession?session=" + HUSH, "?session=***"),
        ("https://h/cgi-bin/send?key=0a1b-2c3d&debug=1", "?key=***&debug=1"),
        ("https://user:" + HUSH + "@h/x", "//***@h/x"),
        ("https://h/x?" + HUSH, "?***"),
        ("console:demo", "console:demo"),
    ],
)
def test_urls(url: str, shown: str | None) -> None:
    """ADP-5.14: by place and by name, without knowing the secret; plain words stay."""
    found = redacted_request(Request(url))["url"]
    assert HUSH not in found
    assert (shown or "access_token=***&timestamp=1700000000000&sign=***") in found


def test_headers() -> None:
    """ADP-5.14: what a header's name calls a credential; the rest is shown."""
    names = (
        "Authorization",
        "x-acs-dingtalk-access-token",
        "Cookie",
        "X-Api-Key",
        "webhook-signature",
    )
    headers = {**dict.fromkeys(names, HUSH), "Content-Type": "text/plain", "key": "k1"}
    shown = redacted_request(Request("https://h/", b"", headers))["headers"]
    assert [shown[name] for name in names] == ["***"] * 5
    assert (shown["Content-Type"], shown["key"]) == ("text/plain", "k1")


def test_bodies() -> None:
    """ADP-5.14: JSON fields by their name; the text is shown as it is, escapes and all."""
    body = {"app_secret": 'a"b', "sign": "x", "msg_type": "text", "content": '{"text":"my token"}'}
    raw = json.dumps(body, ensure_ascii=False).encode()
    shown = json.loads(redacted_request(Request("https://h/", raw))["body"])
    assert shown == {**body, "app_secret": "***", "sign": "***"}
    assert redacted_request(Request("https://h/", "text: 中文".encode()))["body"] == "text: 中文"
    assert redacted_request(Request("https://h/", b"\xff"))["body"] == "\ufffd"


@given(st.text(min_size=6, max_size=20), st.text(max_size=20))
def test_known_values(secret: str, around: str) -> None:
    """ADP-5.14: a setting's value is hidden wherever it stands, as it is or escaped."""
    secret = secret.encode(errors="replace").decode()
    code = base64.b64encode(secret.encode()).decode()
    forms = (
        *(secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]),
        *(json.dumps(secret, ensure_ascii=False)[1:-1], code, code.rstrip("=")),
        base64.urlsafe_b64encode(secret.encode()).decode(),
    )
    for form in forms:
        assert form not in redact(f"<{form}>", [secret])
    request = Request(f"https://h/p/{quote(secret, safe='')}", secret.encode(), {"x": secret})
    shown = redacted_request(request, [secret])
    assert shown["body"] == "***" and shown["headers"] == {"x": "***"}
    assert shown["url"] == "https://h/p/***"


def test_what_a_header_makes_of_a_name_and_a_password() -> None:
    """ADP-5.14: ntfy's `user:password` is hidden in `Basic …`, too, and `%2f` as `%2F`."""
    held = secret_values({"NTFY_TOKEN": "ada:hush/hush"})
    code = base64.b64encode(b"ada:hush/hush").decode()
    assert redact(f"Basic {code} ada%3ahush%2fhush", held) == "Basic *** ***"
    assert redact("no such password: hush/hush", held) == "no such password: ***"


def test_one_secret_inside_another() -> None:
    """ADP-5.14: the longer one is hidden first, so that no rest of it is left."""
    assert redact("abcdef-123456", ["abcdef", "abcdef-123456"]) == "***"


def test_which_settings_are_secret() -> None:
    """ADP-5.14: by name; of a webhook's URL what is secret in it, not its host."""
    env = {
        "FEISHU_APP_ID": "cli_a-public",
        "FEISHU_APP_SECRET": HUSH,
        "SLACK_BOT_TOKEN": "xoxb-12345",
        "SOME_KEY": "k-123456",
        "X_PASSWORD": "pw-12345",
        "SHORT_KEY": "k",
        "DINGTALK_WEBHOOK_URL": "https://oapi.dingtalk.com/robot/send?access_token=abcdef12&v=1",
        "FEISHU_WEBHOOK_URL": "https://open.feishu.cn/open-apis/bot/v2/hook/0a1b2c3d-0a1b-0a1b",
        "DINGTALK_WEBHOOK_BASE": "http://127.0.0.1:8080",
        "BAD_WEBHOOK_URL": "https://[broken",
        "PATH": "/usr/bin",
    }
    assert secret_values(env) == {
        *(HUSH, "xoxb-12345", "k-123456", "pw-12345", "abcdef12", "0a1b2c3d-0a1b-0a1b"),
        "https://[broken",
        *("/open-apis/bot/v2/hook/0a1b2c3d-0a1b-0a1b", "/robot/send?access_token=abcdef12&v=1"),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("WEBHOOK_HOME_CHANNEL", "WEBHOOK_HOME_CHANNEL_THREAD_ID", "MATRIX_HOME_ROOM"),
        *("WEBHOOK_RATE_APP", "WEBHOOK_RATE_CHAT", "WEBHOOK_HOST", "FEISHU_WEBHOOK_PORT"),
        *("DINGTALK_WEBHOOK_BASE", "APPRISE_HOME_CHANNEL", "SIGNAL_HOME_CHANNEL", "WEBHOOK_ON"),
    ],
)
def test_what_belongs_to_a_webhook_and_is_no_secret(name: str) -> None:
    """ADP-5.14: chats, paces, hosts: shown, and not hidden in texts that have the same words."""
    assert not is_secret(name) and not secret_values({name: "deploys"})


@pytest.mark.parametrize(
    "name",
    [
        *("WEBHOOK_CI_URL", "WEBHOOK_CI_SECRET", "SLACK_WEBHOOK_URL", "SLACK_WEBHOOK", "WEBHOOKS"),
        *("MY_WEBHOOK_URL_2", "WEBHOOK_PORT_TOKEN", "APPRISE_URL_OPS", "APPRISE_URL_MY_HOST"),
    ],
)
def test_what_is_one_whatever_it_is_called(name: str) -> None:
    """ADP-5.14: the URL of a webhook is a credential, whatever its name is."""
    assert is_secret(name)


@pytest.mark.parametrize(
    ("name", "url", "said"),
    [
        ("WEBHOOK_A_URL", "https://h/in/short9", "Cannot POST /in/short9"),
        ("WEBHOOK_A_URL", "https://h/in?k=q9", "Cannot POST /in?k=q9"),
        ("FEISHU_WEBHOOK_URL", "https://h/bot/v2/hook/tok1", "no route /bot/v2/hook/tok1"),
    ],
)
def test_what_a_server_quotes_of_a_webhook(name: str, url: str, said: str) -> None:
    """ADP-5.14: its path is a credential, however short."""
    shown = redact(said, secret_values({name: url}))
    assert shown == said.partition(" /")[0] + " ***"


def test_a_path_that_everybody_knows() -> None:
    """DingTalk's is the same for all: it hides nothing by itself."""
    known = secret_values({"DINGTALK_WEBHOOK_URL": "https://h/robot/send?access_token=abcdef12"})
    assert redact("POST /robot/send", known) == "POST /robot/send"
