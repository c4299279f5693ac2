"""
What the codes of the platforms mean, as data.

Rule 1: pure. Rule 2: what a table does not list is permanent: a platform that says no in its own
words took nothing in, and the same again would fail the same way (openclaw #35312: 230001 was
retried for 12 minutes). Rule 3: an advice says what the owner of the bot does next.
Sources: the platforms' error lists, by way of their SDKs and public reports (ADAPTERS.md).
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from wakebus.adapters.errors import (
    DeliveryError,
    Rejected,
    Throttled,
    TokenRefused,
    Uncertain,
    WayClosed,
)

Kind = Literal["token", "throttled", "rejected", "closed", "uncertain"]


class Meaning(NamedTuple):
    """A kind of error, what to do about it, and seconds to wait where only the code says them."""

    kind: Kind = "rejected"
    advice: str = ""
    wait_s: float | None = None


def error(meaning: Meaning, text: str, wait_s: float | None = None) -> DeliveryError:
    """Return the error that a meaning is; `wait_s`: what the answer itself asks for."""
    if meaning.kind == "throttled":
        return Throttled(text, retry_after=meaning.wait_s if wait_s is None else wait_s)
    return _ERRORS[meaning.kind](text)


_ERRORS: Final[Mapping[Kind, type[DeliveryError]]] = {
    "token": TokenRefused,
    "rejected": Rejected,
    "closed": WayClosed,
    "uncertain": Uncertain,
}

_TOKEN: Final = Meaning("token")
_THROTTLED: Final = Meaning("throttled")
_CREDENTIALS: Final = "check FEISHU_APP_ID and FEISHU_APP_SECRET"
_SCOPE: Final = "grant the app this scope and release a version"

FEISHU: Final[Mapping[int, Meaning]] = {
    # cc-connect #401, multica #7611: retried with the stale token for ever.
    **dict.fromkeys((99991661, 99991663, 99991668, 99991671, 99991677), _TOKEN),
    # openclaw #89659: fatal there, half of 20 parallel sends lost. 11232: the tenant's limit.
    **dict.fromkeys((99991400, 230020, 11232), _THROTTLED),
    # "message is being sent": the same uuid is on its way.
    230049: Meaning("uncertain"),
    230001: Meaning(advice="is the chat id right, and of this app?"),
    230002: Meaning(advice="add the bot to the group"),
    230006: Meaning(advice="turn on the app's bot ability"),
    230011: Meaning(advice="the message that starts the thread is gone"),
    231003: Meaning(advice="the message that starts the thread is gone"),
    230013: Meaning(advice="put the user into the app's availability"),
    **dict.fromkeys((230022, 230028), Meaning(advice="the tenant's content audit refused it")),
    **dict.fromkeys((10014, 99991543), Meaning(advice=_CREDENTIALS)),
    **dict.fromkeys((99991672, 99991676, 99991679), Meaning(advice=_SCOPE)),
    **dict.fromkeys((99991662, 99991673), Meaning(advice="turn the app on in the console")),
    19001: Meaning(advice="check FEISHU_WEBHOOK_URL"),
    19021: Meaning(advice="check FEISHU_WEBHOOK_SECRET, and this machine's clock"),
    19022: Meaning(advice="put this machine's address on the bot's list"),
    19024: Meaning(advice="the bot takes only texts with its keyword"),
}

_NO_GROUP: Final = (
    "the robot is not in this group, or the id is a 1:1 chat's; a person is user:STAFF_ID"
)

DINGTALK: Final[Mapping[str, Meaning]] = {
    "InvalidAuthentication": _TOKEN,
    # "Forbidden", and yet the next second is free: 20 QPS per app and API.
    "Forbidden.AccessDenied.QpsLimitForAppkeyAndApi": Meaning("throttled", wait_s=1.0),
    "Forbidden.AccessDenied.QpsLimitForApi": Meaning("throttled", wait_s=1.0),
    **dict.fromkeys(("send.too.fast", "send.byToken.tooFast"), _THROTTLED),
    **dict.fromkeys(("too.many.group", "too.many.people"), _THROTTLED),
    "Forbidden.AccessDenied.ApiCountLimitForOrg": Meaning(advice="the month's quota is used up"),
    # There is no key: sent again, it might stand there twice.
    **dict.fromkeys(("unknown.send.result", "system.error"), Meaning("uncertain")),
    **dict.fromkeys(("session.expired", "session.notExisted"), Meaning("closed")),
    "resource.not.found": Meaning(advice=_NO_GROUP),
    "invalid.openConversationId": Meaning(advice=_NO_GROUP),
    "staffId.notExisted": Meaning(advice="a user is named by the staff id (userId)"),
    "invalidClientIdOrSecret": Meaning(
        advice="check DINGTALK_CLIENT_ID and DINGTALK_CLIENT_SECRET"
    ),
    "invalidParameter.robotCode.notExsit": Meaning(advice="check DINGTALK_ROBOT_CODE"),
}

# The webhooks' `errcode`. A robot that is too fast is mute for 10 minutes.
DINGTALK_WEBHOOK: Final[Mapping[int, Meaning]] = {
    -1: Meaning("uncertain"),
    **dict.fromkeys((40014, 42001), _TOKEN),
    130101: Meaning("throttled", wait_s=600.0),
    **dict.fromkeys((90002, 90018), _THROTTLED),
    90020: Meaning(advice="the month's quota is used up"),
    300001: Meaning("closed"),
    310000: Meaning(advice="check the robot's keyword, DINGTALK_WEBHOOK_SECRET and address list"),
}
