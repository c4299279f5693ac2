"""
Hermes's own adapters, the real classes of this generation, before a platform that is a stand-in.

What the table of them (plugin/hermes/host_api/adapter_limits.py) says holds for what is installed.
"""

import asyncio
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from wakebus.adapters.channel import parse
from wakebus.adapters.markdown import quiet, safe
from wakebus.plugin.hermes.host_api.adapter_limits import (
    exact_metadata,
    misdirection,
    text_limit,
    unconfirmed,
)

BUNDLED = "plugins.platforms.{}.adapter"
NEWER = importlib.util.find_spec("plugins.platforms.buzz") is not None  # 0.22
FOUND_ELSEWHERE = {
    "bluebubbles": "gateway.platforms.bluebubbles",
    "msgraph_webhook": "gateway.platforms.msgraph_webhook",
    "qqbot": "gateway.platforms.qqbot.adapter",
    "signal": "gateway.platforms.signal",
    "wecom_callback": "plugins.platforms.wecom.callback_adapter",
    "whatsapp_cloud": "gateway.platforms.whatsapp_cloud",
    "yuanbao": "gateway.platforms.yuanbao",
}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a maker of the real adapter of a platform; fields that are named are stand-ins."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))

    def make(platform: str, *connected: str, **extra: Any) -> Any:
        module = importlib.import_module(FOUND_ELSEWHERE.get(platform, BUNDLED.format(platform)))
        base = importlib.import_module("gateway.platforms.base").BasePlatformAdapter
        (kind,) = (
            found
            for found in vars(module).values()
            if isinstance(found, type)
            and issubclass(found, base)
            and found.__module__ == module.__name__
        )
        config = importlib.import_module("gateway.config").PlatformConfig(enabled=True, extra=extra)
        adapter = kind(config)
        for name in connected:
            setattr(adapter, name, MagicMock())
        return adapter

    return make


def sent(adapter: Any, chat: str, text: str, metadata: Any = None) -> Any:
    """Return the SendResult."""
    return asyncio.run(asyncio.wait_for(adapter.send(chat, text, metadata=metadata), 20))


@pytest.mark.parametrize("platform", ["a2a", "msgraph_webhook", "raft"])
def test_adapters_that_show_nothing(make: Callable[..., Any], platform: str) -> None:
    """HERMES-3.12: they say that all is well; so nothing is given to them."""
    if platform == "a2a" and not NEWER:
        pytest.skip("not in this generation")
    adapter = make(platform)
    assert sent(adapter, "c1", "text").success is True
    assert misdirection(adapter, parse(f"{platform}:c1"), seen=True)


# What an adapter must have to come as far as its posts.
CONNECTED = {
    "discord": ("_client",),
    "feishu": ("_client",),
    "matrix": ("_client",),
    "mattermost": ("_session",),
    "slack": ("_app",),
    "sms": ("_http_session",),
    "teams": ("_app",),
    "telegram": ("_bot",),
    "wecom": ("_ws",),
    "wecom_callback": ("_http_client",),
    "whatsapp": ("_http_session",),
    "whatsapp_cloud": ("_http_client",),
}


