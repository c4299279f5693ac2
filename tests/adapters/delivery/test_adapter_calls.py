"""Calls into an adapter."""

import math
from dataclasses import replace
from typing import Any

import pytest

from fakes.probe import TARGET, Filer, Keyed, Probe, Tokened, Uploader, Ways, raises
from wakebus.adapters.base import Capabilities, File, Outgoing, Request, Target, Token
from wakebus.adapters.channel import parse
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter, checked_token, guarded
from wakebus.adapters.errors import (
    BadSetting,
    BrokenAdapter,
    Rejected,
    Unavailable,
)

TEXT = Outgoing("hi", "k")


def chat(adapter: Probe) -> GuardedAdapter:
    return GuardedAdapter(adapter, TARGET)


def test_guarded() -> None:
    """ADP-5.5: what was raised on purpose stays; a bug is named without its text."""
    assert guarded("probe", lambda: 1) == 1
    with pytest.raises(BadSetting):
        guarded("probe", raises(BadSetting("no")))
    with pytest.raises(BrokenAdapter, match=r"'probe' failed: KeyError at probe\.py:\d+$"):
        guarded("probe", raises(KeyError("hush")))


def test_measure() -> None:
    """ADP-5.7: the adapter's own measure, else the card's unit."""
    assert chat(Probe()).measure("中😀") == 2

    class Doubled(Probe):
        def measure(self, text: str) -> int:
            return 2 * len(text)

    assert chat(Doubled()).measure("中😀") == 4


def test_ways() -> None:
    """ADP-5.11: an adapter without ways has one; a bug in it is its own."""
    assert chat(Probe()).ways(TEXT) == [""]
    assert chat(Ways()).ways(TEXT) == ["first", "second", "last"]

    class Crooked(Ways):
        def ways(self, *_: Any) -> Any:
            raise KeyError("hush")

    with pytest.raises(BrokenAdapter):
        chat(Crooked()).ways(TEXT)


def test_key_time() -> None:
    """ADP-5.10: by way, else the card's; 0 where the adapter fails to say."""
    assert chat(Keyed()).key_time("") == 100
    assert chat(Ways()).key_time("last") == 100

    class Crooked(Ways):
        def key_time(self, *_: Any) -> Any:
            raise KeyError("hush")

    assert chat(Crooked()).key_time("last") == 0


def test_tokens() -> None:
    """ADP-5.12: only of adapters that need one, and only a token is one."""
    assert chat(Probe()).token_request("") is None
    assert chat(Tokened()).token_request("") is not None
    assert checked_token(Token("t", 1)).value == "t"
    for none in (None, Token(""), Token(7), "t"):  # type: ignore[arg-type]
        with pytest.raises(Unavailable):
            checked_token(none)  # type: ignore[arg-type]


def test_chats() -> None:
    """ADP-5.5: what is no target, or of no adapter, is a bug of it by name."""
    found = GuardedAdapter.resolve(parse("probe:bob"), {}, lambda platform: Probe)
    assert found.target.chat_id == "bob"
    assert chat(Probe()).at_id("bob").token == "probe:bob"
    assert chat(Probe()).at_token("probe:bob?thread=7").target == Target("probe", "bob", "7")

    class Crooked(Probe):
        def parse_target(self, chat_id: str, thread: str | None) -> Any:
            return chat_id

    with pytest.raises(BrokenAdapter):
        GuardedAdapter.resolve(parse("probe:bob"), {}, lambda platform: Crooked)
    with pytest.raises(BrokenAdapter):
        chat(Crooked()).at_id("bob")
    assert chat(Crooked()).token == ""


def test_always_safe() -> None:
    """ADP-6.8: where the same key never makes a second message, by whatever way."""

    class Always(Probe):
        capabilities = Capabilities(20, idempotent_s=math.inf)

    class OnSomeWays(Always, Ways):
        pass

    assert chat(Always()).always_safe
    assert not chat(Keyed()).always_safe and not chat(OnSomeWays()).always_safe


def test_upload() -> None:
    """ADP-5.24: None for an adapter that brings nothing anywhere; a bug in it is its own."""
    outgoing = Outgoing("", "k", file=File("a", b"x"))
    assert chat(Filer()).upload(outgoing) is None
    assert chat(Uploader()).upload(outgoing) is not None
    assert chat(Uploader()).upload(TEXT) is None

    class Crooked(Uploader):
        def upload(self, *_: Any) -> Any:
            raise KeyError("hush")

    with pytest.raises(BrokenAdapter):
        chat(Crooked()).upload(outgoing)


def test_rehearsed() -> None:
    """ADP-5.23, ADP-6.25: what a way would send is built before anything, without a token."""
    file = File("a", b"x" * 50)
    assert chat(Uploader()).rehearse(Outgoing("", "k", file=file), "").url == "up:where"
    assert b'"data": "x"' in chat(Filer()).rehearse(Outgoing("", "k", file=file), "").body
    assert not chat(Probe()).shows_reply(replace(TEXT, reply_to="m7"), "")

    class Replies(Probe):
        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            return Request(f"probe:{outgoing.reply_to}")

    assert chat(Replies()).shows_reply(replace(TEXT, reply_to="m7"), "")


def test_ways_elsewhere() -> None:
    """ADP-5.11: only those that lead to another place, and can carry it."""

    class Formats(Ways):
        def build_request(self, target: Target, outgoing: Outgoing) -> Request:
            if outgoing.way == "last":
                raise Rejected("not this one")
            return Request("probe:here" if outgoing.way == "first" else "probe:there")

    found = chat(Formats()).ways_elsewhere(TEXT, "first", ["first", "second", "last"])
    assert found == ["second"]


@pytest.mark.parametrize(
    ("token", "env", "host"),
    [
        (
            "webhook:ci",
            {"WEBHOOK_CI_URL": "https://Hooks.Example:8443/s3cret?x"},
            "hooks.example:8443",
        ),
        ("webhook:ci", {}, ""),
        ("apprise:ops", {"APPRISE_URL_OPS": "pover://user@s3cret"}, "apprise:ops"),
        ("apprise:ops", {}, ""),
        (
            "slack:webhook",
            {"SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/s"},
            "hooks.slack.com",
        ),
        ("slack:C0123456789", {"SLACK_BOT_TOKEN": "xoxb-1"}, "slack.com"),
        (
            "dingtalk:cidA",
            {"DINGTALK_CLIENT_ID": "i", "DINGTALK_CLIENT_SECRET": "s"},
            "api.dingtalk.com",
        ),
        ("ntfy:builds", {"NTFY_SERVER_URL": "https://ntfy.house"}, "ntfy.house"),
        ("console:team", {}, ""),
    ],
)
def test_host(token: str, env: dict[str, str], host: str) -> None:
    """ADP-6.37, ADP-3.11: by the request's URL, else by the adapter; never a secret."""
    assert GuardedAdapter.resolve(parse(token), env).host(TEXT) == host


def test_a_bug_in_host() -> None:
    """ADP-5.5: then the host is not known, and the delivery goes on."""

    class Hosted(Probe):
        def host(self, target: Target) -> str:
            raise KeyError("hush")

    assert chat(Hosted()).host(TEXT) == ""
