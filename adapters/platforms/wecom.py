"""
The platform `wecom` (WeCom, 企业微信): an app to people and its groups, or a group's robot.

Rule 1: pure. Rule 2: the code decides: every answer of WeCom's is a 200. Rule 3: a 0 is a success
only where no list names somebody whom it did not reach.
Source: developer.work.weixin.qq.com/document/path/ 90236 (app), 90248 (its groups), 91770 (group
robot), 91039 (token), 90227 (app's name), 90313 (codes), 90312 (frequency).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

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
from wakebus.adapters.errors import BadSetting, DeliveryError, Rejected, Unavailable, Uncertain
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import TOKEN, Meaning
from wakebus.adapters.sanitize import line

IDS: Final[Shapes] = {
    "webhook": re.compile(r"(webhook)"),
    "all": re.compile(r"(@all)"),
    "chat": re.compile(r"chat:([0-9A-Za-z]{1,32})"),
    "user": re.compile(r"(?:user:)?([0-9A-Za-z][\w.@-]{0,63})", re.ASCII),
}
ID_HELP: Final = "write user:USERID or USERID (person), chat:CHATID (app's group), @all or webhook"
# Bytes; of an app's longer text the end is cut off, and the answer says ok. A robot takes Markdown
# of 4096 bytes; 2048 for all, so that every text is cut the same way.
MAX_CONTENT: Final = 2048
# To a person over it "is dropped and not delivered", in a group of the app "and the API reports no
# error": only we can keep it. The group's counts a member's messages over all groups of the app.
LIMITS: Final = (
    Limit(30, 60, "chat", frozenset({"user", "all"})),
    Limit(1000, 3600, "chat", frozenset({"user", "all"})),
    Limit(200, 60, "app", frozenset({"chat"})),
    Limit(20, 60, "app", frozenset({"webhook"})),
)

CORP: Final = ("WECOM_CALLBACK_CORP_ID", "WECOM_CALLBACK_CORP_SECRET")
AGENT: Final = "WECOM_CALLBACK_AGENT_ID"
WEBHOOK: Final = "WECOM_WEBHOOK_URL"

_CREDENTIALS: Final = f"check {CORP[0]} and {CORP[1]}"
_SCOPE: Final = "put the user into the app's visible range"
_LONG: Final = Meaning(advice="WeCom counts this text as too long")
CODES: Final[Mapping[int, Meaning]] = {
    # hermes-agent #31338 knew 40001 and 42001 only, n8n-nodes-wechat-work #8: 40014.
    **dict.fromkeys((40001, 40014, 41001, 42001), TOKEN),
    # Per-minute limits block for the minute, and more so who goes on asking.
    45009: Meaning("throttled", wait_s=60.0, scope="app"),
    45033: Meaning("throttled", wait_s=1.0, scope="app"),  # too many at the same time
    **dict.fromkeys((40058, 45002), _LONG),
    **dict.fromkeys((40003, 40031, 60111), Meaning(advice="is the user's id right?")),
    81013: Meaning(advice=_SCOPE),
    40013: Meaning(advice=_CREDENTIALS),
    **dict.fromkeys((40056, 301002), Meaning(advice=f"check {AGENT}")),
    **dict.fromkeys(
        (40050, 86001, 86003, 86008),
        Meaning(advice="chat:CHATID is a group that this very app created"),
    ),
    **dict.fromkeys((48002, 60011), Meaning(advice="the app has no right to this")),
    60020: Meaning(advice="put this machine's address on the app's list of trusted ones"),
    93000: Meaning(advice=f"check {WEBHOOK}"),
}
# In the answer to gettoken 40001 is the secret itself, and nothing gets better by asking again.
TOKEN_CODES: Final[Mapping[int, Meaning]] = {
    **{code: meaning for code, meaning in CODES.items() if meaning.kind == "throttled"},
    60020: CODES[60020],
    **dict.fromkeys((40001, 40013, 40091, 41002, 41004), Meaning(advice=_CREDENTIALS)),
}
_BUSY: Final = -1
_MISSED: Final = ("invaliduser", "unlicenseduser", "invalidparty", "invalidtag")
_TAG: Final = re.compile(r"<(?=@|/?a[\s/>])", re.IGNORECASE)


class WeCom:
    """People, groups that the app created, everybody, or a robot's group; no threads, no keys."""

    # The duplicate check is no key: it swallows the second of two equal texts that were both meant.
    capabilities: ClassVar = Capabilities(
        max_text=MAX_CONTENT,
        unit="bytes",
        limits=LIMITS,
        settings=(*CORP, AGENT, WEBHOOK, "WECOM_API_BASE"),
        needs=((*CORP, AGENT), (WEBHOOK,)),
    )
    check_way: ClassVar = "app"

    def __init__(self, env: Mapping[str, str]) -> None:
        self._app = urls.pair(env, *CORP)
        self._agent = urls.setting(env, AGENT)
        if self._agent and not (self._agent.isascii() and self._agent.isdigit()):
            raise BadSetting(f"{AGENT}: an app's AgentId is a number")
        self._api = urls.base_url(env, "WECOM_API_BASE", "https://qyapi.weixin.qq.com") + "/cgi-bin"
        self._webhook = urls.webhook_url(env, WEBHOOK)

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is user, chat, all or webhook."""
        kind = chat_ids.kind_of("wecom", chat_id, IDS, ID_HELP)
        chat_ids.refuse_thread("wecom", chat_id, thread)
        return Target("wecom", chat_id, kind=kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way to this chat, `app` or `webhook`."""
        if target.kind == "webhook":
            urls.require(self._webhook, WEBHOOK)
            return ("webhook",)
        missing = () if self._app else CORP
        if target.kind != "chat" and not self._agent:
            missing = (*missing, AGENT)
        urls.require(not missing, ", ".join(missing))
        return ("app",)

    def measure(self, text: str) -> int:
        """Return the bytes of the content that carries this text, whichever kind is longer."""
        shown = without_mentions(text)
        return markdown.size(shown, markdown.wecom, MAX_CONTENT, requests.utf8_length)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this chat's way."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        body = message_content(outgoing.text, outgoing.whole)
        if way == "webhook":
            return requests.post_json(self._webhook, body)
        to, path = chat_ids.without_prefix(target.chat_id, IDS[target.kind]), "message/send"
        more: dict[str, Any] = {"touser": to, "agentid": int(self._agent or 0)}
        if target.kind == "chat":
            path, more = "appchat/send", {"chatid": to}
        return requests.post_json(self._url(path, access_token=outgoing.token), more | body)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id ("" in a group), or raise what the code means."""
        found = read_answer(response).get("msgid")
        return Sent(found if isinstance(found, str) else "")

    def token_request(self, way: str) -> Request | None:
        """Return the request for the app's access token; a robot's URL carries its own."""
        if way == "webhook" or self._app is None:
            return None
        query = dict(zip(("corpid", "corpsecret"), self._app, strict=True))
        return Request(self._url("gettoken", **query), method="GET")

    def parse_token(self, response: Response) -> Token:
        """Return the token for the seconds that its answer says."""
        with responses.fetching_token():
            found = read_answer(response, TOKEN_CODES)
            return responses.access_token(found.get("access_token"), found.get("expires_in"))

    def check_request(self, token: str) -> Request | None:
        """Return the request for the app's name, which also shows a wrong AgentId or address."""
        query = {"access_token": token, "agentid": self._agent}
        return Request(self._url("agent/get", **query), method="GET") if self._agent else None

    def parse_check(self, response: Response) -> str:
        """Return the app's name."""
        return f"app {read_app_name(response)}"

    def _url(self, path: str, **query: str) -> str:
        return f"{self._api}/{path}?{urlencode(query)}"


