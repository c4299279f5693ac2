"""
What ntfy says and wants to hear: topics, codes, answers, headers.

Rule 1: pure. Rule 2: a code says more than its status: a day's quota is a 429 that no short wait
mends. Rule 3: a header is ASCII, so a file's name goes as RFC 2047 writes it.
Source: docs.ntfy.sh/publish; server/errors.go, server/server.go (handlePublishBody), config.go.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters.base import Response
from wakebus.adapters.kit import requests as bodies
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.kit import urls
from wakebus.adapters.kit.chat_ids import Shapes
from wakebus.adapters.kit.error_codes import Meaning

IDS: Final[Shapes] = {"topic": re.compile(r"([-_A-Za-z0-9]{1,64})")}
RIGHT: Final = "a topic has 1 to 64 of A-Z a-z 0-9 _ -"

_TOPIC: Final = "the server keeps this name for itself; take another topic"
_RIGHTS: Final = "check NTFY_TOKEN, and what it may do with this topic"
_SIZE: Final = "the server's limits are lower than ntfy's defaults"

CODES: Final[Mapping[int, Meaning]] = {
    40009: Meaning(advice=RIGHT),
    40010: Meaning(advice=_TOPIC),
    40014: Meaning(advice="the server takes no files, or no text over its message-size-limit"),
    **dict.fromkeys((40101, 40301), Meaning(advice=_RIGHTS)),
    **dict.fromkeys((41301, 41303), Meaning(advice=_SIZE)),
    # 60 at once, then one in 5 s: server.yml, visitor-request-limit-replenish.
    42901: Meaning("throttled", wait_s=5.0, scope="app"),
    42909: Meaning("throttled", "check NTFY_TOKEN", wait_s=60.0, scope="app"),
    # Of a day: they are full again at midnight UTC, and the message is still good then.
    **dict.fromkeys((42905, 42908), Meaning("throttled", wait_s=3600.0, scope="app")),
    50701: Meaning(advice="nobody has subscribed to this topic"),
}


def read(response: Response) -> dict[str, Any]:
    """Return the answer to a request that was taken, or raise what it means."""
    found = answers.answer(response)
    if answers.fine(response):
        return found
    code = found.get("code")
    if type(code) is not int:
        raise answers.stranger(response)
    wait = answers.seconds(response, "retry-after")
    raise answers.refusal(CODES, code, found.get("error"), response, wait)


def credential(env: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the header of a setting: `tk_…`, or `user:password` as Hermes takes it."""
    if ":" in (both := urls.setting(env, name)):
        return {"Authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}
    token = urls.credential(env, name)
    return {"Authorization": f"Bearer {token}"} if token else {}


def size(text: str) -> int:
    """Return the bytes of a text, or half of those it takes as JSON: ntfy reads twice its limit."""
    return max(bodies.utf8(text), (bodies.json_size(text) + _ENVELOPE + 1) // 2)


_ENVELOPE: Final = 120  # bytes around the text: the topic, names, braces


def header(name: str) -> str:
    """Return a file's name as a header may hold it; ntfy reads RFC 2047."""
    if name.isascii() and name.isprintable() and "=?" not in name:
        return name
    return f"=?UTF-8?B?{base64.b64encode(name.encode()).decode()}?="
