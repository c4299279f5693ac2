"""
Requests beside the message: they show nothing to anybody, and may be made again.

Rule 1: a doubt about one is Silent: of the text nothing went out, and who said nothing for as long
as the transport waits (http.py) is not asked again by the same delivery. Rule 2: an adapter's bug
in reading its answer is `rejected`, by type and place only.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from wakebus.adapters.base import Request, Response, Transport
from wakebus.adapters.delivery import adapter_calls as calls
from wakebus.adapters.errors import BrokenAdapter, DeliveryError, Silent, Uncertain

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
        raise Silent(f"{without}: {exc.text}") from exc
    except DeliveryError:
        raise
    except Exception as exc:
        raise BrokenAdapter.of_bug(platform, exc) from exc
