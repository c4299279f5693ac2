"""
What Hermes's own adapters do with a text, beside posting it where they are told.

Read in hermes-agent 0.19.0: `send` of plugins/platforms/NAME/adapter.py and gateway/platforms.
Rule 1: only looks; every private name has a default: it may be missing, or of another Hermes. Rule
2: what is not known of an adapter is not assumed: it honours the chat, has no threads but those
that were seen in it, and says itself how long a text it takes.
"""

import re
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from wakebus.adapters.base import Unit, length
from wakebus.adapters.channel import Channel

# `send` shows nothing in any chat, and says that all is well (webhook.py:338, raft:570).
_NO_CHATS: Final = frozenset({"api_server", "msgraph_webhook", "raft", "webhook"})
_HA_CHAT: Final = "ha_events"  # every text is the same kind of notification (homeassistant:388)
# `send` leads to the thread that its metadata names; Mattermost's by its reply mode (274).
_THREADS: Final = frozenset(
    {"discord", "feishu", "google_chat", "matrix", "mattermost", "slack", "telegram"}
)
# Chats that our adapters look up, and Hermes's takes for an id.
_OURS: Final = {
    "dingtalk": r"(?:group|user):.*",
    "discord": r"user:.*",
    "feishu": r"on_.*|user_id:.*|[^@]+@[^@]+",
    "matrix": r"[#@].*",
    "mattermost": r"[@#].*|[^/]+/.*",
    "wecom": r"(?:user|chat):.*|@all",
}
_LIMITS: Final[dict[str, tuple[int, Unit]]] = {
    "dingtalk": (15_000, "bytes"),  # cut at 20,000 characters (904); the webhook takes bytes
    "discord": (2_000, "utf16"),
    "matrix": (16_000, "bytes"),  # an event has 65,536, and holds the text twice
    "mattermost": (4_000, "utf16"),
    "ntfy": (4_096, "bytes"),  # cut at 4,096 characters (410); beyond these bytes ntfy makes a file
    "slack": (39_000, "utf16"),
    "telegram": (4_096, "utf16"),
}


class TextLimit(NamedTuple):
    """How much one `send` posts as one message, by `measure`."""

    limit: int
    measure: Callable[[str], int]


def misdirection(adapter: Any, channel: Channel, seen: bool, *, answer: bool = False) -> str:
    """
    Return why a text that this adapter sends for `channel` would land elsewhere, or nowhere; or "".

    seen: somebody was heard in exactly this chat and thread. answer: Hermes's core sends it, for
    which `exact_metadata` does nothing.
    """
    platform, chat = channel.platform.lower(), channel.chat_id or ""
    if channel.thread and (why := _thread_dropped(adapter, platform, channel.thread, seen)):
        return why
    if answer:  # in a session of Hermes's own, which knows its chat
        return _other_topic(adapter, chat) if platform == "ntfy" else ""
    if platform in _NO_CHATS or (platform == "homeassistant" and chat != _HA_CHAT):
        return f"Hermes's {platform} shows no text in a chat that one can name"
    if chat == "webhook" or re.fullmatch(_OURS.get(platform, "(?!)"), chat):
        return f"Hermes's {platform} knows no chat {chat!r}"
    if _waits_for_another(adapter, platform, chat):
        return f"Hermes's {platform} waits for another answer there, and would take this one for it"
    if platform == "simplex" and getattr(adapter, "_ws", True) is None:
        return "Hermes's simplex is not connected, and would say that it was sent (simplex:742)"
    return ""


def _thread_dropped(adapter: Any, platform: str, thread: str, seen: bool) -> str:
    if platform not in _THREADS and not seen:
        return f"Hermes's {platform} has no threads: it would post in front of everybody"
    mode = getattr(adapter, "_reply_mode", "thread")
    if platform == "mattermost" and mode != "thread":
        return f"Hermes's reply mode for mattermost is {mode!r}: it would post beside the thread"
    extra = getattr(getattr(adapter, "config", None), "extra", None) or {}
    if platform == "slack" and extra.get("reply_broadcast"):
        return "Hermes's reply_broadcast for slack would post beside the thread as well"
    if platform == "feishu" and thread.startswith("om_"):
        return "Hermes's feishu takes a topic's id (omt_…), no message's"
    return ""


def _waits_for_another(adapter: Any, platform: str, chat: str) -> bool:
    """Whether the next text is kept for who gave a slash command (slack:769), taps (line:1100)."""
    if platform == "line":
        return bool((getattr(adapter, "_pending_buttons", None) or {}).get(chat))
    waiting = getattr(adapter, "_slash_command_contexts", None) or {}
    keys = [key for key in list(waiting) if isinstance(key, tuple)]
    return platform == "slack" and any(key[:1] == (chat,) for key in keys)


def _other_topic(adapter: Any, chat: str) -> str:
    """Hermes answers in the topic that it is set to, whatever the chat (ntfy:390)."""
    own = [getattr(adapter, name, "") for name in ("_topic", "_publish_topic")]
    if not any(own) or chat in own:
        return ""
    return f"Hermes's ntfy answers in topic {own[1] or own[0]!r} whatever the chat"


def exact_metadata(adapter: Any, channel: Channel, found: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a `send`, so that it lands just where the channel says, or fails."""
    platform = channel.platform.lower()
    if platform == "ntfy" and getattr(adapter, "_publish_topic", "") not in ("", channel.chat_id):
        return {**found, "publish_topic": channel.chat_id}
    if platform == "telegram" and channel.thread and "direct_messages_topic_id" not in found:
        # Else a topic that is gone is answered in front of the whole group (telegram:4161).
        return {**found, "telegram_dm_topic_created_for_send": True}
    return found


def text_limit(adapter: Any, platform: str) -> TextLimit | None:
    """Return how much one `send` posts as one message; None where the adapter does not say."""
    limit, unit = _LIMITS.get(platform, (_own_limit(adapter, platform), "utf16"))
    if not limit:
        return None
    shown = getattr(adapter, "format_message", None)

    def measure(text: str) -> int:
        try:
            posted = shown(text) if callable(shown) else text
        except Exception:  # its own code, on any text
            posted = text
        return max(length(text, unit), length(posted if isinstance(posted, str) else text, unit))

    return TextLimit(limit, measure)


def _own_limit(adapter: Any, platform: str) -> int:
    """Return what the adapter says, or how it was registered (gateway/platform_registry.py)."""
    registry = getattr(sys.modules.get("gateway.platform_registry"), "platform_registry", None)
    try:
        entry = registry.get(platform) if registry is not None else None
    except Exception:  # another Hermes
        entry = None
    said = [
        getattr(adapter, "max_message_length", None),
        getattr(adapter, "MAX_MESSAGE_LENGTH", None),
        getattr(entry, "max_message_length", None),
    ]
    return min((one for one in said if type(one) is int and one > 0), default=0)


def posts_apart(adapter: Any, platform: str, text: str) -> bool:
    """Whether one `send` posts this text as several messages, whatever its length."""
    by_line = platform == "irc" or bool(getattr(adapter, "_split_multiline_messages", False))
    return "\n" in text and (by_line or platform == "bluebubbles")
