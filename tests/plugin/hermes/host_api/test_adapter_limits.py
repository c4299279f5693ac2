"""What Hermes's adapters do with a text, beside posting it where they are told."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from wakebus.adapters.channel import parse
from wakebus.plugin.hermes.host_api.adapter_limits import (
    exact_metadata,
    misdirection,
    posts_apart,
    text_limit,
    unconfirmed,
)

PLAIN: Any = SimpleNamespace()


def adapter(**fields: Any) -> Any:
    """Return an adapter with these private fields."""
    extra = fields.pop("extra", {})
    return SimpleNamespace(config=SimpleNamespace(extra=extra), **fields)


@pytest.mark.parametrize(
    ("of", "channel", "word"),
    [
        (PLAIN, "mattermost:c1", ""),
        (adapter(_reply_mode="thread"), "mattermost:c1?thread=p1", ""),
        (adapter(_reply_mode="off"), "mattermost:c1?thread=p1", "reply mode"),
        (PLAIN, "mattermost:#town", "no chat"),
        (adapter(_reply_to_mode="first"), "buzz:c1?thread=e1", ""),
        (adapter(_reply_to_mode="off"), "buzz:c1?thread=e1", "reply mode"),
        (adapter(_reply_to_mode="off"), "telegram:1?thread=7", ""),
        (PLAIN, "telegram:-100?thread=7", ""),
        (PLAIN, "slack:C1?thread=1.2", ""),
        (adapter(extra={"reply_broadcast": True}), "slack:C1?thread=1.2", "reply_broadcast"),
        (adapter(_slash_command_contexts={("C1", "U1"): {}}), "slack:C1", "another answer"),
        (adapter(_slash_command_contexts={("C2", "U1"): {}}), "slack:C1", ""),
        (adapter(_slash_command_contexts={("T1", "C1", "U1"): {}}), "slack:C1", ""),
        (adapter(_pending_buttons={"u": "r"}), "line:u", "another answer"),
        (PLAIN, "feishu:oc_1?thread=omt_1", ""),
        (PLAIN, "feishu:oc_1?thread=om_1", "topic's id"),
        (PLAIN, "feishu:a@b.c", "no chat"),
        (PLAIN, "discord:user:9", "no chat"),
        (PLAIN, "matrix:#room:server", "no chat"),
        (PLAIN, "matrix:!room:server?thread=$e", ""),
        (PLAIN, "wecom:zhang?thread=1", "no threads"),
        (PLAIN, "sms:+49123", ""),
        (PLAIN, "webhook:ci", "no text in a chat"),
        (PLAIN, "raft:x", "no text in a chat"),
        (PLAIN, "a2a:context", "no text in a chat"),
        (PLAIN, "homeassistant:kitchen", "no text in a chat"),
        (PLAIN, "homeassistant:ha_events", ""),
        (adapter(_ws=None), "simplex:1", "not connected"),
        (adapter(_ws=object()), "simplex:1", ""),
    ],
)
def test_where_a_text_would_land(of: Any, channel: str, word: str) -> None:
    """HERMES-3.12: what an adapter would post elsewhere, or nowhere, is known before it is sent."""
    found = misdirection(of, parse(channel), seen=False)
    assert word in found and bool(word) == bool(found)


def test_threads_that_were_seen() -> None:
    """HERMES-3.12: an adapter that we do not know has those from which somebody was heard."""
    assert misdirection(PLAIN, parse("newest:c?thread=1"), seen=False)
    assert misdirection(PLAIN, parse("newest:c?thread=1"), seen=True) == ""


def test_a_topic_that_answers_do_not_reach() -> None:
    """HERMES-3.12: Hermes's core answers in the topic that it is set to."""
    own = adapter(_topic="in", _publish_topic="out")
    for chat, missed in (("in", False), ("out", False), ("other", True)):
        assert bool(misdirection(own, parse(f"ntfy:{chat}"), seen=True, answer=True)) is missed
        assert not misdirection(own, parse(f"ntfy:{chat}"), seen=True)
    # A webhook's session answers where its route says.
    assert not misdirection(PLAIN, parse("webhook:route:1"), seen=True, answer=True)


