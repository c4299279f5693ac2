"""
The platform `dingtalk`: a robot by OpenAPI, by a message's session webhook, or a custom robot.

Rule 1: pure. Rule 2: the code decides before the status: errors stand in 200, throttles in 403.
Rule 3: there is no key: nothing is sent twice in doubt.
Source: open.dingtalk.com, the-robot-sends-a-group-message, one-on-one-chat-messages-in-batches,
robot-message-type, error codes appendix B, custom-robot-access.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote

from wakebus.adapters import markdown
from wakebus.adapters.base import (
    Capabilities,
    Limit,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
    Token,
)
from wakebus.adapters.errors import DeliveryError, Rejected, Throttled
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import THROTTLED, TOKEN, Meaning
from wakebus.adapters.kit.error_words import clock_advice
from wakebus.adapters.sanitize import line

# A conversation's id is base64 behind `cid`. All else is a person's staff id, which the
# organisation may choose; `$:LWCP_v1:$…` (a sender's id in messages) is none.
IDS: Final[Shapes] = {
    "webhook": re.compile(r"(webhook)"),
    "group": re.compile(r"(?:group:)?(cid[A-Za-z0-9+/=_-]{1,125})"),
    "user": re.compile(r"(?:user:|(?!group:|cid))(\w[\w.@+-]{0,63})"),
}
ID_HELP: Final = (
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
_APP: Final = ("DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET")

_ENVELOPE: Final = 400  # bytes around the text at most: title, keys, quotes

_NO_GROUP: Final = (
    "the robot is not in this group, or the id is a 1:1 chat's; a person is user:STAFF_ID"
)
_SECRET: Final = "check DINGTALK_WEBHOOK_SECRET"
_KEYWORD: Final = "the robot takes only texts with its keyword"
_ADDRESS: Final = "put this machine's address on the robot's list"
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
    "sign.not.match": Meaning(advice=_SECRET),
    "keywords.not.match": Meaning(advice=_KEYWORD),
    "ip.not.match": Meaning(advice=_ADDRESS),
}
# The webhooks' `errcode`. A robot that is too fast is mute for 10 minutes.
WEBHOOK_CODES: Final[Mapping[int, Meaning]] = {
    -1: Meaning("uncertain"),
    **dict.fromkeys((40014, 42001), TOKEN),
    **dict.fromkeys((130101, 410100), Meaning("throttled", wait_s=600.0)),
    **dict.fromkeys((90002, 90018), Meaning("throttled", scope="app")),
    90020: Meaning(advice="the month's quota is used up"),
    300001: Meaning("closed"),
    310000: Meaning(advice="check the robot's keyword, DINGTALK_WEBHOOK_SECRET and address list"),
}
# One code for all that a robot checks; which one, only its words say. A signature that does not
# match is explained with a word about timestamps: it comes before the clock.
_NOT_TAKEN: Final = 310000
_CHECKS: Final[Mapping[str, re.Pattern[str]]] = {
    _SECRET: re.compile(r"签名不匹配|sign\w* not match", re.IGNORECASE),
    _KEYWORD: re.compile(r"关键词|keyword", re.IGNORECASE),
    _ADDRESS: re.compile(r"白名单|\bip\b|whitelist", re.IGNORECASE),
}
_NO_SESSION: Final = 300001  # of a custom robot the same code says that its token is unknown
_PUNISHED_S: Final = 300.0  # an address with 10,000 calls in 20 s is shut out for 5 minutes
_TOO_MANY: Final = "too many calls from this machine's address"
# As a page: the gateway in front of it (x5) leads to its /_____tmd_____/punish.
_PUNISHED: Final = re.compile(rb"punish|_____tmd_____|x5sec", re.IGNORECASE)
_BANS: Final = frozenset({200, 403, 429})
_LOOK: Final = 65_536  # bytes
_TITLE_MARKS: Final = re.compile(r"\A[#>*\-+`~\s|]+|\*\*|~~|`")
LONGEST_TITLE: Final = 48  # characters, of which escaping makes at most 4 bytes each

_SESSION: Final = "/robot/sendBySession"


class DingTalk:
    """Groups, people, and the chat of a session webhook; no threads and no keys."""

    capabilities: ClassVar = Capabilities(
        max_text=15_000,  # of msgParam, serialized
        unit="bytes",
        limits=LIMITS,
        settings=(
            *_APP,
            "DINGTALK_ROBOT_CODE",
            "DINGTALK_WEBHOOK_URL",
            "DINGTALK_WEBHOOK_SECRET",
            "DINGTALK_API_BASE",
            "DINGTALK_WEBHOOK_BASE",
        ),
        needs=(_APP, ("DINGTALK_WEBHOOK_URL",)),
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        self._app = urls.pair(env, *_APP)
        self._robot = urls.setting(env, "DINGTALK_ROBOT_CODE") or (self._app or ("",))[0]
        self._api = urls.base_url(env, "DINGTALK_API_BASE", "https://api.dingtalk.com")
        self._sessions = urls.base_url(env, "DINGTALK_WEBHOOK_BASE", "https://oapi.dingtalk.com")
        self._webhook = urls.webhook_url(env, "DINGTALK_WEBHOOK_URL")
        self._secret = urls.setting(env, "DINGTALK_WEBHOOK_SECRET")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is group, user or webhook."""
        kind = chat_ids.kind_of("dingtalk", chat_id, IDS, ID_HELP)
        chat_ids.refuse_thread("dingtalk", chat_id, thread)
        return Target("dingtalk", chat_id, kind=kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the ways to this chat: `session` before `openapi`, or `webhook`."""
        if target.kind == "webhook":
            urls.require(self._webhook, "DINGTALK_WEBHOOK_URL")
            return ("webhook",)
        session = self.session_fault(outgoing.webhook) if outgoing.webhook else "none came"
        urls.require(self._app or not session, f"{' and '.join(_APP)} (session webhook: {session})")
        return ("session",) * (not session) + ("openapi",) * (self._app is not None)

    def session_fault(self, url: str) -> str:
        """Return why a message's session webhook is not used, "" where it is."""
        fits = urls.is_on_base(url, self._sessions, _SESSION)
        return "" if fits else f"not {_SESSION} on the host of DINGTALK_WEBHOOK_BASE"

    def measure(self, text: str) -> int:
        """Return the bytes of the msgParam that carries this text, as JSON in JSON."""
        return markdown.size(text, markdown.dingtalk, self.capabilities.max_text, _size)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this way; without an `at` block it mentions nobody."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        content = markdown_content(outgoing.text)
        if way == "openapi":
            return self._openapi(target, requests.compact_json(content), outgoing.token)
        url = outgoing.webhook or ""
        if way == "webhook":
            url = signed_url(self._webhook, self._secret, outgoing.at)
        elif fault := self.session_fault(url):
            raise Rejected(f"session webhook: {fault}")
        return requests.post_json(url, {"msgtype": "markdown", "markdown": content})

    def parse_response(self, response: Response) -> Sent:
        """Return the task's id ("" of a webhook), or raise what the answer means."""
        found = read_answer(response)
        if found.get("errcode") == 0 and found.get("errmsg") == "ok":  # OpenAPI has neither
            return Sent()
        if isinstance(key := found.get("processQueryKey"), str) and key:
            return Sent(key)
        raise responses.unexpected(response)

    def token_request(self, way: str) -> Request | None:
        """Return the request for an access token; webhooks carry their own."""
        if way in ("session", "webhook") or self._app is None:
            return None
        body = dict(zip(("appKey", "appSecret"), self._app, strict=True))
        return requests.post_json(f"{self._api}/v1.0/oauth2/accessToken", body)

    def parse_token(self, response: Response) -> Token:
        """Return the token for the seconds that its answer says."""
        with responses.fetching_token():
            found = read_answer(response)
            return responses.access_token(found.get("accessToken"), found.get("expireIn"))

    def _openapi(self, target: Target, content: str, token: str) -> Request:
        to = chat_ids.without_prefix(target.chat_id, IDS[target.kind])
        name, chat = "groupMessages/send", dict[str, Any](openConversationId=to)
        if target.kind == "user":
            name, chat = "oToMessages/batchSend", {"userIds": [to]}
        body = {"robotCode": self._robot, "msgKey": "sampleMarkdown", "msgParam": content}
        url = f"{self._api}/v1.0/robot/{name}"
        return requests.post_json(url, chat | body, x_acs_dingtalk_access_token=token)


def read_answer(response: Response) -> dict[str, Any]:
    """Return an answer without an error code of the OpenAPI or a webhook, or raise what it says."""
    found = _json_or_ban(response)
    code, number = found.get("code"), found.get("errcode")
    wait = responses.retry_after(response, "retry-after")
    if found.get("punish"):
        raise Throttled(_TOO_MANY, retry_after=_PUNISHED_S, scope="app")
    if isinstance(code, str) and code:
        raise responses.refusal(CODES, code, found.get("message"), response, wait)
    if number == _NO_SESSION and "token" in str(found.get("errmsg")).lower():
        raise Rejected(responses.reason(number, found.get("errmsg"), "check DINGTALK_WEBHOOK_URL"))
    if number == _NOT_TAKEN and (advice := _advice(found.get("errmsg"), response)):
        raise Rejected(responses.reason(number, found.get("errmsg"), advice))
    if type(number) is int and number != 0:
        raise responses.refusal(WEBHOOK_CODES, number, found.get("errmsg"), response, wait)
    if not responses.succeeded(response) or ("errcode" in found and type(number) is not int):
        raise responses.unexpected(response)
    if found.get("flowControlledStaffIdList"):
        raise Throttled("flowControlledStaffIdList: too many messages to this user")
    for name in ("invalidStaffIdList", "filteredStaffIdList"):
        if found.get(name):
            raise Rejected(f"{name}: DingTalk does not deliver to this user")
    return found


def _advice(message: object, response: Response) -> str:
    """Return what to do about what a custom robot did not take, "" where its words do not say."""
    said = str(message)
    mismatch = _CHECKS[_SECRET].search(said)
    if not mismatch and (clock := clock_advice(response, said)):
        return clock
    return next((advice for advice, words in _CHECKS.items() if words.search(said)), "")


def _json_or_ban(response: Response) -> dict[str, Any]:
    """Return the JSON object; raise what a stranger's answer means, or DingTalk's own page."""
    try:
        return responses.json_answer(response)
    except DeliveryError as exc:
        if response.status in _BANS and _PUNISHED.search(response.body[:_LOOK]):
            raise Throttled(_TOO_MANY, retry_after=_PUNISHED_S, scope="app") from exc
        raise


def _size(text: str) -> int:
    return requests.nested_json_size(text) + _ENVELOPE


def markdown_content(text: str) -> dict[str, str]:
    """Return DingTalk's Markdown content; a notification shows the title: the text's beginning."""
    title = line(_TITLE_MARKS.sub("", text[:1000]), LONGEST_TITLE) or "message"
    return {"title": title, "text": markdown.dingtalk(text)}


def signed_url(url: str, secret: str, at: float) -> str:
    """Return a custom robot's URL, signed where it has a secret: `timestamp` (ms) and `sign`."""
    if not secret:
        return url
    stamp = int(at * 1000)
    digest = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
    sign = quote(base64.b64encode(digest), safe="")
    return f"{url}{'&' if '?' in url else '?'}timestamp={stamp}&sign={sign}"