@pytest.mark.parametrize("char", ["x", "ж", "😀"])
@pytest.mark.parametrize("platform", sorted(CONNECTED))
def test_what_is_one_message(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, platform: str, char: str
) -> None:
    """HERMES-3.13: as much text as is sent in one is not split by the adapter, nor cut."""
    for name in ("ACCOUNT_SID", "AUTH_TOKEN", "PHONE_NUMBER"):
        monkeypatch.setenv(f"TWILIO_{name}", "x")
    adapter = make(platform, *CONNECTED[platform])
    adapter._running = True
    adapter._resolve_channel, adapter._resolve_app_for_chat = AsyncMock(), MagicMock()
    adapter._is_forum_parent = lambda channel: False
    limit = text_limit(adapter, platform)
    assert limit is not None
    text = char * (limit.limit // limit.measure(char))
    split, chunks = adapter.truncate_message, []

    def counted(*args: Any, **named: Any) -> Any:
        chunks.append(split(*args, **named))
        return chunks[-1]

    adapter.truncate_message = counted
    with suppress(Exception):  # the stand-in is no platform
        sent(adapter, "1", text)
    if "truncate_message" in inspect.getsource(type(adapter).send):
        assert [len(one) for one in chunks] == [1]
    else:  # it cuts
        assert len(text) <= getattr(adapter, "MAX_MESSAGE_LENGTH", 2048)


def test_a_button_that_waits_for_a_tap(make: Callable[..., Any]) -> None:
    """HERMES-3.12: LINE keeps a text for whoever taps, or a print is seen at once."""
    adapter = make("line", channel_access_token="x", channel_secret="x")
    adapter._client = MagicMock(push=AsyncMock())
    adapter._pending_buttons["U1"] = adapter._cache.register_pending("U1")
    channel = parse("line:U1")
    if not misdirection(adapter, channel, seen=True):
        assert sent(adapter, "U1", "a print", exact_metadata(adapter, channel, {})).success
        assert adapter._client.push.await_count == 1


def test_a_space_without_a_thread(make: Callable[..., Any]) -> None:
    """HERMES-3.12: newer Google Chat adapters post a print outside the thread last written in."""
    adapter = make("google_chat")
    adapter._last_inbound_thread["spaces/a"] = "spaces/a/threads/b"
    metadata = exact_metadata(adapter, parse("google_chat:spaces/a"), {})
    found = adapter._resolve_thread_id(None, metadata, chat_id="spaces/a")
    assert found is None or not NEWER
    assert adapter._resolve_thread_id(None, {**metadata, "thread_id": "t"}, "spaces/a") == "t"


def test_success_that_nobody_said(make: Callable[..., Any]) -> None:
    """HERMES-3.8: DingTalk's refusal is not read, SimpleX's socket may be broken: no `sent`."""
    dingtalk = make("dingtalk")
    refusal = MagicMock(status_code=200, text='{"errcode": 130101, "errmsg": "send too fast"}')
    dingtalk._http_client = MagicMock(post=AsyncMock(return_value=refusal))
    webhook = {"session_webhook": "https://oapi.dingtalk.com/robot/sendBySession?session=x"}
    assert sent(dingtalk, "cid1", "text", webhook).success and unconfirmed("dingtalk")
    simplex = make("simplex")
    simplex._ws = MagicMock(send=AsyncMock(side_effect=ConnectionResetError))
    assert sent(simplex, "1", "text").success and unconfirmed("simplex")


def test_nobody_is_mentioned_in_matrix(make: Callable[..., Any]) -> None:
    """HERMES-3.14: where Hermes makes mentions of texts, a print has none."""
    adapter = make("matrix")
    adapter._allow_room_mentions = True
    text = "@room and @u1:server.org, [u1](https://matrix.to/#/@u1:server.org)"
    assert "m.mentions" in adapter._build_text_message_content(text)
    quietly = adapter._build_text_message_content(quiet(safe(text)))
    assert "m.mentions" not in quietly and "matrix.to/#/@" not in str(quietly), quietly


@pytest.mark.skipif(not NEWER, reason="not in this generation")
@pytest.mark.parametrize("mode", ["off", "first"])
def test_a_thread_in_buzz(make: Callable[..., Any], mode: str) -> None:
    """HERMES-3.12, 3.14: in the thread, or not given to it; nobody is mentioned."""
    adapter = make("buzz", reply_to_mode=mode)
    adapter._self_pubkey = "bot"
    adapter._channel_member_pubkeys = AsyncMock(return_value=["pk1"])
    adapter._profile_display_name = AsyncMock(return_value="Riley")
    adapter._run_cli = AsyncMock(return_value=(0, '{"accepted": true, "event_id": "e1"}', ""))
    channel, text = parse("buzz:c1?thread=e0"), quiet(safe("@Riley look"))
    metadata = exact_metadata(adapter, channel, {"thread_id": "e0"})
    result = sent(adapter, "c1", text, metadata)
    (args,) = adapter._run_cli.await_args.args
    assert (result.success, result.message_id, "--mention" in args) == (True, "e1", False)
    assert ("--reply-to" in args) is (misdirection(adapter, channel, seen=True) == "")
