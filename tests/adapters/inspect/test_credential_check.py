"""`wakebus channels check`: whether a platform takes the credential."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from fakes.platform import Platform
from wakebus.adapters import registry
from wakebus.adapters.base import Capabilities, Outgoing, Request, Response, Sent, Target, Token
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.errors import Rejected, Throttled, Unavailable, Uncertain
from wakebus.adapters.inspect.credential_check import (
    NO_CALL,
    TOKEN,
    CredentialCheck,
    can_check,
    check_credential,
)
from wakebus.adapters.settings.redact import secret_values
from wakebus.adapters.transports.https import Https

HTTPS = Https()


@pytest.fixture(scope="module")
def platform() -> Iterator[Platform]:
    """All platforms on loopback."""
    found = Platform()
    yield found
    found.close()


def asked(platform: str, env: Mapping[str, str]) -> CredentialCheck:
    """Check over the real transport."""
    context = DeliveryContext({"http": HTTPS, "https": HTTPS})
    return check_credential(platform, registry.load(platform)(env), context, secret_values(env))


GOOD = {
    "telegram": "@busbot",
    "slack": "bus in T1",
    "discord": "bus (id 1)",
    "mattermost": "@bus",
    "matrix": "@bus:localhost",
    "ntfy": "bus",
    "feishu": TOKEN,
    "dingtalk": TOKEN,
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_credential(platform: Platform, name: str) -> None:
    """ADP-22.3: the platform says who we are, or gives a token; nothing reaches a chat."""
    before = len(platform.messages)
    assert asked(name, platform.settings(name)) == CredentialCheck("ok", GOOD[name])
    assert len(platform.messages) == before
    assert not [seen for seen in platform.seen if seen.route in ("send", "webhook", "session")]


WRONG = {
    "telegram": {"TELEGRAM_BOT_TOKEN": "123456789:AAWrong-wrong_wrong-wrong_wrong-wro"},
    "slack": {"SLACK_BOT_TOKEN": "xoxb-1-2-wrong"},
    "discord": {"DISCORD_BOT_TOKEN": "MTIz.wrong.wrong-wrong"},
    "matrix": {"MATRIX_ACCESS_TOKEN": "wrong-token"},
    "ntfy": {"NTFY_TOKEN": "tk_wrong0wrong0wrong0wrong0wron"},
    "feishu": {"FEISHU_APP_SECRET": "wrong"},
    "dingtalk": {"DINGTALK_CLIENT_SECRET": "wrong"},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_credential(platform: Platform, name: str) -> None:
    """ADP-22.3: the platform's own words, without the credential."""
    env = platform.settings(name) | WRONG[name]
    word, text = asked(name, env)
    assert word == "failed" and text
    assert not [value for value in WRONG[name].values() if value in text and len(value) > 5]


@pytest.mark.parametrize("name", ["console", "webhook", "weixin"])
def test_no_harmless_call(platform: Platform, name: str) -> None:
    """ADP-22.3: it is said that this cannot be known; that is no failure."""
    assert asked(name, platform.settings("webhook", "weixin")) == CredentialCheck("none", NO_CALL)


def test_only_a_webhook() -> None:
    """ADP-22.3: a custom bot's URL can only be tried by sending."""
    hook = "https://open.feishu.cn/open-apis/bot/v2/hook/aa-bb"
    word, text = asked("feishu", {"FEISHU_WEBHOOK_URL": hook})
    assert word == "none" and "a webhook" in text


class Plain:
    """An adapter with nothing to check."""

    capabilities: ClassVar = Capabilities(100)

    def __init__(self, env: Mapping[str, str]) -> None: ...

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return any chat."""
        return Target("x", chat_id)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Never called here."""
        raise AssertionError

    def parse_response(self, response: Response) -> Sent:
        """Never called here."""
        raise AssertionError


class Asking(Plain):
    """One whose check says what it is told to; with a token if there is one."""

    check_way: ClassVar = "app"
    said: Any = "me"
    token: Any = Token("t-hush-hush", 60)
    request: Any = Request("x://h/check", method="GET")

    def token_request(self, way: str) -> Request | None:
        """Return the request for the way that is checked."""
        return Request("x://h/token") if way == "app" and self.token is not None else None

    def parse_token(self, response: Response) -> Token:
        """Return the token, or raise."""
        return done(self.token)  # type: ignore[no-any-return]

    def check_request(self, token: str) -> Request | None:
        """Return the request, or raise."""
        return done(self.request)  # type: ignore[no-any-return]

    def parse_check(self, response: Response) -> str:
        """Return who we are, or raise."""
        return done(self.said)  # type: ignore[no-any-return]


def done(what: Any) -> Any:
    """Return it; an exception is raised."""
    if isinstance(what, Exception):
        raise what
    return what


def told(**ways: Any) -> CredentialCheck:
    """Check an adapter that behaves so."""
    adapter = Asking({})
    for name, value in ways.items():
        setattr(adapter, name, value)
    context = DeliveryContext({"x": lambda request: Response(200)})
    return check_credential("x", adapter, context, {"secret-value"})


@pytest.mark.parametrize(
    ("ways", "found"),
    [
        ({}, CredentialCheck("ok", "me")),
        ({"said": ""}, CredentialCheck("ok", "the credential is good")),
        ({"token": None}, CredentialCheck("ok", "me")),
        ({"request": None}, CredentialCheck("ok", TOKEN)),
        ({"said": Rejected("401: no")}, CredentialCheck("failed", "401: no")),
        ({"said": Throttled("too fast")}, CredentialCheck("failed", "too fast")),
        ({"said": Rejected("secret-value is wrong")}, CredentialCheck("failed", "*** is wrong")),
        ({"said": Rejected("t-hush-hush is wrong")}, CredentialCheck("failed", "*** is wrong")),
        ({"said": Uncertain("half an answer")}, None),
        ({"token": Unavailable("no token")}, CredentialCheck("failed", "no token")),
        ({"token": Token("")}, None),
        ({"said": KeyError("hush")}, None),
        ({"said": 7}, None),
        ({"request": KeyError("hush")}, None),
        ({"request": Request("y://h")}, CredentialCheck("failed", "nothing here speaks 'y'")),
        ({"said": "two\nlines\x1b[2J"}, None),
    ],
)
def test_whatever_comes(ways: dict[str, Any], found: CredentialCheck | None) -> None:
    """ADP-22.3: a word and a line, whatever an adapter or a platform does; no secret in it."""
    word, text = told(**ways)
    assert found in (None, (word, text))
    assert word in ("ok", "failed") and text.isprintable() and "hush" not in text
    assert word == ("failed" if found is None and "two" not in text else word)


def test_what_can_be_checked() -> None:
    """ADP-22.1: known of the class, before any setting is there."""
    assert can_check(Asking) and not can_check(Plain)
    assert check_credential("x", Plain({}), DeliveryContext({})) == CredentialCheck("none", NO_CALL)
