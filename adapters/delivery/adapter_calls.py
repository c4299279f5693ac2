"""
Calls into an adapter, which is somebody else's code: what it returns, or a DeliveryError.

Rule 1: whatever it raises, the courier lives. These calls perform nothing, so a bug in one is
`rejected`. Rule 2: a bug is shown by its type and place, never its text: that may hold a
credential. Rule 3: what every call means is asked here, so that the shell speaks of ways and
tokens only.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from wakebus.adapters import base
from wakebus.adapters.abilities import HasToken, HasWays, KeysByWay, Measures, Uploads
from wakebus.adapters.base import Adapter, Outgoing, Request, Target, Token, Transport
from wakebus.adapters.errors import (
    BrokenAdapter,
    DeliveryError,
    Rejected,
    Unavailable,
    place_of,
)

T = TypeVar("T")


def guarded(platform: str, step: Callable[[], T]) -> T:
    """Return what a step of the adapter returns before anything is performed."""
    try:
        return step()
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter.of_bug(platform, exc) from exc


def kept(step: Callable[[], T]) -> T:
    """Return what the record of parts returns, or raise Unavailable: without it nothing begins."""
    try:
        return step()
    except DeliveryError:
        raise
    except Exception as exc:
        raise Unavailable(f"the record of its parts cannot be kept: {place_of(exc)}") from exc


def parsed(adapter: Adapter, chat_id: str, thread: str | None) -> Target:
    """Return the chat of an id, or raise BadTarget."""
    target = adapter.parse_target(chat_id, thread)
    if isinstance(target, Target) and isinstance(adapter.capabilities, base.Capabilities):
        return target
    raise TypeError


def token_of(adapter: Adapter, target: Target) -> str:
    """Return the token that leads to just this chat, "" where none does."""
    try:
        found = again(adapter, str(target))
    except Exception:
        return ""
    return str(target) if str(found) == str(target) else ""


def again(adapter: Adapter, token: str) -> Target:
    """Return the chat of a token that `token_of` gave, or raise BadTarget."""
    chat_id, _, thread = token.partition(":")[2].partition("?thread=")
    return parsed(adapter, chat_id, thread or None)


def measure_of(adapter: Adapter) -> Callable[[str], int]:
    """Return what counts a text as this platform does."""
    if isinstance(adapter, Measures):
        return adapter.measure
    unit = adapter.capabilities.unit
    return lambda text: base.length(text, unit)


def ways_of(adapter: Adapter, target: Target, message: Outgoing) -> list[str]:
    """Return the ways to this chat, best first; [""] for an adapter that knows one only."""
    if not isinstance(adapter, HasWays):
        return [""]
    ways = guarded(target.platform, lambda: [*map(str, adapter.ways(target, message))])
    if not ways:
        raise Rejected("no way to this chat is set up")
    return ways


def key_time(adapter: Adapter, target: Target, way: str) -> float:
    """Return for how many seconds a key makes a resend by this way safe; 0 if that is unknown."""
    if not isinstance(adapter, KeysByWay):
        return adapter.capabilities.idempotent_s
    try:
        return float(adapter.key_time(target, way))
    except Exception:
        return 0.0


def token_request(adapter: Adapter, target: Target, way: str) -> Request | None:
    """Return the request for the token that this way needs, None if it needs none."""
    if not isinstance(adapter, HasToken):
        return None
    return guarded(target.platform, lambda: adapter.token_request(way))


def checked(token: Token) -> Token:
    """Return the token, or raise Unavailable: the adapter gave none."""
    if isinstance(token, Token) and isinstance(token.value, str) and token.value:
        return token
    raise Unavailable("the platform gave no access token")


def built(adapter: Adapter, target: Target, outgoing: Outgoing) -> Request:
    """Return the request that sends this, or raise Rejected."""
    return guarded(target.platform, lambda: adapter.build_request(target, outgoing))


def answers_to(adapter: Adapter, target: Target, outgoing: Outgoing) -> bool:
    """Whether what this sends is shown as a reply; what cannot be built says so when it is sent."""
    bare = replace(outgoing, reply_to=None)
    try:
        return built(adapter, target, outgoing) != built(adapter, target, bare)
    except DeliveryError:
        return True


def upload(adapter: Adapter, target: Target, outgoing: Outgoing) -> Request | None:
    """Return the next request that brings the outgoing file there, None when it is there."""
    if not isinstance(adapter, Uploads):
        return None
    return guarded(target.platform, lambda: adapter.upload(target, outgoing))


def performer(performers: Mapping[str, Transport], request: Request) -> Transport:
    """Return what performs this request, or raise Rejected."""
    if request.scheme not in performers:
        raise Rejected(f"nothing here speaks {request.scheme!r}")
    return performers[request.scheme]
