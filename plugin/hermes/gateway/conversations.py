"""
Whose conversation a text belongs to: from a channel or a session to the person's own.

Rule 1: a turn is always run as somebody who wrote there and may talk to the agent now; what Hermes
calls their SessionSource is taken as it is, never made up (but in the owner's home channel).
Rule 2: a chat's persons in this order: who was heard last in this process, then the newest stored
session; a source of the wrong shape (a direct chat that is a group) never counts.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from wakebus.adapters.channel import Channel
from wakebus.adapters.errors import BadChannel
from wakebus.adapters.settings import home_channel
from wakebus.plugin.hermes.host_api.protocol import GatewayApi, platform_name
from wakebus.plugin.hermes.shared.bounded_map import BoundedMap

MAX_HEARD: Final = 2000  # persons in chats


class Conversation(NamedTuple):
    """
    `source`: a SessionSource of Hermes; `key`: of its session.

    `owner`: the owner's home channel, in which nobody need have written.
    """

    source: Any
    key: str
    owner: bool = False


def channel_token(source: Any) -> str:
    """Return the channel `platform:chat_id[?thread=ID]` of a source, "" where it has no chat."""
    platform, chat, thread = _chat(source)
    if not platform or not chat:
        return ""
    return f"{platform}:{chat}?thread={thread}" if thread else f"{platform}:{chat}"


def canonical_token(channel: Channel) -> str:
    """Return the token by which sessions of this chat are found, as `channel_token` makes it."""
    text = f"{channel.platform.lower()}:{channel.chat_id}"
    return f"{text}?thread={channel.thread}" if channel.thread else text


def _chat(source: Any) -> tuple[str, str, str]:
    parts = (getattr(source, name, None) for name in ("chat_id", "thread_id"))
    chat, thread = (str(part) if part is not None else "" for part in parts)
    return platform_name(getattr(source, "platform", None)), chat, thread


def _person(source: Any) -> tuple[str, ...]:
    return (*_chat(source), str(getattr(source, "user_id", None) or ""))


class Conversations:
    """
    The conversations of one gateway.

    `environ`: where home channels may be named that Hermes's config does not name.
    """

    def __init__(self, hermes: GatewayApi, environ: Mapping[str, str]) -> None:
        self.hermes, self._environ = hermes, environ
        self._speakers, self._admitted = BoundedMap(MAX_HEARD), BoundedMap(MAX_HEARD)

    def remember_speaker(self, source: Any) -> None:
        """A person has written; Hermes has not asked for their right yet."""
        self._speakers.put(_person(source), source)

    def remember_admitted(self, source: Any, key: str) -> None:
        """Hermes has let a person talk to the agent, in the session `key`."""
        self._admitted.put(_person(source), key)
        if self._speakers.get(_person(source)) is None:
            self._speakers.put(_person(source), source)

    def may_talk(self, source: Any) -> bool:
        """Return whether this person may talk now; where Hermes does not say: whether they did."""
        found = self.hermes.may_talk(source)
        return self._admitted.get(_person(source)) is not None if found is None else found

    def key_of(self, source: Any) -> str:
        """Return the session key that Hermes gives a source, or ""."""
        return self.hermes.key_of(source) or str(self._admitted.get(_person(source)) or "")

    # --- stored sessions --------------------------------------------------------------------

    def by_key(self, key: str) -> Conversation | None:
        """Return the stored session with exactly this key."""
        found = (stored for stored in self.hermes.sessions() if stored.key == key)
        return next((Conversation(stored.source, stored.key) for stored in found), None)

    def by_id(self, session_id: str) -> Conversation | None:
        """Return the stored session whose history has this id now."""
        found = self.hermes.session_of(session_id)
        return None if found is None else Conversation(found.source, found.key)

    # --- who is in a chat -------------------------------------------------------------------

    def in_chat(self, channel: Channel) -> Conversation | None:
        """Return whose session a text for `channel` belongs to; None: nobody may talk here."""
        for source in self.people(channel):
            if self.may_talk(source) and (key := self.key_of(source)):
                return Conversation(source, key)
        return None

    def people(self, channel: Channel) -> list[Any]:
        """Return the sources seen in exactly this chat and thread, rightly shaped, newest first."""
        wanted = (channel.platform.lower(), channel.chat_id or "", channel.thread or "")
        return shaped(source for source in self._seen() if _chat(source) == wanted)

    def threads(self, channel: Channel) -> list[str]:
        """Return the channels of threads in the chat, newest first."""
        wanted = (channel.platform.lower(), channel.chat_id or "")
        seen = [(_chat(source), source) for source in self._seen()]
        found = [channel_token(source) for chat, source in seen if chat[:2] == wanted and chat[2]]
        return list(dict.fromkeys(found))

    def _seen(self) -> list[Any]:
        stored = [session.source for session in self.hermes.sessions()]
        return self._speakers.newest_first() + stored

    # --- the home channel -------------------------------------------------------------------

    def home(self, channel: Channel) -> Channel:
        """
        Return `channel` with a chat: its own, else the platform's home channel.

        Hermes's own config first (gateway/config.py:967), then `<PLATFORM>_HOME_CHANNEL`. Raises
        BadChannel, naming both ways to set it.
        """
        if channel.chat_id is not None:
            return channel
        if (own := self.hermes.home(channel.platform)) is not None:
            chat, thread = own
            return channel._replace(chat_id=chat, thread=channel.thread or thread or None)
        try:
            return home_channel.resolve(channel, self._environ)
        except BadChannel:
            raise BadChannel(_no_home(channel.platform)) from None

    def homes(self) -> list[Channel]:
        """Return the home channels of this gateway's platforms."""
        found = []
        for platform in self.hermes.platforms():
            try:
                found.append(self.home(Channel(platform, None, None, platform)))
            except BadChannel:
                continue
        return found

    def is_home(self, channel: Channel) -> bool:
        """Return whether `channel` is the home channel of its platform."""
        return any(
            (home.platform.lower(), home.chat_id, home.thread)
            == (channel.platform.lower(), channel.chat_id, channel.thread)
            for home in self.homes()
        )

    def at_home(self, channel: Channel, chat_type: str) -> Conversation | None:
        """
        Return the owner's own in the home channel, in which nobody who may has written.

        None where the chat belongs to a person who may no longer talk to the agent.
        """
        seen = self.people(channel)
        if chat_type == "dm" and any(getattr(source, "user_id", None) for source in seen):
            return None
        source = self.hermes.owner_source(channel, chat_type)
        key = self.hermes.key_of(source) if source is not None else ""
        return Conversation(source, key, owner=True) if key else None

    def type_of_chat(self, channel: Channel) -> str:
        """Return the chat's type as its sessions, Hermes or the platform know it, else `dm`."""
        seen = self.people(channel)
        known = str(getattr(seen[0], "chat_type", "") or "") if seen else ""
        return known or self.hermes.chat_type(channel) or "dm"


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


def _no_home(platform: str) -> str:
    variable = home_channel.home_variable(platform)
    return (
        f"{platform} has no home channel here: write /sethome in that chat (or"
        f" platforms.{platform}.home_channel in config.yaml), or set {variable} in"
        f" $HERMES_HOME/.env; or name a chat: {platform}:CHAT"
    )
