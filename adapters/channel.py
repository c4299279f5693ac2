"""
The reply token `platform[:chat_id][?thread=ID]`.

Rule 1: pure. Rule 2: the token is carried unchanged; only here is it read. What a bare platform
means: settings/home_channel.py.
"""

import re
import unicodedata
from importlib import import_module
from typing import Any, Final, NamedTuple

from wakebus.adapters.errors import BadChannel
from wakebus.broker.protocol.message import MAX_CHANNEL

_PLATFORM: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_THREAD: Final = "?thread="
# Controls, format (direction) characters, surrogates, line and paragraph separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Channel(NamedTuple):
    """A token, taken apart; `chat_id` is None for a bare platform."""

    platform: str
    chat_id: str | None
    thread: str | None
    token: str


def parse(token: str) -> Channel:
    """Return the token's parts (split at the first `:`), or raise BadChannel."""
    check_text(token, "channel")
    head, thread = split_thread(token, f"channel {token!r}")
    platform, colon, chat_id = head.partition(":")
    if not _PLATFORM.match(platform):
        raise BadChannel(
            f"channel {token!r}: {platform!r} is no platform;"
            " write platform:chat_id, as feishu:oc_1"
        )
    if colon and not chat_id:
        raise BadChannel(
            f"channel {token!r}: no chat id after the colon;"
            f" write {platform}:CHAT, or {platform} alone for its home channel"
        )
    return Channel(platform, chat_id if colon else None, thread, token)


def check_text(text: str, what: str) -> None:
    """Raise BadChannel for a text that no token or thread can be; `what`: where it stands."""
    if not text.strip():
        raise BadChannel(f"{what}: empty; write platform:chat_id")
    if (size := len(text.encode(errors="surrogatepass"))) > MAX_CHANNEL:
        raise BadChannel(f"{what}: {size} bytes; the limit is {MAX_CHANNEL}")
    for place, char in enumerate(text):
        if unicodedata.category(char) in _UNSEEN:
            raise BadChannel(
                f"{what} {text!a}: character {place + 1} is U+{ord(char):04X},"
                " a control or invisible character"
            )
    if text != text.strip():
        raise BadChannel(f"{what} {text!r}: begins or ends with a space")


def split_thread(text: str, what: str) -> tuple[str, str | None]:
    """Return a text without its thread, and the thread; raise BadChannel for an empty one."""
    head, mark, thread = text.rpartition(_THREAD)
    if not mark:
        return text, None
    if not thread:
        raise BadChannel(f"{what}: no thread after {_THREAD!r}; write {_THREAD}ID")
    return head, thread


def __getattr__(name: str) -> Any:
    if name in ("home_variable", "resolve"):  # both were here
        return getattr(import_module("wakebus.adapters.settings.home_channel"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
