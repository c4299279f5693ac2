"""
What goes into the requests of Feishu and DingTalk: JSON in JSON, its size, marks, signatures.

Rule 1: pure. Rule 2: sizes are bytes of UTF-8 after all escaping, the platforms' own measure, and
never less than what is sent. Rule 3: a text mentions nobody: who writes it is not trusted.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from wakebus.adapters.base import Request
from wakebus.adapters.markup import line

_JSON: Final = {"Content-Type": "application/json; charset=utf-8"}
# No repeat may run over what begins it: a text may be 1 MiB of brackets or newlines.
_MENTION: Final = re.compile(r"<(?=[\s/]{0,16}(?:at|person)(?![a-z0-9]))", re.IGNORECASE)
_IMAGE: Final = re.compile(r"!\[([^\[\]\n]*)\]\(")
_MARKS: Final = re.compile(
    r"^(?:#{1,6} |[ \t]{0,16}[-*+] |[ \t]{0,16}\d{1,9}\. |> |[ \t]{0,16}(?:```|~~~)|\|.*\|$)"
    r"|\*\*\S|~~\S|`[^`\n]+`|\[[^\[\]\n]+\]\([^\s)]",
    re.MULTILINE,
)
_ONE_BREAK: Final = re.compile(r"(?<!\n)\n(?!\n)")
_TITLE_MARKS: Final = re.compile(r"\A[#>*\-+`~\s|]+|\*\*|~~|`")
TITLE: Final = 48  # characters, of which escaping makes at most 4 bytes each


def post(url: str, body: Mapping[str, Any], **headers: str) -> Request:
    """Return a POST of JSON; in the names of headers `_` stands for `-`."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(url, compact(body).encode(), {**_JSON, **more})


def compact(value: object) -> str:
    """Return JSON without spaces; text stays as it is, 3 bytes for 中 and not 6."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def nested(text: str) -> int:
    """Return the bytes of `text` as JSON in a JSON string, without the quotes around it."""
    return len(compact(compact(text)).encode(errors="surrogatepass")) - len('"\\"\\""')


def is_markdown(text: str) -> bool:
    """Whether a reader would miss something if the marks in `text` were shown as they are."""
    return bool(_MARKS.search(text))


def without_mentions(text: str) -> str:
    """Return `text` with Feishu's `<at …>` and `<person …>` as plain, readable text."""
    return _MENTION.sub("＜", text)


def without_images(text: str) -> str:
    """Return `text` with links for Markdown's images: Feishu shows only those it was given."""
    return _IMAGE.sub(r"[\1](", text)


def with_breaks(text: str) -> str:
    """Return `text` with DingTalk's line breaks: Markdown joins lines without two spaces."""
    return _ONE_BREAK.sub("  \n", text)


def titled(text: str) -> dict[str, str]:
    """Return DingTalk's Markdown content; a notification shows the title: the text's beginning."""
    title = line(_TITLE_MARKS.sub("", text[:1000]), TITLE) or "message"
    return {"title": title, "text": with_breaks(text)}


def feishu_sign(secret: str, at: float) -> dict[str, str]:
    """Return `timestamp` (seconds) and `sign` of a custom bot's body."""
    digest = hmac.new(f"{int(at)}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": str(int(at)), "sign": base64.b64encode(digest).decode()}


def dingtalk_signed(url: str, secret: str, at: float) -> str:
    """Return a custom robot's URL, signed where it has a secret: `timestamp` (ms) and `sign`."""
    if not secret:
        return url
    stamp = int(at * 1000)
    digest = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
    sign = quote(base64.b64encode(digest), safe="")
    return f"{url}{'&' if '?' in url else '?'}timestamp={stamp}&sign={sign}"


def uuid_of(key: str, limit: int) -> str:
    """Return `key` where it fits into `limit` characters, else a hash that stands for it."""
    return key if len(key) <= limit else hashlib.sha256(key.encode()).hexdigest()[:limit]
