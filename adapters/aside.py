"""
Requests beside the message: they show nothing to anybody, and may be made again.

Rule 1: a doubt about one is Unavailable: of the text nothing went out. Rule 2: an adapter's bug in
reading its answer is `rejected`, by type and place only.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from wakebus.adapters import calls
from wakebus.adapters.base import Request, Response, Transport
from wakebus.adapters.errors import BrokenAdapter, DeliveryError, Unavailable, Uncertain

T = TypeVar("T")


def ask(
    performers: Mapping[str, Transport],
    platform: str,
    request: Request,
    parse: Callable[[Response], T],
    without: str,
) -> T:
    """
    Return what the answer to `request` says, or raise a DeliveryError that is not Uncertain.

    without: what there is none of then, "no access token".
    """
    try:
        perform = calls.performer(performers, request)
        return parse(perform(request))
    except Uncertain as exc:
        raise Unavailable(f"{without}: {exc.text}") from exc
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter(calls.bug(platform, exc)) from exc
