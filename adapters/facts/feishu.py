"""
What Feishu and Lark say and want to hear: ids, codes, answers, the shape of a text.

Rule 1: pure. Rule 2: the code decides before the status: errors stand in 200, throttles in 400.
Source: open.feishu.cn, im-v1/message/create, frequency-control, add-custom-bot; larksuite/cli.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters import answers
from wakebus.adapters.base import Response
from wakebus.adapters.codes import THROTTLED, TOKEN, Meaning
from wakebus.adapters.ids import Shapes

# Feishu's receive_id_type. Hermes writes feishu_user_id:
IDS: Final[Shapes] = {
    "chat_id": re.compile(r"(oc_[\w-]{1,80})", re.ASCII),
    "open_id": re.compile(r"(ou_[\w-]{1,80})", re.ASCII),
    "union_id": re.compile(r"(on_[\w-]{1,80})", re.ASCII),
    "email": re.compile(r"([\w.%+-]{1,64}@[\w.-]{1,190})", re.ASCII),
    "user_id": re.compile(r"(?:feishu_)?user_id:([\w.@-]{1,64})", re.ASCII),
    "webhook": re.compile(r"(webhook)"),
}
RIGHT: Final = "write oc_… (chat), ou_… or on_… (person), an email, user_id:… or webhook"
MESSAGE: Final = re.compile(r"om_[\w-]{1,80}", re.ASCII)

_CREDENTIALS: Final = "check FEISHU_APP_ID and FEISHU_APP_SECRET"
_SCOPE: Final = "grant the app this scope and release a version"

CODES: Final[Mapping[int, Meaning]] = {
    # cc-connect #401, multica #7611: retried with the stale token for ever.
    **dict.fromkeys((99991661, 99991663, 99991668, 99991671, 99991677), TOKEN),
    # openclaw #89659: fatal there, half of 20 parallel sends lost. 11232: the tenant's limit.
    **dict.fromkeys((99991400, 230020, 11232), THROTTLED),
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

# No repeat may run over what begins it: a text may be 1 MiB of brackets or newlines.
_MENTION: Final = re.compile(r"<(?=[\s/]{0,16}(?:at|person)(?![a-z0-9]))", re.IGNORECASE)
_IMAGE: Final = re.compile(r"!\[([^\[\]\n]*)\]\(")


def read(response: Response) -> dict[str, Any]:
    """Return an answer with code 0 (an old custom bot's StatusCode), or raise what it means."""
    found = answers.answer(response)
    code, message = found.get("code", found.get("StatusCode")), found.get("msg")
    if type(code) is not int or (code == 0 and not answers.fine(response)):
        raise answers.stranger(response.status)
    if code == 0:
        return found
    wait = answers.seconds(response, "x-ogw-ratelimit-reset", "retry-after")
    raise answers.refusal(CODES, code, message, response, wait)


def without_mentions(text: str) -> str:
    """Return `text` with Feishu's `<at …>` and `<person …>` as plain, readable text."""
    return _MENTION.sub("＜", text)


def without_images(text: str) -> str:
    """Return `text` with links for Markdown's images: Feishu shows only those it was given."""
    return _IMAGE.sub(r"[\1](", text)


def sign(secret: str, at: float) -> dict[str, str]:
    """Return `timestamp` (seconds) and `sign` of a custom bot's body."""
    digest = hmac.new(f"{int(at)}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": str(int(at)), "sign": base64.b64encode(digest).decode()}
