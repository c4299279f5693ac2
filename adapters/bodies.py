"""
What goes into the requests of several platforms: JSON, JSON in JSON and its size, keys.

Rule 1: pure. Rule 2: sizes are bytes of UTF-8 after all escaping, the platforms' own measure, and
never less than what is sent.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters.base import Request

_JSON: Final = {"Content-Type": "application/json; charset=utf-8"}
_MARKS: Final = re.compile(
    r"^(?:#{1,6} |[ \t]{0,16}[-*+] |[ \t]{0,16}\d{1,9}\. |> |[ \t]{0,16}(?:```|~~~)|\|.*\|$)"
    r"|\*\*\S|~~\S|`[^`\n]+`|\[[^\[\]\n]+\]\([^\s)]",
    re.MULTILINE,
)


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


def uuid_of(key: str, limit: int) -> str:
    """Return `key` where it fits into `limit` characters, else a hash that stands for it."""
    return key if len(key) <= limit else hashlib.sha256(key.encode()).hexdigest()[:limit]
