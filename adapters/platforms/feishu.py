"""
The platform `feishu` (Feishu and Lark): an app that posts to chats and people, or a custom bot.

Rule 1: pure. Rule 2: the code decides before the status: errors stand in 200, throttles in 400.
Source: open.feishu.cn, im-v1/message/create and reply, im-v1/file/create, frequency-control,
add-custom-bot; larksuite/cli.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from wakebus.adapters import markdown
from wakebus.adapters.base import (
    Capabilities,
    File,
    Limit,
    Outgoing,
    Request,
    Response,
    Sent,
    Target,
    Token,
)
from wakebus.adapters.errors import BadSetting, BadTarget, Rejected
from wakebus.adapters.kit import chat_ids, requests, responses, urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import THROTTLED, TOKEN, Meaning
from wakebus.adapters.kit.error_words import CLOCK

# Feishu's receive_id_type. Hermes writes feishu_user_id:
IDS: Final[Shapes] = {
    "chat_id": re.compile(r"(oc_[\w-]{1,80})", re.ASCII),
    "open_id": re.compile(r"(ou_[\w-]{1,80})", re.ASCII),
    "union_id": re.compile(r"(on_[\w-]{1,80})", re.ASCII),
    "email": re.compile(r"([\w.%+-]{1,64}@[\w.-]{1,190})", re.ASCII),
    "user_id": re.compile(r"(?:feishu_)?user_id:([\w.@-]{1,64})", re.ASCII),
    "webhook": re.compile(r"(webhook)"),
}

_WEBHOOK: Final = frozenset({"webhook"})
_APP_KINDS: Final = frozenset(IDS) - _WEBHOOK
# message/create: 5 a second to a chat or person, which its other bots share; 50 a second and 1000 a
# minute of the app. add-custom-bot: 5 a second, 100 a minute.
LIMITS: Final = (
    Limit(5, 1.0),
    Limit(100, 60.0, kinds=_WEBHOOK),
    Limit(50, 1.0, "app", _APP_KINDS),
    Limit(1000, 60.0, "app", _APP_KINDS),
)
_APP: Final = ("FEISHU_APP_ID", "FEISHU_APP_SECRET")
ID_HELP: Final = "write oc_… (chat), ou_… or on_… (person), an email, user_id:… or webhook"
KEY: Final = re.compile(r"[\w-]{1,200}", re.ASCII)
MESSAGE: Final = re.compile(r"om_[\w-]{1,80}", re.ASCII)
_ENVELOPE: Final = 600  # bytes around the text at most: receive_id, uuid, keys, signature

_CREDENTIALS: Final = "check FEISHU_APP_ID and FEISHU_APP_SECRET"
_SCOPE: Final = "grant the app this scope and release a version"
CODES: Final[Mapping[int, Meaning]] = {
    # cc-connect #401, multica #7611: retried with the stale token for ever.
    **dict.fromkeys((99991661, 99991663, 99991668, 99991671, 99991677), TOKEN),
    # openclaw #89659: fatal there, half of 20 parallel sends lost. 11232: the tenant's limit.
    **dict.fromkeys((99991400, 11232), Meaning("throttled", scope="app")),
    230020: THROTTLED,
    # 9499 is a bad request and "too many request" alike: told apart by its words (error_words).
    # "message is being sent": the same uuid is on its way.
    230049: Meaning("uncertain"),
    230001: Meaning(advice="is the chat id right, and of this app?"),
    230002: Meaning(advice="add the bot to the group"),
    230006: Meaning(advice="turn on the app's bot ability"),
    230011: Meaning(advice="the message that starts the thread is gone"),
    231003: Meaning(advice="the message that starts the thread is gone"),
    230013: Meaning(advice="put the user into the app's availability"),
    **dict.fromkeys((230022, 230028), Meaning(advice="the tenant's content audit refused it")),
    234006: Meaning(advice="a file has at most 30 MB"),
    234007: Meaning(advice="turn on the app's bot ability"),
    **dict.fromkeys((10014, 99991543), Meaning(advice=_CREDENTIALS)),
    **dict.fromkeys((99991672, 99991676, 99991679), Meaning(advice=_SCOPE)),
    **dict.fromkeys((99991662, 99991673), Meaning(advice="turn the app on in the console")),
    19001: Meaning(advice="check FEISHU_WEBHOOK_URL"),
    19021: Meaning(advice=f"check FEISHU_WEBHOOK_SECRET, or {CLOCK}"),
    19022: Meaning(advice="put this machine's address on the bot's list"),
    19024: Meaning(advice="the bot takes only texts with its keyword"),
}

# No repeat may run over what begins it: a text may be 1 MiB of brackets or newlines.
_MENTION: Final = re.compile(r"<(?=[\s/]{0,16}(?:at|person)(?![a-z0-9]))", re.IGNORECASE)

_HOSTS: Final = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}


class Feishu:
    """An app's uuid makes one message within an hour; a custom bot has no such thing."""

    # A custom bot takes 20 KB, a post 30, a text 150: the smallest, so that no way cuts otherwise.
    capabilities: ClassVar = Capabilities(
        max_text=20_000,
        unit="bytes",
        threads=True,
        idempotent_s=3600,
        limits=LIMITS,
        max_file=30 << 20,  # im-v1/file/create
        settings=(
            *_APP,
            "FEISHU_DOMAIN",
            "FEISHU_API_BASE",
            "FEISHU_WEBHOOK_URL",
            "FEISHU_WEBHOOK_SECRET",
        ),
        needs=(_APP, ("FEISHU_WEBHOOK_URL",)),
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        if (domain := urls.setting(env, "FEISHU_DOMAIN").lower() or "feishu") not in _HOSTS:
            raise BadSetting("FEISHU_DOMAIN: write feishu or lark")
        self._app = urls.pair(env, *_APP)
        self._api = urls.base_url(env, "FEISHU_API_BASE", _HOSTS[domain]) + "/open-apis"
        self._webhook = urls.webhook_url(env, "FEISHU_WEBHOOK_URL")
        self._secret = urls.setting(env, "FEISHU_WEBHOOK_SECRET")

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat; its kind is Feishu's receive_id_type, or webhook."""
        kind = chat_ids.kind_of("feishu", chat_id, IDS, ID_HELP)
        if thread is not None and (kind == "webhook" or not MESSAGE.fullmatch(thread)):
            raise BadTarget(
                f"feishu chat {chat_id!r}: thread {thread[:80]!r} is no message's id (om_…)"
            )
        return Target("feishu", chat_id, thread, kind)

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        """Return the one way of this whole message: `post` renders Markdown, `text` does not."""
        if target.kind == "webhook":
            urls.require(self._webhook, "FEISHU_WEBHOOK_URL")
            return ("webhook",)
        urls.require(self._app, " and ".join(_APP))
        marked = markdown.has_marks(outgoing.whole or outgoing.text)
        return ("post",) if marked else ("text",)

    def key_time(self, target: Target, way: str) -> float:
        """Return 3600, and 0 for a custom bot, whose requests carry no key."""
        return 0.0 if target.kind == "webhook" else self.capabilities.idempotent_s

    def measure(self, text: str) -> int:
        """Return the bytes of the largest request that carries this text, as it is or as a post."""
        return markdown.size(text, _longest, self.capabilities.max_text, _size)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request of this way; a thread is a reply to the message that opened it."""
        way = outgoing.way or self.ways(target, outgoing)[0]
        if way == "webhook":
            return requests.post_json(self._webhook, custom_bot_body(outgoing, self._secret))
        body = message_fields(way, outgoing)
        to = f"?receive_id_type={target.kind}"
        more: dict[str, Any] = {
            "receive_id": chat_ids.without_prefix(target.chat_id, IDS[target.kind])
        }
        if opener := target.thread or answered_message(outgoing):
            to, more = f"/{opener}/reply", {"reply_in_thread": True} if target.thread else {}
        url = f"{self._api}/im/v1/messages{to}"
        return requests.post_json(url, body | more, Authorization=f"Bearer {outgoing.token}")

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        """Return the request that brings the file to Feishu; a custom bot takes none."""
        file, token = outgoing.file, f"Bearer {outgoing.token}"
        if target.kind == "webhook" or file is None or file.ref:
            return None
        fields = {"file_type": "stream", "file_name": file.name}
        return requests.post_form(
            f"{self._api}/im/v1/files", fields, {"file": file}, Authorization=token
        )

    def parse_upload(self, file: File, response: Response) -> File:
        """Return the file with its key."""
        data = read_answer(response).get("data")
        key = data.get("file_key") if isinstance(data, dict) else None
        if not isinstance(key, str) or not KEY.fullmatch(key):
            raise responses.unexpected(response)
        return replace(file, ref=key)

    def parse_response(self, response: Response) -> Sent:
        """Return the message's id ("" of a custom bot), or raise what the code means."""
        data = read_answer(response).get("data")
        found = data.get("message_id") if isinstance(data, dict) else None
        return Sent(found if isinstance(found, str) else "")

    def token_request(self, way: str) -> Request | None:
        """Return the request for a tenant_access_token; a custom bot needs none."""
        if way == "webhook" or self._app is None:
            return None
        body = dict(zip(("app_id", "app_secret"), self._app, strict=True))
        return requests.post_json(f"{self._api}/auth/v3/tenant_access_token/internal", body)

    def parse_token(self, response: Response) -> Token:
        """Return the token for the seconds that its answer says."""
        with responses.fetching_token():
            found = read_answer(response)
            return responses.access_token(found.get("tenant_access_token"), found.get("expire"))


def read_answer(response: Response) -> dict[str, Any]:
    """Return an answer with code 0 (an old custom bot's StatusCode), or raise what it means."""
    found = responses.json_answer(response)
    code = found.get("code", found.get("StatusCode"))
    message = found.get("msg") or found.get("StatusMessage")
    if type(code) is not int or (code == 0 and not responses.succeeded(response)):
        raise responses.unexpected(response)
    if code == 0:
        return found
    wait = responses.retry_after(response, "x-ogw-ratelimit-reset", "retry-after")
    raise responses.refusal(CODES, code, message, response, wait)


def message_fields(way: str, outgoing: Outgoing) -> dict[str, str]:
    """Return what a text (`text`, or `post` for Markdown) or a file is in a request."""
    text = markdown.safe(outgoing.text)  # also of a text's links Feishu makes use
    kind, content = way, dict[str, Any](text=without_mentions(text))
    if way == "post":
        shown = without_mentions(markdown.feishu(text))
        content = {"zh_cn": {"content": [[{"tag": "md", "text": shown}]]}}
    if outgoing.file is not None:
        kind, content = "file", {"file_key": outgoing.file.ref}
    uuid = requests.fit_key(outgoing.key, 50)
    return {"msg_type": kind, "content": requests.compact_json(content), "uuid": uuid}


def _longest(text: str) -> str:
    text = markdown.safe(text)
    return max(text, markdown.feishu(text), key=_size)


def _size(text: str) -> int:
    return requests.nested_json_size(without_mentions(text)) + _ENVELOPE


def answered_message(outgoing: Outgoing) -> str:
    """Return the message that is answered, "" for none of Feishu's."""
    reply = outgoing.reply_to or ""
    return reply if MESSAGE.fullmatch(reply) else ""


def custom_bot_body(outgoing: Outgoing, secret: str) -> dict[str, Any]:
    """Return what a custom bot takes: a text, signed where it has a secret."""
    if outgoing.file is not None:
        raise Rejected("a custom bot of feishu takes no files; send it to a chat of the app")
    text = without_mentions(markdown.safe(outgoing.text))
    signed = signature(secret, outgoing.at) if secret else {}
    return signed | {"msg_type": "text", "content": {"text": text}}


def without_mentions(text: str) -> str:
    """Return `text` with Feishu's `<at …>` and `<person …>` as plain, readable text."""
    return _MENTION.sub("＜", text)


def signature(secret: str, at: float) -> dict[str, str]:
    """Return `timestamp` (seconds) and `sign` of a custom bot's body."""
    digest = hmac.new(f"{int(at)}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": str(int(at)), "sign": base64.b64encode(digest).decode()}
