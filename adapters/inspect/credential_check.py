"""
Whether a platform takes the credential that is set: one harmless request, and what it said.

Rule 1: nothing is sent to anybody: a token is fetched, or the request made that the platform itself
offers for this (abilities.Checks). Rule 2: whatever an adapter or a platform does, there is a
result and a line. Rule 3: no credential is in that line.
"""

from collections.abc import Iterable
from functools import partial
from typing import Literal, NamedTuple

from wakebus.adapters.abilities import Checks, HasToken
from wakebus.adapters.base import Adapter, Request, Response, Token
from wakebus.adapters.delivery.adapter_calls import checked_token, guarded
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.delivery.platform_client import ask_platform
from wakebus.adapters.errors import DeliveryError, place_of
from wakebus.adapters.sanitize import line
from wakebus.adapters.settings.redact import redact

NO_CALL = "cannot be checked: this platform offers no harmless call"
NO_CALL_HERE = "cannot be checked: what is set up here (a webhook) offers no harmless call"
TOKEN = "the platform gave an access token"
_WITHOUT = "no answer that says so"


class CredentialCheck(NamedTuple):
    """`ok`; `failed`, with the platform's words; `none`: there is no way to know."""

    result: Literal["ok", "failed", "none"]
    text: str


def can_check(adapter: Adapter | type[Adapter]) -> bool:
    """Whether the platform offers a harmless call, as far as it is known."""
    return hasattr(adapter, "check_request") or hasattr(adapter, "token_request")


def check_credential(
    platform: str, adapter: Adapter, context: DeliveryContext, secrets: Iterable[str] = ()
) -> CredentialCheck:
    """Return what the platform says of this credential; raises nothing. `secrets`: never shown."""
    known = set(secrets)
    try:
        result, text = _check(platform, adapter, context, known)
    except DeliveryError as exc:
        result, text = "failed", exc.text
    except Exception as exc:  # a bug of ours or of the host's
        result, text = "failed", f"the check failed: {place_of(exc)}"
    return CredentialCheck(result, line(redact(text, known), 300))


def _check(
    platform: str, adapter: Adapter, context: DeliveryContext, known: set[str]
) -> CredentialCheck:
    if not can_check(adapter):
        return CredentialCheck("none", NO_CALL)
    token = _token(platform, adapter, context)
    known.add(token)
    if (
        not isinstance(adapter, Checks)
        or (request := guarded(platform, partial(adapter.check_request, token))) is None
    ):
        return CredentialCheck("ok", TOKEN) if token else CredentialCheck("none", NO_CALL_HERE)
    who = ask_platform(context.performers, platform, request, partial(_who, adapter), _WITHOUT)
    return CredentialCheck("ok", who)


def _token(platform: str, adapter: Adapter, context: DeliveryContext) -> str:
    """Return the access token of the way that is checked, "" where there is none."""
    if not isinstance(adapter, HasToken):
        return ""
    way = str(getattr(adapter, "check_way", ""))
    request = guarded(platform, lambda: adapter.token_request(way))
    if request is None:
        return ""

    def read(response: Response) -> Token:
        return checked_token(adapter.parse_token(response))

    def fetch(asked: Request) -> Token:
        return ask_platform(context.performers, platform, asked, read, "no access token")

    return context.tokens.get(request, fetch)


def _who(adapter: Checks, response: Response) -> str:
    who = adapter.parse_check(response)
    if not isinstance(who, str):
        raise TypeError
    return who or "the credential is good"
