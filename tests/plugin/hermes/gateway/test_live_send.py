"""Prints in a chat, and what is told of them."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fakes.hermes import Adapter, Platform, SendResult, Town, group
from fakes.host import deliver
from wakebus.broker.errors import NotNow, NotRunning
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.gateway import live_send
from wakebus.plugin.hermes.gateway.conversations import Conversations
from wakebus.plugin.hermes.gateway.live_send import LiveSender, result_of_call
from wakebus.plugin.hermes.host_api.protocol import Unreachable

FAILED = SendResult(False, error="Failed to create post")
REFUSED = SendResult(False, error="Cannot connect to host mm:443 ssl:default [Connect call failed]")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("gone"), "not_sent"),
        (TimeoutError(), "uncertain"),
        (RuntimeError("boom"), "uncertain"),
        (ConnectionRefusedError(111, "Connection refused"), "not_sent"),
    ],
)
def test_a_send_that_raises(error: Exception, expected: str) -> None:
    """HERMES-3.8: only what was certainly not tried is `not_sent`."""

    def send() -> Any:
        raise error

    assert result_of_call(send, [])["result"] == expected


class Courier:
    """Answers.show, as far as it is called: what it says, and how often."""

    def __init__(self, *says: str) -> None:
        self.says, self.asked = list(says), 0
        self.to: list[str] = []
        self.texts: list[str] = []

    def show(
        self, delivery: Any, text: str, channel: str = "", what: str = "print"
    ) -> dict[str, Any]:
        """The next word."""
        self.asked += 1
        self.to.append(channel)
        self.texts.append(text)
        word = self.says.pop(0) if self.says else "not_sent"
        return {"result": word, "at": 1.0, **({} if word == "queued" else {"reason": "no courier"})}


Print = Callable[..., dict[str, Any]]


@pytest.fixture
def courier() -> Courier:
    return Courier()


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def show(
    town: Town, courier: Courier, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> Print:
    """Return a printer of a text in a channel, for which half a minute is a second."""
    quick = {"PAUSE_S": 0.01, "SOON_S": 0.6, "AGAIN_S": 0.6, "ASKED_S": 2.0}
    for name, seconds in quick.items():
        monkeypatch.setattr(live_send, name, seconds)
    environ = {"DINGTALK_HOME_CHANNEL": "env1", "MATTERMOST_TOKEN": "secret-of-the-bot"}
    conversations = Conversations(town.hermes, environ)
    sender = LiveSender(conversations, courier, stop, environ)  # type: ignore[arg-type]

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
    assert (
        missed["result"] == "not_sent"
        and "no slack here; by the courier: no courier" in missed["reason"]
    )


def test_one_that_is_not_connected(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: so is one that went away between placing and printing, else it comes again."""
    del town.runner.adapters[Platform.MATTERMOST]
    courier.says = ["queued"]
    assert show("mattermost:grp1")["result"] == "queued"
    with pytest.raises(NotNow, match="not connected"):
        show("mattermost:grp1")
    assert courier.asked == 2


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
    there = show("dingtalk")
    assert there["result"] == "uncertain" and "does not read" in there["reason"]
    assert town.runner.adapters[Platform.DINGTALK].posts[0][0] == "env1"
    assert show("no channel!")["result"] == "not_sent"


