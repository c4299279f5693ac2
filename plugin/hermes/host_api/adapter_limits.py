"""
What Hermes's own adapters do with a text, beside posting it where they are told.

Read in hermes-agent 0.19.0 (file:line of it) and 0.22.2 (marked): `send` of
plugins/platforms/NAME/adapter.py and gateway/platforms. Rule 1: only looks; every private name has
a default: it may be missing, or of another Hermes. Rule 2: what is not known of an adapter is not
assumed: it honours the chat, has no threads but those that were seen in it, and says itself how
long a text it takes. Rule 3: one table for all generations: what only one of them has does nothing
in another.
"""

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from wakebus.adapters.base import Unit, length
from wakebus.adapters.channel import Channel

# `send` shows nothing in any chat, and says that all is well (webhook.py:338, raft:570, and
# a2a:832 of 0.22.2).
_NO_CHATS: Final = frozenset({"a2a", "api_server", "msgraph_webhook", "raft", "webhook"})
_HA_CHAT: Final = "ha_events"  # every text is the same kind of notification (homeassistant:388)
# `send` leads to the thread that its metadata names; where there is a reply mode, by that.
_THREADS: Final = frozenset(
    {"buzz", "discord", "feishu", "google_chat", "matrix", "mattermost", "slack", "telegram"}
)
_REPLY_MODES: Final = {"buzz": "_reply_to_mode", "mattermost": "_reply_mode"}
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
    "teams": (4_096, "utf16"),  # split there, whatever it says of itself (1164)
    "telegram": (4_096, "utf16"),
    "wecom_callback": (2_048, "bytes"),  # cut at 2,048 characters (222); 0.22 splits by bytes
}
# … and what adapters say of themselves, the WhatsApps and Yuanbao by other names.
_OWN_LIMITS: Final = ("max_message_length", "MAX_MESSAGE_LENGTH", "MAX_TEXT_CHUNK")
# One `send` posts lines or paragraphs apart, Weixin if they are short (weixin.py:847).
_BY_LINE: Final = frozenset({"bluebubbles", "irc", "weixin"})
# The platform's own word is not read, or not waited for (dingtalk:920, irc:268, simplex:742).
_UNCONFIRMED: Final = frozenset({"dingtalk", "irc", "simplex"})
# Kept for no other answer, and made part of none (line:327, slack:2655, relay:1451 of 0.22.2).
_INTERIM: Final = frozenset({"line", "relay", "slack"})


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
        if platform == "a2a":  # the oldest that waits for one there has it (a2a:837 of 0.22.2)
            return "Hermes's a2a takes an answer for that of whoever asked"
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
    mode = getattr(adapter, _REPLY_MODES.get(platform, ""), "thread")
    # Mattermost keeps the thread in one mode only (274), Buzz in all others (832 of 0.22.2).
    if mode == "off" or (platform == "mattermost" and mode != "thread"):
        return f"Hermes's reply mode for {platform} is {mode!r}: it would post beside the thread"
    extra = getattr(getattr(adapter, "config", None), "extra", None) or {}
    if platform == "slack" and extra.get("reply_broadcast"):
        return "Hermes's reply_broadcast for slack would post beside the thread as well"
    if platform == "feishu" and thread.startswith("om_"):
        return "Hermes's feishu takes a topic's id (omt_…), no message's"
    return ""


def _waits_for_another(adapter: Any, platform: str, chat: str) -> bool:
    """
    Whether the next text is kept for who gave a slash command (slack:769), taps (line:1100).

    Not where LINE tells an answer from other texts, nor for the keys of newer Slack, which begin
    with a team: it takes only what the command itself says (line:319, slack:1462 of 0.22.2).
    """
    if platform == "line":
        tells = hasattr(sys.modules.get(type(adapter).__module__), "_is_interim_send")
        return not tells and bool((getattr(adapter, "_pending_buttons", None) or {}).get(chat))
    waiting = getattr(adapter, "_slash_command_contexts", None) or {}
    keys = [key for key in list(waiting) if isinstance(key, tuple)]
    return platform == "slack" and any(key[:1] == (chat,) for key in keys)


def _other_topic(adapter: Any, chat: str) -> str:
    """Hermes answers in the topic that it is set to, whatever the chat (ntfy:390)."""
    own = [getattr(adapter, name, "") for name in ("_topic", "_publish_topic")]
    if not any(own) or chat in own:
        return ""
    return f"Hermes's ntfy answers in topic {own[1] or own[0]!r} whatever the chat"


def as_configured(platform: str, extra: Any, environ: Mapping[str, str]) -> Any:
    """
    Return a platform's adapter, as far as `misdirection` of an answer looks, by its settings alone.

    extra: of `platforms.NAME` in config.yaml. (mattermost:120, ntfy:126 of 0.22.2.)
    """
    extra = extra if isinstance(extra, Mapping) else {}

    def said(name: str, variable: str, default: str = "") -> str:
        return str(extra.get(name) or environ.get(variable) or default)

    found = SimpleNamespace(config=SimpleNamespace(extra=extra))
    if platform == "mattermost":
        found._reply_mode = said("reply_mode", "MATTERMOST_REPLY_MODE", "off").lower()
    if platform == "ntfy":
        found._topic = said("topic", "NTFY_TOPIC")
        found._publish_topic = said("publish_topic", "NTFY_PUBLISH_TOPIC") or found._topic
    return found


def exact_metadata(adapter: Any, channel: Channel, found: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a `send`, so that it lands just where the channel says, or fails."""
    platform = channel.platform.lower()
    if platform == "ntfy" and getattr(adapter, "_publish_topic", "") not in ("", channel.chat_id):
        return {**found, "publish_topic": channel.chat_id}
    if platform == "telegram" and channel.thread:
        # Else a topic that is gone is answered in front of everybody (telegram:4161).
        return {**found, "telegram_dm_topic_created_for_send": True}
    if platform == "google_chat" and not channel.thread:
        # Else it is posted in the thread that was last written in (google_chat:1208 of 0.22.2).
        return {**found, "job_id": "wakebus"}
    return {**found, "_interim_send": True} if platform in _INTERIM else found


def text_limit(adapter: Any, platform: str) -> TextLimit | None:
    """Return how much one `send` posts as one message; None where the adapter does not say."""
    listed, unit = _LIMITS.get(platform, (0, "utf16"))
    limit = min((one for one in (listed, _own_limit(adapter, platform)) if one), default=0)
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
    said = [getattr(adapter, name, None) for name in _OWN_LIMITS]
    said.append(getattr(entry, "max_message_length", None))
    with suppress(Exception):  # less by a prefix of the owner's (whatsapp_common.py:105)
        said.append(adapter._outgoing_chunk_limit())
    return min((one for one in said if type(one) is int and one > 0), default=0)


def posts_apart(platform: str, text: str) -> bool:
    """Whether one `send` may post this text as several messages, whatever its length."""
    return "\n" in text and platform in _BY_LINE


def unconfirmed(platform: str) -> str:
    """Return why a `send` that says success does not prove that the chat has the text, or ""."""
    if platform not in _UNCONFIRMED:
        return ""
    return f"Hermes's {platform} handed it over, and does not read whether it was taken"
