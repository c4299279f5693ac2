"""
What an adapter may be able to do beyond `Adapter`, each a Protocol of its own (ADAPTERS.md).

Rule 1: asked for by `isinstance`, never demanded: who has none of it is an adapter as well. Rule 2:
all of it is pure, as the three functions are.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from wakebus.adapters.base import File, Outgoing, Request, Response, Target, Token


@runtime_checkable
class Measures(Protocol):
    """An adapter whose limit is not that of the bare text (escapes, an envelope)."""

    def measure(self, text: str) -> int:
        """Return what this text takes of `max_text`, in the card's unit."""
        ...


@runtime_checkable
class HasWays(Protocol):
    """An adapter with several ways to one chat; after WayClosed the next one is taken."""

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the ways that are set up for this chat, best first; raise Rejected for none."""
        ...


@runtime_checkable
class KeysByWay(Protocol):
    """An adapter whose key makes a resend safe on some of its ways only."""

    def key_time(self, target: Target, way: str) -> float:
        """Return `idempotent_s` of this way, in seconds; 0: a resend may double."""
        ...


@runtime_checkable
class HasHosts(Protocol):
    """An adapter whose chats are on several hosts that the URLs of its requests do not name."""

    def host(self, target: Target) -> str:
        """Return a name, without any secret, of where this chat is; one that hangs is held back."""
        ...


@runtime_checkable
class HasToken(Protocol):
    """An adapter whose requests need an access token, which the shell gets, keeps and renews."""

    def token_request(self, way: str) -> Request | None:
        """Return the request that gets a token; None where this way needs none."""
        ...

    def parse_token(self, response: Response) -> Token:
        """Return the token, or raise a DeliveryError."""
        ...


@runtime_checkable
class LooksUp(Protocol):
    """An adapter that has to ask for a chat's real id (an alias, a person's direct chat)."""

    def lookup(self, target: Target) -> Request | None:
        """Return the request that leads one step nearer to the chat; None when it is the chat."""
        ...

    def parse_lookup(self, target: Target, response: Response) -> Target:
        """Return the target one step nearer, or raise a DeliveryError."""
        ...


@runtime_checkable
class Uploads(Protocol):
    """An adapter that brings a file to the platform first, and then shows it in the chat."""

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the next request that brings `outgoing.file` there; None when it is there."""
        ...

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with what the platform said, or raise a DeliveryError."""
        ...


@runtime_checkable
class Checks(Protocol):
    """
    An adapter whose credential a harmless request verifies; it sends nothing to anybody.

    check_way: the way whose token the request needs, "" where there is one way or no token.
    """

    check_way: ClassVar[str]

    def check_request(self, token: str) -> Request | None:
        """Return the request; None where the token alone, which was just fetched, says it all."""
        ...

    def parse_check(self, response: Response) -> str:
        """Return who we are there, in a few words, or raise a DeliveryError."""
        ...
