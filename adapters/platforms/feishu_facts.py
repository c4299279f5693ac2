"""
What Feishu and Lark say and want to hear: ids, codes, answers, the shape of a text.

Rule 1: pure. Rule 2: the code decides before the status: errors stand in 200, throttles in 400.
Source: open.feishu.cn, im-v1/message/create, im-v1/file/create, frequency-control,
add-custom-bot; larksuite/cli.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from wakebus.adapters import markdown as marks
from wakebus.adapters.base import Capabilities, File, Limit, Outgoing, Request, Response
from wakebus.adapters.errors import Rejected
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import THROTTLED, TOKEN, Meaning

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
_APP: Final = frozenset(IDS) - _WEBHOOK
# message/create: 5 a second to a chat or person, which its other bots share; 50 a second and 1000 a
# minute of the app. add-custom-bot: 5 a second, 100 a minute.
LIMITS: Final = (
    Limit(5, 1.0),
    Limit(100, 60.0, kinds=_WEBHOOK),
    *(Limit(50, 1.0, "app", _APP), Limit(1000, 60.0, "app", _APP)),
)
SETTINGS: Final = (
    *("FEISHU_APP_ID", "FEISHU_APP_SECRET", "FEISHU_DOMAIN", "FEISHU_API_BASE"),
    *("FEISHU_WEBHOOK_URL", "FEISHU_WEBHOOK_SECRET"),
)
# A custom bot takes 20 KB, a post 30, a text 150: the smallest, so that no way cuts otherwise.
CARD: Final = Capabilities(
    20_000,
    "bytes",
    threads=True,
    idempotent_s=3600,
    limits=LIMITS,
    max_file=30 << 20,  # im-v1/file/create
    settings=SETTINGS,
    needs=(SETTINGS[:2], ("FEISHU_WEBHOOK_URL",)),
)

RIGHT: Final = "write oc_… (chat), ou_… or on_… (person), an email, user_id:… or webhook"
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
    19021: Meaning(advice="check FEISHU_WEBHOOK_SECRET, and this machine's clock"),
    19022: Meaning(advice="put this machine's address on the bot's list"),
    19024: Meaning(advice="the bot takes only texts with its keyword"),
}

# No repeat may run over what begins it: a text may be 1 MiB of brackets or newlines.
_MENTION: Final = re.compile(r"<(?=[\s/]{0,16}(?:at|person)(?![a-z0-9]))", re.IGNORECASE)


def read(response: Response) -> dict[str, Any]:
    """Return an answer with code 0 (an old custom bot's StatusCode), or raise what it means."""
    found = answers.answer(response)
    code, message = found.get("code", found.get("StatusCode")), found.get("msg")
    if type(code) is not int or (code == 0 and not answers.fine(response)):
        raise answers.stranger(response)
    if code == 0:
        return found
    wait = answers.seconds(response, "x-ogw-ratelimit-reset", "retry-after")
    raise answers.refusal(CODES, code, message, response, wait)


def message(way: str, outgoing: Outgoing) -> dict[str, str]:
    """Return what a text (`text`, or `post` for Markdown) or a file is in a request."""
    text = marks.safe(outgoing.text)  # also of a text's links Feishu makes use
    kind, content = way, dict[str, Any](text=without_mentions(text))
    if way == "post":
        shown = without_mentions(marks.feishu(text))
        content = {"zh_cn": {"content": [[{"tag": "md", "text": shown}]]}}
    if outgoing.file is not None:
        kind, content = "file", {"file_key": outgoing.file.ref}
    uuid = bodies.uuid_of(outgoing.key, 50)
    return {"msg_type": kind, "content": bodies.compact(content), "uuid": uuid}


def measure(text: str) -> int:
    """Return the bytes of the largest request that carries this text, as it is or as a post."""
    return marks.size(text, _longest, CARD.max_text, _size)


def _longest(text: str) -> str:
    text = marks.safe(text)
    return max(text, marks.feishu(text), key=_size)


def _size(text: str) -> int:
    return bodies.nested(without_mentions(text)) + _ENVELOPE


def answered(outgoing: Outgoing) -> str:
    """Return the message that is answered, "" for none of Feishu's."""
    reply = outgoing.reply_to or ""
    return reply if MESSAGE.fullmatch(reply) else ""


def for_a_bot(outgoing: Outgoing, secret: str) -> dict[str, Any]:
    """Return what a custom bot takes: a text, signed where it has a secret."""
    if outgoing.file is not None:
        raise Rejected("a custom bot of feishu takes no files; send it to a chat of the app")
    text = without_mentions(marks.safe(outgoing.text))
    signed = sign(secret, outgoing.at) if secret else {}
    return signed | {"msg_type": "text", "content": {"text": text}}


def upload(api: str, file: File, token: str) -> Request:
    """Return the request that brings a file to Feishu, as a file of any type."""
    named = {"file_type": "stream", "file_name": file.name}
    url = f"{api}/im/v1/files"
    return bodies.multipart(url, named, {"file": file}, Authorization=f"Bearer {token}")


def uploaded(file: File, response: Response) -> File:
    """Return the file with its key, or raise what the answer means."""
    data = read(response).get("data")
    key = data.get("file_key") if isinstance(data, dict) else None
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise answers.stranger(response)
    return replace(file, ref=key)


def without_mentions(text: str) -> str:
    """Return `text` with Feishu's `<at …>` and `<person …>` as plain, readable text."""
    return _MENTION.sub("＜", text)


def sign(secret: str, at: float) -> dict[str, str]:
    """Return `timestamp` (seconds) and `sign` of a custom bot's body."""
    digest = hmac.new(f"{int(at)}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": str(int(at)), "sign": base64.b64encode(digest).decode()}