def test_the_second_way_leads_to_the_same_home(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.5, HERMES-3.8: the courier may know another home; the chat is handed over."""
    courier.says = ["queued", "queued"]
    town.runner.adapters[Platform.DINGTALK].sends = [SendResult(False, error="Not connected")] * 9
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


# --- what is certainly not sent -------------------------------------------------------------


def test_a_platform_that_is_down_for_a_moment(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: a refused connection is tried again, and nobody else is asked."""
    town.adapter.sends = [REFUSED, SendResult(False, error="HTTP 429: slow down")]
    assert show("mattermost:grp1")["result"] == "sent" and courier.asked == 0
    assert [text for _, text, _ in town.adapter.posts] == ["text"]


def test_a_platform_that_stays_down(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.8: then the courier has it; where that cannot, it is refused with both reasons."""
    town.adapter.sends = [REFUSED] * 99
    courier.says = ["queued"]
    assert show("mattermost:grp1")["result"] == "queued"
    missed = show("mattermost:grp1")
    assert missed["result"] == "not_sent" and courier.asked == 2
    assert "Cannot connect" in missed["reason"] and "no courier" in missed["reason"]
    assert "(tried " in missed["reason"] and town.adapter.posts == []
    town.adapter.sends = [REFUSED, *[SendResult(False, error="HTTP 429: slow")] * 99]
    assert show("mattermost:grp1")["reason"].startswith("HTTP 429: slow (tried ")


def test_a_stop_while_it_waits(
    town: Town, show: Print, stop: threading.Event, courier: Courier
) -> None:
    """HERMES-3.8: it goes back to the broker, and is no dead letter."""
    town.adapter.sends = [REFUSED] * 99
    stop.set()
    with pytest.raises(NotRunning):
        show("mattermost:grp1")


def logging_adapter(town: Town, *lines: str) -> None:
    """Mattermost's: whatever happens it says "Failed to create post", and logs what it was."""

    async def fail() -> SendResult:
        for line in lines:
            logging.getLogger("plugins.platforms.mattermost").error("MM API POST posts %s", line)
        return FAILED

    town.adapter.sends = [fail]


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("→ 429: slow down", "sent"),
        ("→ 503: starting", "sent"),
        ("network error: Cannot connect to host mm:8065 ssl:default [Connection refused]", "sent"),
        ("→ 403: no permission", "rejected"),
        ("→ 500: the server is ill", "uncertain"),
        ("→ 502: connection refused by the upstream", "uncertain"),
        ("network error: Server disconnected", "uncertain"),
        ("network error: [Errno 104] Connection reset by peer", "uncertain"),
    ],
)
def test_an_adapter_that_only_logs_why(town: Town, show: Print, line: str, result: str) -> None:
    """HERMES-3.8: its log is read, of this send alone."""
    logging_adapter(town, line)
    told = show("mattermost:grp1")
    assert told["result"] == result and ("reason" in told) == (result != "sent")


def test_a_log_of_others(town: Town, show: Print) -> None:
    """HERMES-3.8: what another send logs meanwhile says nothing of this one."""

    async def fail() -> SendResult:
        loop = asyncio.get_running_loop()
        warn = logging.getLogger("other").warning
        await loop.run_in_executor(None, warn, "→ 429: of another")
        return FAILED

    town.adapter.sends = [fail]
    assert show("mattermost:grp1")["result"] == "uncertain"


def test_what_a_reason_shows(town: Town, show: Print) -> None:
    """HERMES-3.8: the platform's words, without our credentials and what steers a terminal."""
    logging_adapter(town, "→ 403: token secret-of-the-bot\x1b[2J is bad")
    assert show("mattermost:grp1")["reason"].endswith("→ 403: token *** is bad")


# --- another chat ---------------------------------------------------------------------------


def ntfy(town: Town, **fields: Any) -> Adapter:
    """Give the gateway ntfy, set to topic `mine`."""
    adapter = Adapter(town.runner, Platform.NTFY)
    adapter.__dict__.update({"_topic": "mine", "_publish_topic": "mine", **fields})
    town.runner.adapters[Platform.NTFY] = adapter
    return adapter


def test_another_topic(town: Town, show: Print) -> None:
    """HERMES-3.12: `send` of ntfy posts to its own topic unless it is told the topic."""
    adapter = ntfy(town)
    assert show("ntfy:other")["to"] == "ntfy:other" and show("ntfy:mine")["result"] == "sent"
    assert [meta for _, _, meta in adapter.posts] == [{"publish_topic": "other"}, None]


