"""
Calls into an adapter, which is somebody else's code: what it returns, or a DeliveryError.

Rule 1: whatever it raises, the courier lives. What is asked before a request is performed performs
nothing, so a bug in it is `rejected`. Rule 2: a bug is shown by its type and place, never its text:
that may hold a credential. Rule 3: an adapter's optional protocols (abilities.py) are known only
here, so that all others speak of ways, tokens and uploads.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from wakebus.adapters import registry
from wakebus.adapters.abilities import (
    HasHosts,
    HasToken,
    HasWays,
    KeysByWay,
    LooksUp,
    Measures,
    Uploads,
)
from wakebus.adapters.base import (
    Adapter,
    Capabilities,
    File,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
    Token,
    length,
)
from wakebus.adapters.channel import Channel
from wakebus.adapters.delivery.split import Measure, split
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    Rejected,
    Unavailable,
)
from wakebus.adapters.settings.home_channel import resolve

T = TypeVar("T")


def guarded(platform: str, step: Callable[[], T]) -> T:
    """Return what a step of the adapter returns before anything is performed."""
    try:
        return step()
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter.of_bug(platform, exc) from exc


def checked_token(token: Token) -> Token:
    """Return the token, or raise Unavailable: the adapter gave none."""
    if isinstance(token, Token) and isinstance(token.value, str) and token.value:
        return token
    raise Unavailable("the platform gave no access token")


@dataclass(frozen=True, slots=True)
class GuardedAdapter:
    """
    One chat, by its adapter.

    What parses an answer (`parse_…`) is called with the answer at hand, by who has asked for it,
    and may raise anything; all else raises a DeliveryError.
    """

    adapter: Adapter
    target: Target

    @classmethod
    def resolve(
        cls, channel: Channel, env: Mapping[str, str], load: registry.LoadAdapter = registry.load
    ) -> "GuardedAdapter":
        """Return the chat that a channel names, or raise Rejected; no IO on any platform."""
        kind = load(channel.platform)
        found = resolve(channel, env)

        def step() -> "GuardedAdapter":
            return cls._parsed(kind(env), found.chat_id or "", found.thread)

        return guarded(channel.platform, step)

    @classmethod
    def _parsed(cls, adapter: Adapter, chat_id: str, thread: str | None) -> "GuardedAdapter":
        target = adapter.parse_target(chat_id, thread)
        if isinstance(target, Target) and isinstance(adapter.capabilities, Capabilities):
            return cls(adapter, target)
        raise TypeError

    # --- the chat -------------------------------------------------------------------------

    @property
    def platform(self) -> str:
        """Its platform's name."""
        return self.target.platform

    @property
    def card(self) -> Capabilities:
        """What the platform can do."""
        return self.adapter.capabilities

    @property
    def token(self) -> str:
        """The channel token that leads to just this chat, "" where none does."""
        token = str(self.target)
        try:
            return token if str(self.at_token(token).target) == token else ""
        except DeliveryError:
            return ""

    def at(self, target: Target) -> "GuardedAdapter":
        """Return another chat of the same adapter."""
        return replace(self, target=target)

    def at_id(self, chat_id: str) -> "GuardedAdapter":
        """Return the chat that has this id, in the same thread, or raise BadTarget."""
        thread = self.target.thread
        return guarded(self.platform, lambda: self._parsed(self.adapter, chat_id, thread))

    def at_token(self, token: str) -> "GuardedAdapter":
        """Return the chat whose `token` this is, or raise BadTarget."""
        chat_id, _, thread = token.partition(":")[2].partition("?thread=")
        return guarded(self.platform, lambda: self._parsed(self.adapter, chat_id, thread or None))

    def lookup(self) -> Request | None:
        """Return the request that leads one step nearer to the chat, None where there is none."""
        adapter = self.adapter
        if not isinstance(adapter, LooksUp):
            return None
        return guarded(self.platform, lambda: adapter.lookup(self.target))

    def parse_lookup(self, answer: Response) -> "GuardedAdapter":
        """Return the chat one step nearer."""
        assert isinstance(self.adapter, LooksUp)
        found = self.adapter.parse_lookup(self.target, answer)
        if not isinstance(found, Target) or not found.chat_id:
            raise TypeError
        return self.at(replace(found, platform=self.platform))

    # --- what a resend does ---------------------------------------------------------------

    @property
    def always_safe(self) -> bool:
        """Whether a second request with the same key never makes a second message."""
        return self.card.idempotent_s == math.inf and not isinstance(self.adapter, KeysByWay)

    def key_time(self, way: str) -> float:
        """Return for how many seconds a key makes a resend by this way safe; 0: not known."""
        if not isinstance(self.adapter, KeysByWay):
            return self.card.idempotent_s
        try:
            return float(self.adapter.key_time(self.target, way))
        except Exception:
            return 0.0

    # --- a text and its requests ----------------------------------------------------------

    @property
    def measure(self) -> Measure:
        """What counts a text as the platform does; it may raise anything."""
        if isinstance(self.adapter, Measures):
            return self.adapter.measure
        return self._length

    @property
    def _length(self) -> Measure:
        return partial(length, unit=self.card.unit)

    def split(self, text: str) -> list[str]:
        """Return a text in parts that the platform takes, or raise Rejected."""
        limit, measure, least = self.card.max_text, self.measure, self._length
        return guarded(self.platform, lambda: split(text, measure, limit, least))

    def ways(self, outgoing: Outgoing) -> list[str]:
        """Return the ways to this chat, best first; [""] for an adapter that knows one only."""
        adapter = self.adapter
        if not isinstance(adapter, HasWays):
            return [""]
        ways = guarded(self.platform, lambda: [*map(str, adapter.ways(self.target, outgoing))])
        if not ways:
            raise Rejected("no way to this chat is set up")
        return ways

    def token_request(self, way: str) -> Request | None:
        """Return the request for the token that this way needs, None if it needs none."""
        adapter = self.adapter
        if not isinstance(adapter, HasToken):
            return None
        return guarded(self.platform, lambda: adapter.token_request(way))

    def parse_token(self, answer: Response) -> Token:
        """Return the token."""
        assert isinstance(self.adapter, HasToken)
        return checked_token(self.adapter.parse_token(answer))

    def upload(self, outgoing: Outgoing) -> Request | None:
        """Return the next request that brings the outgoing file there, None when it is there."""
        adapter = self.adapter
        if not isinstance(adapter, Uploads):
            return None
        return guarded(self.platform, lambda: adapter.upload(self.target, outgoing))

    def needs_upload(self, outgoing: Outgoing) -> bool:
        """Whether the outgoing file must be brought there first."""
        return self.upload(_bare(outgoing)) is not None

    def parse_upload(self, file: File, answer: Response) -> File:
        """Return the file with what the platform said of it."""
        assert isinstance(self.adapter, Uploads)
        found = self.adapter.parse_upload(file, answer)
        if isinstance(found, File):
            return found
        raise TypeError

    def build(self, outgoing: Outgoing) -> Request:
        """Return the request that sends this, or raise Rejected."""
        return guarded(self.platform, lambda: self.adapter.build_request(self.target, outgoing))

    def parse_sent(self, answer: Response) -> Sent:
        """Return what the platform says that it did."""
        sent = self.adapter.parse_response(answer)
        if isinstance(sent, Sent) and isinstance(sent.id, str):
            return sent
        raise TypeError

    # --- what a way would make of it, without a real token --------------------------------

    def rehearse(self, outgoing: Outgoing, way: str) -> Request:
        """Return the first request that this way makes of it, or raise what is wrong with it."""
        outgoing = self._by_way(outgoing, way)
        return self.upload(outgoing) or self.build(outgoing)

    def shows_reply(self, outgoing: Outgoing, way: str) -> bool:
        """Whether it is shown as a reply; what cannot be built says so when it is sent."""
        outgoing = self._by_way(outgoing, way)
        try:
            return self.build(outgoing) != self.build(replace(outgoing, reply_to=None))
        except DeliveryError:
            return True

    def ways_elsewhere(self, outgoing: Outgoing, way: str, others: Iterable[str]) -> list[str]:
        """Return the others that carry this to another place: a busy host is no better reached
        in another format."""
        here = self._destination(outgoing, way)
        return [other for other in others if self._destination(outgoing, other) not in (here, None)]

    def host(self, outgoing: Outgoing) -> str:
        """Return the host to which the first way leads, "" where there is one or none is told."""
        adapter, asked = self.adapter, replace(outgoing, text="text", file=None)
        try:  # the address is the same for any text
            url = self.rehearse(asked, self.ways(asked)[0]).url
            if isinstance(adapter, HasHosts):
                return guarded(self.platform, lambda: str(adapter.host(self.target)))
        except DeliveryError:
            return ""
        return url.partition("://")[2].partition("/")[0].partition("?")[0].lower()

    def _destination(self, outgoing: Outgoing, way: str) -> tuple[str, str] | None:
        """Return where a way leads, None where it cannot carry this."""
        try:
            asked, request = self.token_request(way), self.rehearse(outgoing, way)
        except DeliveryError:
            return None
        return asked.url if asked else "", request.url.partition("?")[0]

    def _by_way(self, outgoing: Outgoing, way: str) -> Outgoing:
        token = "-" if self.token_request(way) else ""
        return replace(_bare(outgoing), way=way, token=token)


def _bare(outgoing: Outgoing) -> Outgoing:
    """Return it with one byte of its file: what is only asked need not make a form of 20 MiB."""
    file = outgoing.file
    return outgoing if file is None else replace(outgoing, file=replace(file, data=file.data[:1]))
