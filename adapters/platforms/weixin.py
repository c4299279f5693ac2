"""
The platform `weixin` (personal WeChat, 微信): a bot that was logged in by QR code, over iLink.

Rule 1: pure. Rule 2: `ret` and `errcode` decide, and -2 is told apart by its words. Rule 3: only an
empty object or one with fields of iLink's is an answer of iLink's.
Source: npm @tencent-weixin/openclaw-weixin 2.4.9 (src/api, src/messaging/send.ts); hermes-agent
gateway/platforms/weixin.py and its issues #80125, #35713, #62383, #113069, #115359; weilink's docs.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from wakebus.adapters import markdown
from wakebus.adapters.base import Capabilities, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import BadSetting, DeliveryError, Rejected, Throttled, WayClosed
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes

IDS: Final[Shapes] = {
    "user": re.compile(r"([\w.=+-]{1,120}@im\.wechat)", re.ASCII),
    "room": re.compile(r"([\w.-]{1,120}@chatroom)", re.ASCII),
    # What Hermes's _WEIXIN_TARGET_RE takes besides.
    "id": re.compile(r"((?:wxid|gh|wm|wb|v\d{1,9})_[\w-]{1,120})", re.ASCII),
    "filehelper": re.compile(r"(filehelper)"),
}
ID_HELP: Final = "write …@im.wechat (person), …@chatroom (group), wxid_…, gh_… or filehelper"

TOKEN: Final = "WEIXIN_TOKEN"
CONTEXTS: Final = "WEIXIN_CONTEXT_TOKENS"  # settings/weixin_accounts.py fills it from Hermes's file

VERSION: Final = "2.4.9"
_STALE_LOGIN: Final = -14
_REFUSED: Final = -2
_COOL_S: Final = 30.0  # Hermes's own pause after this answer
_OURS: Final = frozenset({"ret", "errcode", "errmsg", "message_id", "client_id"})
# A rate, and no other limit: "operate failed", "exceeds the length limit" and 频道 are none.
_TOO_FAST: Final = re.compile(
    r"(?<![a-z])rate(?![a-z])|rate[ _-]?limit|freq|too (?:fast|often)|频[率繁次控]"
    r"|too many (?:\w{1,20} )?(?:requests|messages|msgs|calls|times|attempts)"
)
_NO_CONTEXT: Final = frozenset({"", "unknown error", "prepare failed"})
_WRITE: Final = "the user has to write to the bot first"


class Weixin:
    """
    People who wrote to the bot; no threads, no keys.

    Its two ways are with the context token of the chat's last message, as long as that is good, and
    without one.
    """

    # One text item takes 16,384 bytes (weilink); more is ret -2. A context token is good for about
    # ten messages (hermes-agent #31131, #46529), so a long text must not be many. Whether iLink
    # tells two requests with one client_id apart is not known: nothing that may have been taken is
    # sent again.
    capabilities: ClassVar = Capabilities(
        max_text=16_384,
        unit="bytes",
        settings=(TOKEN, "WEIXIN_ACCOUNT_ID", "WEIXIN_BASE_URL"),
        needs=((TOKEN,),),
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        self._token = urls.credential(env, TOKEN)
        if not self._token:
            raise BadSetting(f"{TOKEN}: not set in $HERMES_HOME/.env; log in to Weixin first")
        base = urls.base_url(env, "WEIXIN_BASE_URL", "https://ilinkai.weixin.qq.com")
        self._url = f"{base}/ilink/bot/sendmessage"
        self._contexts = context_tokens(urls.setting(env, CONTEXTS))

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is user, room, id or filehelper."""
        kind = chat_ids.kind_of("weixin", chat_id, IDS, ID_HELP)
        chat_ids.refuse_thread("weixin", chat_id, thread)
        return Target("weixin", chat_id, kind=kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return `context`, where the chat has a context token, and `plain`."""
        return ("context",) * (target.chat_id in self._contexts) + ("plain",)

    def measure(self, text: str) -> int:
        """Return the bytes of the text as it is shown, or as it came if that is longer."""
        return markdown.size(text, markdown.plain, self.capabilities.max_text, requests.utf8_length)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this way; Weixin shows Markdown as it stands, so none goes out."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        context = self._contexts.get(target.chat_id, "") if way == "context" else ""
        key, text = requests.fit_key(outgoing.key, 64), outgoing.text
        if markdown.has_marks(outgoing.whole or text):  # else a `\` at a line's end is just that
            text = markdown.plain(text)
        body = message_body(target.chat_id, text, key, context)
        return requests.post_json(self._url, body, **ilink_headers(self._token, key))

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id where iLink gives one, or raise what the answer means."""
        return Sent(message_id_in(read_answer(response)))


def read_answer(response: Response) -> dict[str, Any]:
    """Return an answer that says the message was taken, or raise what it means."""
    found = responses.json_answer(response)
    codes = [found[name] for name in ("ret", "errcode") if found.get(name) is not None]
    code = next((one for one in codes if one != 0), 0)
    if any(type(one) is not int for one in codes) or (found and not _OURS & found.keys()):
        raise responses.unexpected(response)
    if code != 0:
        raise _refusal(code, found.get("errmsg") or found.get("msg"), response)
    if not responses.succeeded(response):
        raise responses.unexpected(response)
    return found


def _refusal(code: int, message: object, response: Response) -> DeliveryError:
    said = str(message or "").strip().lower()
    if code == _STALE_LOGIN:
        advice = f"the login is over: log in to Weixin again in Hermes, which renews {TOKEN}"
        return Rejected(responses.reason(code, message, advice))
    if code != _REFUSED:
        return responses.refusal({}, code, message, response)
    # One number for three things: Hermes took them all for the third, for days (#80125).
    if said in _NO_CONTEXT:
        return WayClosed(responses.reason(code, message, _WRITE))
    if _TOO_FAST.search(said):
        return Throttled(responses.reason(code, message), retry_after=_COOL_S)
    return Rejected(responses.reason(code, message))


def message_id_in(found: Mapping[str, Any]) -> str:
    """Return the id in an answer, "" where it has none (before 2.4.9 it never had)."""
    value = found.get("message_id")
    return str(value) if isinstance(value, str) or type(value) is int else ""


def context_tokens(text: str) -> dict[str, str]:
    """Return the context tokens by chat in the JSON of the setting; {} for what is none."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {chat: token for chat, token in pairs if isinstance(token, str) and token}


def ilink_headers(token: str, key: str) -> dict[str, str]:
    """Return iLink's headers; the "random" UIN follows from the key, so that a resend is equal."""
    major, minor, patch = map(int, VERSION.split("."))
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big")
    return {
        "AuthorizationType": "ilink_bot_token",
        "Authorization": f"Bearer {token}",
        "X-WECHAT-UIN": base64.b64encode(str(number).encode()).decode(),
        "iLink-App-Id": "bot",
        "iLink-App-ClientVersion": str(major << 16 | minor << 8 | patch),
    }


def message_body(chat: str, text: str, key: str, context: str) -> dict[str, Any]:
    """Return the body of sendmessage: a finished text of the bot's, with its context or without."""
    message: dict[str, Any] = {
        "from_user_id": "",
        "to_user_id": chat,
        "client_id": key,
        "message_type": 2,
        "message_state": 2,
        "item_list": [{"type": 1, "text_item": {"text": text}}],
    }
    if context:
        message["context_token"] = context
    return {"msg": message, "base_info": {"channel_version": VERSION}}