@pytest.mark.parametrize(
    ("channel", "why"),
    [
        ("mattermost:grp1?thread=t1", "reply mode"),
        ("mattermost:@u1", "no chat '@u1'"),
        ("mattermost:team/town", "no chat 'team/town'"),
        ("mattermost:webhook", "no chat 'webhook'"),
        ("dingtalk:cid1?thread=7", "no threads"),
        ("dingtalk:user:9", "no chat 'user:9'"),
    ],
)
def test_a_chat_that_the_adapter_would_miss(
    town: Town, show: Print, courier: Courier, channel: str, why: str
) -> None:
    """HERMES-3.12: the courier takes it, or it is refused; Hermes's adapter never has it."""
    town.adapter._reply_mode = "off"
    courier.says = ["queued"]
    assert show(channel)["result"] == "queued" and courier.to == [channel]
    missed = show(channel)
    assert missed["result"] == "not_sent" and why in missed["reason"]
    assert not any(adapter.posts for adapter in town.runner.adapters.values())


# --- long texts -----------------------------------------------------------------------------

LONG = "\n\n".join(f"paragraph {n} " + "x" * 900 for n in range(9))


def test_a_long_text(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.13: the courier's, else in parts that the adapter need not cut."""
    courier.says = ["queued"]
    assert show("mattermost:grp1", LONG)["result"] == "queued" and courier.texts == [LONG]
    told = show("mattermost:grp1", LONG)
    texts = [text for _, text, _ in town.adapter.posts]
    assert (told["result"], told["parts"], told["done"]) == ("sent", len(texts), len(texts))
    assert (
        "".join(texts) == LONG and all(len(text) <= 4000 for text in texts) and told["id"] == "p0"
    )


def test_a_long_text_that_stops_in_the_middle(town: Town, show: Print) -> None:
    """HERMES-3.13: what is there is told, and nothing is called sent or certainly not sent."""
    town.adapter.sends = [SendResult(True, "p"), SendResult(False, error="HTTP 403: no")]
    told = show("mattermost:grp1", LONG)
    assert (told["result"], told["done"], told["parts"]) == ("uncertain", 1, 3)
    assert "1 of 3 parts are there, then: HTTP 403" in told["reason"]
    town.adapter.sends = [SendResult(False, error="HTTP 403: no")]
    assert show("mattermost:grp1", LONG)["result"] == "rejected"


def test_bytes_count_where_the_platform_counts_them(town: Town, show: Print) -> None:
    """HERMES-3.13: of 4,096 characters ntfy would make a file, or the adapter cut them."""
    adapter = ntfy(town)
    told = show("ntfy:mine", "ж" * 5000)
    sizes = [len(text.encode()) for _, text, _ in adapter.posts]
    assert told["result"] == "sent" and told["parts"] == 3 and max(sizes) <= 4096
    assert "".join(text for _, text, _ in adapter.posts) == "ж" * 5000


def test_far_too_long(town: Town, show: Print, courier: Courier) -> None:
    """HERMES-3.13: over 50 messages are the courier's, else refused with the size."""
    courier.says = ["queued"]
    assert show("mattermost:grp1", "x" * 300_000)["result"] == "queued"
    missed = show("mattermost:grp1", "x" * 300_000)
    assert missed["result"] == "rejected" and "300000 characters" in missed["reason"]


# --- mentions and files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "@all @here @channel @u1",
        "<!channel> <!here> <@U1> <!subteam^S1>",
        '<at user_id="all"></at> <person id="ou_1">',
        "[you](tg://user?id=7) [all](!channel) [m](https://matrix.to/#/@u1:s)",
        "`@all` <users/all>",
    ],
)
def test_nobody_is_mentioned(town: Town, show: Print, text: str) -> None:
    """HERMES-3.14: as inert as by the courier, whatever the platform takes for a mention."""
    assert show("mattermost:grp1", text)["result"] == "sent"
    (said,) = [text for _, text, _ in town.adapter.posts]
    calls = ("@all", "@here", "@channel", "@u1", "<!", "<@U", "<at ", "<person", "](tg:", "](!")
    assert not [call for call in (*calls, "<users", "/@") if call in said], said
    assert "channel" in said or "u" in said
