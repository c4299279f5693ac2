"""
Whose conversation a text belongs to: from a channel or a session to the person's own origin.

Rule 1: a turn is always run as somebody who wrote there and may talk to the agent now; what Hermes
calls their SessionSource is taken as it is, never made up (but in the owner's home channel).
Rule 2: a chat's persons in this order: who was heard last in this process, then the newest stored
session; an origin of the wrong shape (a direct chat that is a group) never counts. Rule 3: nothing
of Hermes is imported; anything may be missing or half built.
"""

import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings import home_channel

MAX_HEARD: Final = 2000  # persons in chats
TYPES: Final = frozenset({"dm", "group", "channel", "thread", "forum"})


class Origin(NamedTuple):
    """
    `source`: a SessionSource of Hermes; `key`: of its session.

    `owner`: the owner's home channel, in which nobody need have written.
    """

    source: Any
    key: str
    owner: bool = False


class Heard:
    """Who was heard last, by chat: in memory, bounded. It is told before Hermes authorizes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: OrderedDict[tuple[str, str, str, str], Any] = OrderedDict()

    def note(self, source: Any) -> None:
        """Remember a person's SessionSource."""
        with self._lock:
            key = (*_chat(source), str(getattr(source, "user_id", None) or ""))
            self._sources.pop(key, None)
            self._sources[key] = source
            if len(self._sources) > MAX_HEARD:
                self._sources.popitem(last=False)

    def all(self) -> list[Any]:
        """Return the sources, the newest first."""
        with self._lock:
            return list(reversed(self._sources.values()))


def platform_name(platform: Any) -> str:
    """Return `mattermost` of Hermes's Platform member (gateway/config.py:272)."""
    return str(getattr(platform, "value", platform) or "").lower()


def token(source: Any) -> str:
    """Return the channel `platform:chat_id[?thread=ID]` of a source, "" where it has no chat."""
    platform, chat, thread = _chat(source)
    if not platform or not chat:
        return ""
    return f"{platform}:{chat}?thread={thread}" if thread else f"{platform}:{chat}"


def canonical(channel: Channel) -> str:
    """Return the token by which sessions of this chat are found, as `token` makes it."""
    text = f"{channel.platform.lower()}:{channel.chat_id}"
    return f"{text}?thread={channel.thread}" if channel.thread else text


def _chat(source: Any) -> tuple[str, str, str]:
    parts = (getattr(source, name, None) for name in ("chat_id", "thread_id"))
    chat, thread = (str(part) if part is not None else "" for part in parts)
    return platform_name(getattr(source, "platform", None)), chat, thread


# --- the gateway's own ----------------------------------------------------------------------------


def platforms(runner: Any) -> dict[str, Any]:
    """Return the platforms of this gateway, enabled or connected: Hermes's member, by name."""
    enabled = getattr(getattr(runner, "config", None), "platforms", None) or {}
    found = [member for member, own in dict(enabled).items() if getattr(own, "enabled", False)]
    for adapters in (
        getattr(runner, "adapters", None),
        *dict(getattr(runner, "_profile_adapters", None) or {}).values(),
    ):
        found.extend(dict(adapters or {}))
    return {platform_name(member): member for member in found}


def adapter_for(runner: Any, source: Any) -> Any:
    """Return the live adapter for a source, of its profile (authz_mixin.py:76), or None."""
    find = getattr(runner, "_adapter_for_source", None)
    if callable(find):
        return find(source)
    return dict(getattr(runner, "adapters", None) or {}).get(getattr(source, "platform", None))


def authorized(runner: Any, source: Any) -> bool:
    """Return whether this person may talk to the agent now (authz_mixin.py:250)."""
    check = getattr(runner, "_is_user_authorized", None)
    try:
        return callable(check) and check(source) is True
    except Exception:  # half built; then nobody
        return False


def key_of(runner: Any, source: Any) -> str:
    """Return the session key that Hermes gives a source (gateway/run.py:3830), or ""."""
    make = getattr(runner, "_session_key_for_source", None)
    try:
        return str(make(source)) if callable(make) else ""
    except Exception:
        return ""


def entries(runner: Any) -> list[Any]:
    """Return the stored sessions that have an origin, newest first (gateway/session.py:2473)."""
    listed = getattr(getattr(runner, "session_store", None), "list_sessions", None)
    found = listed() if callable(listed) else []
    return [entry for entry in found if getattr(entry, "origin", None) is not None]


def by_key(runner: Any, key: str) -> Origin | None:
    """Return the stored session with exactly this key."""
    for entry in entries(runner):
        if getattr(entry, "session_key", None) == key:
            return Origin(entry.origin, key)
    return None


def by_id(runner: Any, session_id: str) -> Origin | None:
    """Return the stored session whose history has this id now (gateway/session.py:2487)."""
    find = getattr(getattr(runner, "session_store", None), "lookup_by_session_id", None)
    entry = find(session_id) if callable(find) and session_id else None
    origin = getattr(entry, "origin", None)
    return None if origin is None else Origin(origin, str(getattr(entry, "session_key", "")))