def read_answer(response: Response, table: Mapping[int, Meaning] = CODES) -> dict[str, Any]:
    """Return an answer with errcode 0 that reached everybody, or raise what it means."""
    found = responses.json_answer(response)
    code, message = found.get("errcode"), found.get("errmsg")
    if type(code) is not int or (code == 0 and not responses.succeeded(response)):
        raise responses.unexpected(response)
    if code == _BUSY:
        # "The server is not available for the moment, try again": the only one to be repeated.
        raise Unavailable(responses.reason(code, message))
    if code != 0:
        wait = responses.retry_after(response, "retry-after")
        raise responses.refusal(table, code, message, response, wait)
    for name in _MISSED:
        if missed := found.get(name):
            raise _not_delivered(name, str(missed))
    return found


def _not_delivered(name: str, missed: str) -> DeliveryError:
    """Return what it means that an app's message did not reach these (`a|b`)."""
    if "|" in missed:  # only of @all, and the others have it
        return Uncertain(f"{name}: WeCom took it, but not for {line(missed, 100)}")
    return Rejected(f"{name}: WeCom does not deliver to {line(missed, 80)}; {_SCOPE}")


def read_app_name(response: Response) -> str:
    """Return the name in the answer to agent/get, or raise what it means."""
    found = read_answer(response)
    if found.get("close"):
        raise Rejected(f"the app is switched off in WeCom; {_CREDENTIALS}")
    return line(str(found.get("name", "")), 80) or "no name"


def message_content(text: str, whole: str) -> dict[str, Any]:
    """Return `{"msgtype", <type>: {"content"}}`: Markdown only where the whole message has some."""
    kind, shown = "text", without_mentions(text)  # personal WeChat shows texts, but no Markdown
    if markdown.has_marks(whole or text):
        kind, shown = "markdown", markdown.wecom(shown)
    if requests.utf8_length(shown) > MAX_CONTENT:
        raise Rejected(f"over {MAX_CONTENT} bytes, and WeCom would cut it off without a word")
    return {"msgtype": kind, kind: {"content": shown}}


def without_mentions(text: str) -> str:
    """Return `text` in which `<@userid>` and `<a href=…>` are words: WeCom reads both in a text."""
    return _TAG.sub("＜", text)
