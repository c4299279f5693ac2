"""
How fast each platform may be written to, as settings: `<PLATFORM>_RATE_CHAT` and `_RATE_APP`.

Rule 1: the defaults are the adapters' cards. Rule 2: no value is shown where it is wrong: it may be
anything that was pasted into `.env`. Rule 3: an adapter that cannot be loaded has no such settings
here; `wakebus channels` names it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from wakebus.adapters import registry
from wakebus.adapters.base import Adapter
from wakebus.adapters.errors import DeliveryError, Scope
from wakebus.adapters.pacing.rate_limiter import SCOPES, parse_rate

_TO: Final[Mapping[Scope, str]] = {"chat": "one chat", "app": "all chats"}


class RateSetting(NamedTuple):
    """`default`: as it would be written; several where the card has one for each kind of chat."""

    name: str
    default: str
    description: str
    unit: str = "messages/seconds"


def rate_settings(load: Callable[[str], type[Adapter]] = registry.load) -> Iterator[RateSetting]:
    """Yield the settings of every platform that has an adapter."""
    for platform in registry.known():
        try:
            limits = load(platform).capabilities.limits
        except DeliveryError:
            continue
        for scope in SCOPES:
            own = [f"{limit.count}/{limit.seconds:g}" for limit in limits if limit.scope == scope]
            name = f"{platform}_rate_{scope}".upper()
            default = ", ".join(dict.fromkeys(own)) or "off"
            yield RateSetting(name, default, f"messages to {_TO[scope]}: COUNT/SECONDS, or off")


def check_rate(text: str) -> str:
    """Return `text`; raise ValueError, which says how a rate is written."""
    parse_rate(text)
    return text


def near_rate(name: str, known: Iterable[str]) -> str:
    """Return the setting that an unknown name is most likely meant to be, "" without one."""
    names = set(known)
    if name in names or "_RATE" not in name:
        return ""
    near = get_close_matches(name, sorted(names), n=1, cutoff=0.85)
    return near[0] if near else ""
