"""
What a code of a platform may mean, and the error that it then is.

Rule 1: pure. Rule 2: the tables of codes, and where they are from, stand in platforms/.
Rule 3: an advice says what the owner of the bot does next.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Scope,
    Throttled,
    TokenRefused,
    Unavailable,
    Uncertain,
    WayClosed,
)

Kind = Literal["token", "throttled", "unavailable", "rejected", "closed", "uncertain"]


class Meaning(NamedTuple):
    """
    A kind of error, what to do about it, and seconds to wait where only the code says them.

    scope: what a throttle holds up, this chat alone or all that the app sends.
    """

    kind: Kind = "rejected"
    advice: str = ""
    wait_s: float | None = None
    scope: Scope = "chat"


def error_for(meaning: Meaning, text: str, wait_s: float | None = None) -> DeliveryError:
    """Return the error that a meaning is; `wait_s`: what the answer itself asks for."""
    if meaning.kind == "throttled":
        wait = meaning.wait_s if wait_s is None else wait_s
        return Throttled(text, retry_after=wait, scope=meaning.scope)
    return _ERRORS[meaning.kind](text)


_ERRORS: Final[Mapping[Kind, type[DeliveryError]]] = {
    "token": TokenRefused,
    "unavailable": Unavailable,
    "rejected": Rejected,
    "closed": WayClosed,
    "uncertain": Uncertain,
}

TOKEN: Final = Meaning("token")
THROTTLED: Final = Meaning("throttled")