# --- who is in a chat -----------------------------------------------------------------------------


def in_chat(runner: Any, heard: Heard, channel: Channel) -> Origin | None:
    """Return whose session a text for `channel` belongs to; None: nobody's who may talk here."""
    for source in people(runner, heard, channel):
        if authorized(runner, source) and (key := key_of(runner, source)):
            return Origin(source, key)
    return None


def people(runner: Any, heard: Heard, channel: Channel) -> list[Any]:
    """Return the sources seen in exactly this chat and thread, rightly shaped, newest first."""
    wanted = (channel.platform.lower(), channel.chat_id or "", channel.thread or "")
    seen = [*heard.all(), *(entry.origin for entry in entries(runner))]
    return shaped(source for source in seen if _chat(source) == wanted)


def threads(runner: Any, heard: Heard, channel: Channel) -> list[str]:
    """Return the channels of threads in the chat, newest first."""
    wanted = (channel.platform.lower(), channel.chat_id or "")
    seen = [*heard.all(), *(entry.origin for entry in entries(runner))]
    found = [token(source) for source in seen if _chat(source)[:2] == wanted and _chat(source)[2]]
    return list(dict.fromkeys(found))


def shaped(sources: Iterable[Any]) -> list[Any]:
    """
    Return those of one chat's sources that have its true shape.

    A source that somebody made up is a direct chat (Hermes's default), or nobody's: where others
    say group, or name a person, it is wrong: such sessions lie about where their chat is.
    """
    found = list(sources)
    groups = [source for source in found if getattr(source, "chat_type", "dm") != "dm"]
    named = [source for source in groups if getattr(source, "user_id", None)]
    return named or groups or found


# --- the home channel -----------------------------------------------------------------------------


def home(runner: Any, channel: Channel, env: Mapping[str, str]) -> Channel:
    """
    Return `channel` with a chat: its own, else the platform's home channel.

    Hermes's own config first (gateway/config.py:967), then `<PLATFORM>_HOME_CHANNEL`. Raises
    BadChannel, naming both ways to set it.
    """
    if channel.chat_id is not None:
        return channel
    own = configured_home(runner, channel.platform)
    if own is not None:
        thread = channel.thread or str(getattr(own, "thread_id", None) or "") or None
        return channel._replace(chat_id=str(own.chat_id), thread=thread)
    try:
        return home_channel.resolve(channel, env)
    except BadChannel:
        raise BadChannel(_no_home(channel.platform)) from None


def _no_home(platform: str) -> str:
    variable = home_channel.variable(platform)
    return (
        f"{platform} has no home channel here: write /sethome in that chat (or"
        f" platforms.{platform}.home_channel in config.yaml), or set {variable} in"
        f" $HERMES_HOME/.env; or name a chat: {platform}:CHAT"
    )


def configured_home(runner: Any, platform: str) -> Any:
    """Return Hermes's HomeChannel of a platform (chat_id, thread_id), or None."""
    find = getattr(getattr(runner, "config", None), "get_home_channel", None)
    member = platforms(runner).get(platform.lower())
    found = find(member) if callable(find) and member is not None else None
    return found if getattr(found, "chat_id", None) else None


def homes(runner: Any, env: Mapping[str, str]) -> list[Channel]:
    """Return the home channels of this gateway's platforms."""
    found = []
    for platform in platforms(runner):
        try:
            found.append(home(runner, Channel(platform, None, None, platform), env))
        except BadChannel:
            continue
    return found


def is_home(runner: Any, channel: Channel, env: Mapping[str, str]) -> bool:
    """Return whether `channel` is the home channel of its platform."""
    return any(
        (home.platform.lower(), home.chat_id, home.thread)
        == (channel.platform.lower(), channel.chat_id, channel.thread)
        for home in homes(runner, env)
    )


def at_home(runner: Any, heard: Heard, channel: Channel, chat_type: str) -> Origin | None:
    """
    Return the owner's own origin in the home channel, in which nobody who may has written.

    None where the chat belongs to a person who may no longer talk to the agent.
    """
    seen = people(runner, heard, channel)
    if chat_type == "dm" and any(getattr(source, "user_id", None) for source in seen):
        return None
    make = getattr(sys.modules.get("gateway.session"), "SessionSource", None)
    member = platforms(runner).get(channel.platform.lower())
    if not callable(make) or member is None:
        return None
    source = make(
        platform=member,
        chat_id=channel.chat_id,
        chat_type=chat_type,
        thread_id=channel.thread,
    )
    key = key_of(runner, source)
    return Origin(source, key, owner=True) if key else None


def known_type(runner: Any, heard: Heard, channel: Channel) -> str:
    """Return the chat's type as sessions or Hermes's channel directory know it, or ""."""
    for source in people(runner, heard, channel):
        return str(getattr(source, "chat_type", "") or "")
    look = getattr(sys.modules.get("gateway.channel_directory"), "lookup_channel_type", None)
    try:
        found = look(channel.platform.lower(), channel.chat_id) if callable(look) else ""
    except Exception:  # a broken directory file
        return ""
    return found if found in TYPES else ""
