"""Prints in a chat, and what is told of them."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import Platform, SendResult, Town, group
from fakes.host import deliver
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.gateway import live_send
from wakebus.plugin.hermes.gateway.conversations import Conversations
from wakebus.plugin.hermes.gateway.live_send import LiveSender, channel_result, result_of_call
from wakebus.plugin.hermes.host_api.protocol import Unreachable

FAILED = SendResult(False, error="Failed to create post")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (SendResult(True, "p1"), {"result": "sent", "id": "p1"}),
        (SendResult(True), {"result": "sent"}),
        (SendResult(False, error="x", error_kind="too_long"), {"result": "rejected"}),
        (SendResult(False, error="x", error_kind="bad_format"), {"result": "rejected"}),
        (SendResult(False, error="x", error_kind="forbidden"), {"result": "rejected"}),
        (SendResult(False, error="x", error_kind="not_found"), {"result": "rejected"}),
        (
            SendResult(False, error="x", error_kind="rate_limited", retry_after=2),
            {"result": "not_sent", "retry_after": 2.0, "reason": "rate_limited: x"},
        ),
        (SendResult(False, error="x", error_kind="transient"), {"result": "uncertain"}),
        (SendResult(False, error="x", error_kind="unknown"), {"result": "uncertain"}),
        (FAILED, {"result": "uncertain", "reason": "Failed to create post"}),
        (SendResult(False), {"result": "uncertain", "reason": "the adapter does not say"}),
        (SendResult(False, error="Not connected"), {"result": "not_sent"}),
        (
            SendResult(False, error="No valid session_webhook available. Reply must follow …"),
            {"result": "not_sent"},
        ),
        (None, {"result": "uncertain"}),
        (True, {"result": "uncertain"}),
        (SimpleNamespace(success="yes"), {"result": "uncertain"}),
    ],
)
def test_a_send_result(result: Any, expected: dict[str, Any]) -> None:
    """HERMES-3.8, peer failure 5: the object is true also when it failed; its fields are read."""
    found = channel_result(result, 7.0)
    assert expected.items() <= found.items() and found["at"] == 7.0
    assert ("reason" in found) == (found["result"] != "sent")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("gone"), "not_sent"),
        (TimeoutError(), "uncertain"),
        (RuntimeError("boom"), "uncertain"),
    ],
)
def test_a_send_that_raises(error: Exception, expected: str) -> None:
    """HERMES-3.8: only what was certainly not tried is `not_sent`."""

    def send() -> Any:
        raise error

    assert result_of_call(send)["result"] == expected


class Courier:
    """Answers.show, as far as it is called: what it says, and how often."""

    def __init__(self, *says: str) -> None:
        self.says, self.asked = list(says), 0
        self.to: list[str] = []

    def show(self, delivery: Any, text: str, channel: str = "") -> dict[str, Any]:
        """The next word."""
        self.asked += 1
        self.to.append(channel)
        word = self.says.pop(0) if self.says else "not_sent"
        return {"result": word, "at": 1.0, **({} if word == "queued" else {"reason": "no courier"})}


Print = Callable[..., dict[str, Any]]


@pytest.fixture
def courier() -> Courier:
    return Courier()


@pytest.fixture
def show(town: Town, courier: Courier) -> Print:
    """Return a printer of a text in a channel."""
    conversations = Conversations(town.hermes, {"DINGTALK_HOME_CHANNEL": "env1"})
    sender = LiveSender(conversations, courier, threading.Event())  # type: ignore[arg-type]

    def show(channel: str, text: str = "text") -> dict[str, Any]:
        body = {"text": text, "channel": channel}
        return sender.show(deliver(Message("m1", 1.0, "alpha", "gw", body)), text)

    return show


def test_the_live_adapter(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: in the chat and thread that the channel names."""
    assert show("mattermost:grp1")["result"] == "sent"
    town.runner.session_store.put(group(thread_id="t1"))
    assert show("mattermost:grp1?thread=t1")["to"] == "mattermost:grp1?thread=t1"
    assert town.adapter.posts == [
        ("grp1", "text", None),
        ("grp1", "text", {"thread_id": "t1"}),
    ]
    assert courier.asked == 0


def test_a_platform_that_is_ill(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8, peer failure 5: 500 is told, and said once: never by another way as well."""
    town.adapter.sends = [FAILED, SendResult(False, error="gone", error_kind="not_found")]
    assert [show("mattermost:grp1")["result"] for _ in "12"] == ["uncertain", "rejected"]
    town.adapter.sends = [RuntimeError("boom"), None]
    assert [show("mattermost:grp1")["result"] for _ in "12"] == ["uncertain", "uncertain"]
    assert courier.asked == 0 and town.adapter.posts == []


def test_dingtalk_without_its_webhook(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: what the adapter did not try, our own adapter does (OpenAPI)."""
    courier.says = ["queued"]
    error = "No valid session_webhook available. Reply must follow an incoming message."
    town.runner.adapters[Platform.DINGTALK].sends = [SendResult(False, error=error)]
    assert show("dingtalk:cid1")["result"] == "queued" and courier.asked == 1


def test_a_platform_of_others(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: one that this gateway has not is our courier's, or nobody's."""
    courier.says = ["queued"]
    assert show("slack:C1")["result"] == "queued"
    missed = show("slack:C1")
    assert missed["result"] == "not_sent" and "no slack here; no courier" in missed["reason"]


def test_one_that_is_not_connected(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: so is one that went away between placing and printing."""
    del town.runner.adapters[Platform.MATTERMOST]
    assert show("mattermost:grp1")["result"] == "not_sent" and courier.asked == 1


def test_a_platform_that_asks_to_wait(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: without another way it is sent again after the time it says."""
    wait = SendResult(False, error="slow", error_kind="rate_limited", retry_after=0.01)
    town.adapter.sends = [wait, wait]
    assert show("mattermost:grp1")["result"] == "sent"
    town.adapter.sends = [SendResult(False, error_kind="rate_limited", retry_after=999)]
    assert show("mattermost:grp1")["result"] == "not_sent"


def test_the_home_channel(town: Town, show: Print) -> None:
    """HERMES-3.5, peer failure 10: a bare platform is its home channel, or told."""
    missed = show("mattermost")
    assert missed["result"] == "not_sent" and "MATTERMOST_HOME_CHANNEL" in missed["reason"]
    assert show("dingtalk")["result"] == "sent"
    assert town.runner.adapters[Platform.DINGTALK].posts[0][0] == "env1"
    assert show("no channel!")["result"] == "not_sent"


def test_the_second_way_leads_to_the_same_home(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.5, HERMES-3.8: the courier may know another home; the chat is handed over."""
    courier.says = ["queued", "queued"]
    town.runner.adapters[Platform.DINGTALK].sends = [SendResult(False, error="Not connected")]
    assert show("dingtalk")["result"] == "queued" and courier.to == ["dingtalk:env1"]
    assert show("slack")["result"] == "queued" and courier.to[1:] == ["slack"]


def test_a_platform_that_says_nothing(
    town: Town, show: Print, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.8: is waited for a bounded time, then uncertain."""
    monkeypatch.setattr(live_send, "SEND_S", 0.05)

    async def hang() -> Any:
        await asyncio.sleep(30)

    town.adapter.sends = [hang]
    assert show("mattermost:grp1")["result"] == "uncertain"
