"""
What WeCom says and wants to hear: ids, codes, answers.

Rule 1: pure. Rule 2: the code decides: every answer of WeCom's is a 200. Rule 3: a 0 is a success
only where no list names somebody whom it did not reach.
Source: developer.work.weixin.qq.com/document/path/ 90236 (app), 90248 (its groups), 91770 (group
robot), 91039 (token), 90227 (app's name), 90313 (codes), 90312 (frequency).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, Limit, Response
from wakebus.adapters.errors import DeliveryError, Rejected, Unavailable, Uncertain
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import TOKEN, Meaning
from wakebus.adapters.sanitize import line

IDS: Final[Shapes] = {
    "webhook": re.compile(r"(webhook)"),
    "all": re.compile(r"(@all)"),
    "chat": re.compile(r"chat:([0-9A-Za-z]{1,32})"),
    "user": re.compile(r"(?:user:)?([0-9A-Za-z][\w.@-]{0,63})", re.ASCII),
}
RIGHT: Final = "write user:USERID or USERID (person), chat:CHATID (app's group), @all or webhook"

TEXT: Final = 2048  # bytes; of an app's longer text the end is cut off, and the answer says ok

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

# A robot takes Markdown of 4096 bytes; 2048 for all, so that every text is cut the same way.
# The duplicate check is no key: it swallows the second of two equal texts that were both meant.
CARD: Final = Capabilities(
    TEXT,
    "bytes",
    limits=LIMITS,
    settings=(*CORP, AGENT, WEBHOOK, "WECOM_API_BASE"),
    needs=((*CORP, AGENT), (WEBHOOK,)),
)

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


def read(response: Response, table: Mapping[int, Meaning] = CODES) -> dict[str, Any]:
    """Return an answer with errcode 0 that reached everybody, or raise what it means."""
    found = answers.answer(response)
    code, message = found.get("errcode"), found.get("errmsg")
    if type(code) is not int or (code == 0 and not answers.fine(response)):
        raise answers.stranger(response)
    if code == _BUSY:
        # "The server is not available for the moment, try again": the only one to be repeated.
        raise Unavailable(answers.reason(code, message))
    if code != 0:
        wait = answers.seconds(response, "retry-after")
        raise answers.refusal(table, code, message, response, wait)
    for name in _MISSED:
        if missed := found.get(name):
            raise _missed(name, str(missed))
    return found


def _missed(name: str, missed: str) -> DeliveryError:
    """Return what it means that an app's message did not reach these (`a|b`)."""
    if "|" in missed:  # only of @all, and the others have it
        return Uncertain(f"{name}: WeCom took it, but not for {line(missed, 100)}")
    return Rejected(f"{name}: WeCom does not deliver to {line(missed, 80)}; {_SCOPE}")


def app_name(response: Response) -> str:
    """Return the name in the answer to agent/get, or raise what it means."""
    found = read(response)
    if found.get("close"):
        raise Rejected(f"the app is switched off in WeCom; {_CREDENTIALS}")
    return line(str(found.get("name", "")), 80) or "no name"


def content(text: str, whole: str) -> dict[str, Any]:
    """Return `{"msgtype", <type>: {"content"}}`: Markdown only where the whole message has some."""
    kind, shown = "text", without_mentions(text)  # personal WeChat shows texts, but no Markdown
    if marks.has_marks(whole or text):
        kind, shown = "markdown", marks.wecom(shown)
    if bodies.utf8(shown) > TEXT:
        raise Rejected(f"over {TEXT} bytes, and WeCom would cut it off without a word")
    return {"msgtype": kind, kind: {"content": shown}}


def measure(text: str) -> int:
    """Return the bytes of what `content` makes of this text, whichever kind is longer."""
    return marks.size(without_mentions(text), marks.wecom, TEXT, bodies.utf8)


def without_mentions(text: str) -> str:
    """Return `text` in which `<@userid>` and `<a href=…>` are words: WeCom reads both in a text."""
    return _TAG.sub("＜", text)
