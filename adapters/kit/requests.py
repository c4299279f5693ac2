"""
What goes into the requests of several platforms: JSON, JSON in JSON and its size, forms, keys.

Rule 1: pure. Rule 2: sizes are bytes of UTF-8 after all escaping, the platforms' own measure, and
never less than what is sent. Rule 3: the same arguments, the same bytes: nothing here is random.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from wakebus.adapters.base import File, Request, length

_JSON: Final = {"Content-Type": "application/json; charset=utf-8"}


def post_json(url: str, body: Mapping[str, Any], **headers: str) -> Request:
    """Return a POST of JSON; in the names of headers `_` stands for `-`."""
    return Request(url, compact_json(body).encode(), {**_JSON, **_named(headers)})


def post_form(
    url: str, fields: Mapping[str, str], files: Mapping[str, File], **headers: str
) -> Request:
    """
    Return a POST of a form: fields, then files by the names of their fields (RFC 7578).

    A name in UTF-8 stands as it is, and its quotes as browsers write them (HTML, 4.10.22.8).
    """
    entries = [(f'name="{_quoted(name)}"', "", value.encode()) for name, value in fields.items()]
    for name, file in files.items():
        where = f'name="{_quoted(name)}"; filename="{_quoted(file.name)}"'
        entries.append((where, f"\r\nContent-Type: {file.media_type}", file.data))
    mark = _boundary(entries)
    body: list[bytes] = []
    for where, kind, data in entries:
        head = f"--{mark}\r\nContent-Disposition: form-data; {where}{kind}\r\n\r\n"
        body += [head.encode(), data, b"\r\n"]
    body.append(f"--{mark}--\r\n".encode())
    kind = f"multipart/form-data; boundary={mark}"
    return Request(url, b"".join(body), {"Content-Type": kind, **_named(headers)})


def _boundary(entries: Iterable[tuple[str, str, bytes]]) -> str:
    """Return what no entry holds: it would have to hold a hash of itself."""
    digest = hashlib.sha256()
    for where, kind, data in entries:
        digest.update(f"{len(where)} {where} {len(kind)} {kind} {len(data)} ".encode())
        digest.update(data)
    return f"wakebus-{digest.hexdigest()[:40]}"


def _quoted(name: str) -> str:
    return name.translate({ord('"'): "%22", ord("\r"): "%0D", ord("\n"): "%0A"})


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def compact_json(value: object) -> str:
    """Return JSON without spaces; text stays as it is, 3 bytes for 中 and not 6."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def utf16_length(text: str) -> int:
    """Return the UTF-16 code units of `text`."""
    return length(text, "utf16")


def utf8_length(text: str) -> int:
    """Return the bytes of `text` in UTF-8."""
    return length(text, "bytes")


def json_size(text: str) -> int:
    """Return the bytes of `text` as JSON, with its quotes."""
    return len(compact_json(text).encode(errors="surrogatepass"))


def nested_json_size(text: str) -> int:
    """Return the bytes of `text` as JSON in a JSON string, without the quotes around it."""
    return len(compact_json(compact_json(text)).encode(errors="surrogatepass")) - len('"\\"\\""')


def fit_key(key: str, limit: int) -> str:
    """Return `key` where it fits into `limit` characters, else a hash that stands for it."""
    return key if len(key) <= limit else hashlib.sha256(key.encode()).hexdigest()[:limit]