def test_an_answer_that_another_waits_for() -> None:
    """HERMES-3.12: a turn of the bus in an A2A session would answer somebody else's question."""
    assert "whoever asked" in misdirection(PLAIN, parse("a2a:c1"), seen=True, answer=True)


def test_an_adapter_that_tells_answers_from_other_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.12: LINE of 0.22 shows a print although a button waits for a tap."""

    class Newer(SimpleNamespace):
        __module__ = "newer_line"

    of = Newer(_pending_buttons={"u": "r"})
    assert "another answer" in misdirection(of, parse("line:u"), seen=True)
    module = ModuleType("newer_line")
    module._is_interim_send = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert misdirection(of, parse("line:u"), seen=True) == ""
    assert exact_metadata(of, parse("line:u"), {}) == {"_interim_send": True}


def test_metadata_that_makes_it_exact() -> None:
    """HERMES-3.12: the topic of ntfy; a topic of Telegram, or an error."""
    own = adapter(_topic="in", _publish_topic="out")
    assert exact_metadata(own, parse("ntfy:in"), {}) == {"publish_topic": "in"}
    assert exact_metadata(own, parse("ntfy:out"), {}) == {}
    topic = {"thread_id": "7"}
    strict = exact_metadata(PLAIN, parse("telegram:1?thread=7"), topic)
    assert strict == {"thread_id": "7", "telegram_dm_topic_created_for_send": True}
    direct = {"thread_id": "7", "direct_messages_topic_id": "7"}
    flag = {"telegram_dm_topic_created_for_send": True}  # 0.22 posts beside such a topic, too
    assert exact_metadata(PLAIN, parse("telegram:1?thread=7"), direct) == direct | flag
    assert exact_metadata(PLAIN, parse("discord:1?thread=7"), topic) == topic
    kept = {**topic, "_interim_send": True}  # it ends no answer that is being written
    assert exact_metadata(PLAIN, parse("slack:C1?thread=7"), topic) == kept
    assert "job_id" in exact_metadata(PLAIN, parse("google_chat:spaces/a"), {})
    assert exact_metadata(PLAIN, parse("google_chat:spaces/a?thread=7"), topic) == topic


def test_how_much_is_one_message() -> None:
    """HERMES-3.13: by the platform's unit and as the adapter formats it; what it says of itself."""
    found = text_limit(adapter(format_message=lambda text: text + "!!"), "mattermost")
    assert found is not None and (found.limit, found.measure("ab")) == (4000, 4)
    found = text_limit(PLAIN, "ntfy")
    assert found is not None and (found.limit, found.measure("ж")) == (4096, 2)
    found = text_limit(adapter(max_message_length=900, MAX_MESSAGE_LENGTH=800), "newest")
    assert found is not None and (found.limit, found.measure("😀")) == (800, 2)
    assert text_limit(PLAIN, "newest") is None
    for of, platform, limit in (
        (adapter(max_message_length=500), "matrix", 500),  # the owner's own
        (adapter(MAX_MESSAGE_LENGTH=28_000), "teams", 4096),
        (adapter(MAX_MESSAGE_LENGTH=4096, _outgoing_chunk_limit=lambda: 4078), "whatsapp", 4078),
        (adapter(MAX_TEXT_CHUNK=4000), "yuanbao", 4000),
    ):
        found = text_limit(of, platform)
        assert found is not None and found.limit == limit

    def odd(text: str) -> Any:
        raise RuntimeError("of its own")

    for broken in (odd, lambda text: None):
        found = text_limit(adapter(format_message=broken), "slack")
        assert found is not None and found.measure("abc") == 3


def test_texts_that_are_several_messages() -> None:
    """HERMES-3.8: where one of them may be there although the next one failed."""
    assert all(posts_apart(platform, "a\nb") for platform in ("irc", "bluebubbles", "weixin"))
    assert not posts_apart("irc", "a") and not posts_apart("slack", "a\nb")


def test_success_that_nobody_said() -> None:
    """HERMES-3.8: adapters that do not read what the platform says."""
    assert all("does not read" in unconfirmed(name) for name in ("dingtalk", "irc", "simplex"))
    assert unconfirmed("mattermost") == ""
