"""
What DingTalk says and wants to hear: ids, codes, answers, the shape of a text.

Rule 1: pure. Rule 2: the code decides before the status: errors stand in 200, throttles in 403.
Source: open.dingtalk.com, robot-message-type, error codes appendix B, custom-robot-access.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, Limit, Response
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import THROTTLED, TOKEN, Meaning
from wakebus.adapters.sanitize import line

# A conversation's id is base64 behind `cid`. All else is a person's staff id, which the
# organisation may choose; `$:LWCP_v1:$…` (a sender's id in messages) is none.
IDS: Final[Shapes] = {
    "webhook": re.compile(r"(webhook)"),
    "group": re.compile(r"(?:group:)?(cid[A-Za-z0-9+/=_-]{1,125})"),
    "user": re.compile(r"(?:user:|(?!group:|cid))(\w[\w.@+-]{0,63})"),
}
RIGHT: Final = (
    "write cid… or group:cid… (group), user:STAFF_ID (person) or webhook;"
    " $:LWCP_v1:$… is no staff id"
)

# Error codes, appendix B: 20 calls a second of an app to each API. custom-robot-access: 20 messages
# a minute; over it the robot is mute for 10. A month's quota cannot be paced.
LIMITS: Final = (
    Limit(20, 1.0, "app", frozenset({"group"})),
    Limit(20, 1.0, "app", frozenset({"user"})),
    Limit(20, 60.0, kinds=frozenset({"webhook"})),
)
SETTINGS: Final = (
    *("DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET", "DINGTALK_ROBOT_CODE"),
    *("DINGTALK_WEBHOOK_URL", "DINGTALK_WEBHOOK_SECRET"),
    *("DINGTALK_API_BASE", "DINGTALK_WEBHOOK_BASE"),
)
CARD: Final = Capabilities(
    15_000,  # of msgParam, serialized
    "bytes",
    limits=LIMITS,
    settings=SETTINGS,
    needs=(SETTINGS[:2], ("DINGTALK_WEBHOOK_URL",)),
)

_ENVELOPE: Final = 400  # bytes around the text at most: title, keys, quotes
_NO_GROUP: Final = (
    "the robot is not in this group, or the id is a 1:1 chat's; a person is user:STAFF_ID"
)

_QPS: Final = Meaning("throttled", wait_s=1.0, scope="app")

CODES: Final[Mapping[str, Meaning]] = {
    "InvalidAuthentication": TOKEN,
    # "Forbidden", and yet the next second is free: 20 QPS per app and API.
    "Forbidden.AccessDenied.QpsLimitForAppkeyAndApi": _QPS,
    "Forbidden.AccessDenied.QpsLimitForApi": _QPS,
    **dict.fromkeys(("send.too.fast", "send.byToken.tooFast"), THROTTLED),
    **dict.fromkeys(("too.many.group", "too.many.people"), THROTTLED),
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
WEBHOOK_CODES: Final[Mapping[int, Meaning]] = {
    -1: Meaning("uncertain"),
    **dict.fromkeys((40014, 42001), TOKEN),
    130101: Meaning("throttled", wait_s=600.0),
    **dict.fromkeys((90002, 90018), Meaning("throttled", scope="app")),
    90020: Meaning(advice="the month's quota is used up"),
    300001: Meaning("closed"),
    310000: Meaning(advice="check the robot's keyword, DINGTALK_WEBHOOK_SECRET and address list"),
}

_NO_SESSION: Final = 300001  # of a custom robot the same code says that its token is unknown
_PUNISHED_S: Final = 300.0  # an address with 10,000 calls in 20 s is shut out for 5 minutes
_TOO_MANY: Final = "too many calls from this machine's address"
# As a page: the gateway in front of it (x5) leads to its /_____tmd_____/punish.
_PUNISHED: Final = re.compile(rb"punish|_____tmd_____|x5sec", re.IGNORECASE)
_BANS: Final = frozenset({200, 403, 429})
_LOOK: Final = 65_536  # bytes
_TITLE_MARKS: Final = re.compile(r"\A[#>*\-+`~\s|]+|\*\*|~~|`")
TITLE: Final = 48  # characters, of which escaping makes at most 4 bytes each


def read(response: Response) -> dict[str, Any]:
    """Return an answer without an error code of the OpenAPI or a webhook, or raise what it says."""
    found = _answer(response)
    code, number, wait = (
        found.get("code"),
        found.get("errcode"),
        answers.seconds(response, "retry-after"),
    )
    if found.get("punish"):
        raise Throttled(_TOO_MANY, retry_after=_PUNISHED_S, scope="app")
    if isinstance(code, str) and code:
        raise answers.refusal(CODES, code, found.get("message"), response, wait)
    if number == _NO_SESSION and "token" in str(found.get("errmsg")).lower():
        raise Rejected(answers.reason(number, found.get("errmsg"), "check DINGTALK_WEBHOOK_URL"))
    if type(number) is int and number != 0:
        raise answers.refusal(WEBHOOK_CODES, number, found.get("errmsg"), response, wait)
    if not answers.fine(response) or ("errcode" in found and type(number) is not int):
        raise answers.stranger(response)
    if found.get("flowControlledStaffIdList"):
        raise Throttled("flowControlledStaffIdList: too many messages to this user")
    for name in ("invalidStaffIdList", "filteredStaffIdList"):
        if found.get(name):
            raise Rejected(f"{name}: DingTalk does not deliver to this user")
    return found


def _answer(response: Response) -> dict[str, Any]:
    """Return the JSON object; raise what a stranger's answer means, or DingTalk's own page."""
    try:
        return answers.answer(response)
    except DeliveryError as exc:
        if response.status in _BANS and _PUNISHED.search(response.body[:_LOOK]):
            raise Throttled(_TOO_MANY, retry_after=_PUNISHED_S, scope="app") from exc
        raise


def measure(text: str) -> int:
    """Return the bytes of the msgParam that carries this text, as JSON in JSON."""
    return marks.size(text, marks.dingtalk, CARD.max_text, _size)


def _size(text: str) -> int:
    return bodies.nested(text) + _ENVELOPE


def titled(text: str) -> dict[str, str]:
    """Return DingTalk's Markdown content; a notification shows the title: the text's beginning."""
    title = line(_TITLE_MARKS.sub("", text[:1000]), TITLE) or "message"
    return {"title": title, "text": marks.dingtalk(text)}


def signed(url: str, secret: str, at: float) -> str:
    """Return a custom robot's URL, signed where it has a secret: `timestamp` (ms) and `sign`."""
    if not secret:
        return url
    stamp = int(at * 1000)
    digest = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
    sign = quote(base64.b64encode(digest), safe="")
    return f"{url}{'&' if '?' in url else '?'}timestamp={stamp}&sign={sign}"
