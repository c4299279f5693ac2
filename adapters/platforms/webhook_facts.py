"""
The contract of a generic webhook: names, settings, what is signed, what an answer means.

Rule 1: pure. Rule 2: a chat id is a name and never a URL: whoever writes a message must not choose
where texts go. Rule 3: a resend has the same body to the byte (a receiver may compare: the draft on
Idempotency-Key says so); only the time of the try differs, and it stands in a header.
Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md;
draft-ietf-httpapi-idempotency-key-header.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from typing import Final

from wakebus.adapters.base import Capabilities, Response
from wakebus.adapters.errors import BadSetting, DeliveryError, Rejected, Throttled, Uncertain
from wakebus.adapters.kit import chat_ids as ids
from wakebus.adapters.kit import responses as answers
from wakebus.adapters.sanitize import line

RIGHT: Final = f"{ids.NAMED} WEBHOOK_<NAME>_URL"
THREAD: Final = re.compile(r"[\w.:@/+=#$!-]{1,200}", re.ASCII)

# A program reads it, and a message's body ends at 1 MiB: no text of the bus is ever cut. A receiver
# keeps the ids that it had for a day (5.10 stops resending by then).
CARD: Final = Capabilities(
    1 << 20,
    "bytes",
    threads=True,
    idempotent_s=86_400,
    settings=("WEBHOOK_<NAME>_URL", "WEBHOOK_<NAME>_SECRET"),
    needs=(("WEBHOOK_<NAME>_URL",),),
)

_GONE: Final = 410
_LATER: Final = frozenset({429, 503})
_DOUBT: Final = frozenset({408, 425})  # it may have read enough
_SAYS: Final = ("error", "message", "detail", "title")


def secret(value: str, name: str) -> bytes:
    """Return the key in a `whsec_…` secret; raise BadSetting that names the variable."""
    try:
        key = base64.b64decode(value.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < 16:  # the specification wants 24 to 64 bytes
        raise BadSetting(f"{name}: write whsec_ and 24 to 64 random bytes in base64")
    return key


def headers(key: bytes, id: str, at: float, body: bytes) -> dict[str, str]:
    """Return the headers of Standard Webhooks; without a `key` nothing is signed."""
    found = {"webhook-id": id, "webhook-timestamp": str(int(at)), "Idempotency-Key": id}
    if key:
        text = f"{id}.{int(at)}.".encode() + body
        digest = hmac.new(key, text, hashlib.sha256).digest()
        found["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return found


def read(response: Response) -> str:
    """Return the id in the answer of a receiver that took it ("" for none), or raise."""
    found = _said(response)
    if answers.fine(response):
        id = found.get("id")
        return line(id, 200) if isinstance(id, str) else ""
    raise _refusal(response, next((found[name] for name in _SAYS if found.get(name)), ""))


def _refusal(response: Response, said: object) -> DeliveryError:
    status, wait = response.status, answers.seconds(response, "retry-after")
    text = answers.reason(f"status {status}", said)
    if status == 429 or (status in _LATER and wait is not None):
        return Throttled(text, retry_after=wait)
    if 300 <= status < 400:
        return Rejected(f"{text}; redirects are not followed: set the URL to where it leads")
    if status == _GONE:
        return Rejected(f"{text}; the receiver is gone for good: take its URL out of the settings")
    if 400 <= status < 500 and status not in _DOUBT:
        return Rejected(text)
    return Uncertain(text)


def _said(response: Response) -> dict[str, object]:
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
