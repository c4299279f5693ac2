"""
What a text would become at its chat, without sending it: its parts, ways and requests, masked.

Rule 1: nothing is performed, nothing is asked of anybody. Rule 2: what is shown is made by the
same calls as what is sent: cleaned, split, keyed, built. Rule 3: an access token is not fetched
but shown as `***`, with the request that would fetch it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakebus.adapters import calls
from wakebus.adapters.base import Adapter, Outgoing, Target
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.mask import STARS, hidden, masked, secrets_of
from wakebus.adapters.send import outgoing_of


def preview(
    adapter: Adapter, target: Target, text: str, key: str, at: float, env: Mapping[str, str]
) -> dict[str, Any]:
    """
    Return what `deliver` would send, as JSON. Raises Rejected as it would.

    `{"chat", "limit", "unit", "ways", "tokens": [{"way", method, url, headers, body}], "parts":
    [{"part", "size", "text", "requests": [{"way", method, url, headers, body}]}]}`. A way that
    cannot carry a part has `{"way", "error"}`. at: Unix seconds. env: what the adapter was made of.
    """
    outgoing = outgoing_of(adapter, target, text, key)
    ways = calls.ways_of(adapter, target, outgoing[0])
    secrets = secrets_of(env)
    measure = calls.measure_of(adapter)
    return {
        "chat": str(target),
        "limit": adapter.capabilities.max_text,
        "unit": adapter.capabilities.unit,
        "ways": ways,
        "tokens": _tokens(adapter, target, ways, secrets),
        "parts": [
            {
                "part": number,
                "size": measure(part.text),
                "text": part.text,
                "requests": [_request(adapter, target, part, way, at, secrets) for way in ways],
            }
            for number, part in enumerate(outgoing, 1)
        ],
    }


def _tokens(
    adapter: Adapter, target: Target, ways: Sequence[str], secrets: set[str]
) -> list[dict[str, Any]]:
    asked = {way: calls.token_request(adapter, target, way) for way in ways}
    once: list[dict[str, Any]] = []
    for way, request in asked.items():
        if request and request not in [asked[one["way"]] for one in once]:
            once.append({"way": way, **masked(request, secrets)})
    return once


def _request(
    adapter: Adapter, target: Target, part: Outgoing, way: str, at: float, secrets: set[str]
) -> dict[str, Any]:
    token = STARS if calls.token_request(adapter, target, way) else ""
    sent = Outgoing(part.text, part.key, token=token, way=way, at=at, whole=part.whole)
    try:
        return {"way": way, **masked(calls.built(adapter, target, sent), secrets)}
    except DeliveryError as exc:
        return {"way": way, "error": hidden(exc.text, secrets)}
