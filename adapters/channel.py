"""
The reply token `platform[:chat_id][?thread=ID]`, and what a bare platform means.

Rule 1: pure; the environment is an argument. Rule 2: the token is carried unchanged; only here
is it read. Rule 3: an explicit chat never falls back to the home channel
(hermes-agent #8616: an answer went to another chat than the one that asked).
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple

from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings import home_channel as home
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
    _check(token, "channel")
    head, thread = _split_thread(token, f"channel {token!r}")
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


def resolve(channel: Channel, env: Mapping[str, str]) -> Channel:
    """
    Return `channel` with a chat id: its own, else that of the platform's home (home.py).

    A home is `chat` or `platform:chat`, with or without `?thread=ID`. Raises BadChannel naming the
    variable, or file and key.
    """
    if channel.chat_id is not None:
        return channel
    found = home.find(channel.platform, env)
    if found is None:
        raise BadChannel(_no_home(channel))
    _check(found.chat, found.where)
    chat_id, thread = _split_thread(found.chat.removeprefix(f"{channel.platform}:"), found.where)
    if not chat_id:
        raise BadChannel(f"{found.where} names no chat")
    if found.thread:
        _check(found.thread, f"the thread of {found.where}")
    own = thread or found.thread or None
    return channel._replace(chat_id=chat_id, thread=channel.thread or own)


def home_variable(platform: str) -> str:
    """Return the name of the environment variable with this platform's home channel."""
    return home.variable(platform)


def _no_home(channel: Channel) -> str:
    platform, variable = channel.platform, home.variable(channel.platform)
    return (
        f"channel {channel.token!r} names no chat, and {variable} is not set;"
        f" write {platform}:CHAT, or set {variable} in $HERMES_HOME/.env"
        f" (or platforms.{platform}.home_channel in {home.CONFIG}), which the courier reads"
    )


def _check(text: str, what: str) -> None:
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


def _split_thread(text: str, what: str) -> tuple[str, str | None]:
    head, mark, thread = text.rpartition(_THREAD)
    if not mark:
        return text, None
    if not thread:
        raise BadChannel(f"{what}: no thread after {_THREAD!r}; write {_THREAD}ID")
    return head, thread
