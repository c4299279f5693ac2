"""
The platform `webhook`: a JSON to a URL of the settings, signed as Standard Webhooks are.

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
from collections.abc import Mapping
from typing import ClassVar, Final

from wakebus.adapters.base import Capabilities, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.errors import (
    BadSetting,
    BadTarget,
    DeliveryError,
    Rejected,
    Throttled,
    Uncertain,
)
from wakebus.adapters.kit import chat_ids, error_words, gateways, requests, responses, urls
from wakebus.adapters.sanitize import line

ID_HELP: Final = f"{chat_ids.NAME_RULE} WEBHOOK_<NAME>_URL"
THREAD: Final = re.compile(r"[\w.:@/+=#$!-]{1,200}", re.ASCII)
_GONE: Final = 410
_LATER: Final = frozenset({429, 503})
_DOUBT: Final = frozenset({408, 425})  # it may have read enough
_SAYS: Final = ("error", "message", "detail", "title")
_PREFIX: Final = "WEBHOOK_"


class Webhook:
    """Receivers by their names in the settings; each drops what came twice by `webhook-id`."""

    # A program reads it, and a message's body ends at 1 MiB: no text of the bus is ever cut. A
    # receiver keeps the ids that it had for a day (5.10 stops resending by then).
    capabilities: ClassVar = Capabilities(
        max_text=1 << 20,
        unit="bytes",
        threads=True,
        idempotent_s=86_400,
        settings=("WEBHOOK_<NAME>_URL", "WEBHOOK_<NAME>_SECRET"),
        needs=(("WEBHOOK_<NAME>_URL",),),
    )

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: env[name] for name in env if name.startswith(_PREFIX)}

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the receiver; a thread is a field for it to read."""
        kind = chat_ids.kind_of("webhook", chat_id, chat_ids.NAME_SHAPES, ID_HELP)
        if thread is not None and not THREAD.fullmatch(thread):
            raise BadTarget(
                f"webhook chat {chat_id!r}: thread {thread[:80]!r} has other than words"
            )
        return Target("webhook", chat_id, thread, kind)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request, signed where the receiver has a secret."""
        name = target.chat_id
        place, secret = (chat_ids.setting_of(_PREFIX, name, what) for what in ("_URL", "_SECRET"))
        url = urls.webhook_url(self._env, place)
        urls.require(url, place, chat_ids.settings_like(self._env, _PREFIX, "_URL"))
        value = urls.setting(self._env, secret)
        key = signing_key(value, secret) if value else b""
        body = {"id": outgoing.key, "platform": "webhook", "chat_id": name, "text": outgoing.text}
        plain = requests.post_json(url, body | ({"thread": target.thread} if target.thread else {}))
        signed = signed_headers(key, outgoing.key, outgoing.at, plain.body)
        return Request(url, plain.body, {**plain.headers, **signed})

    def parse_response(self, response: Response) -> Sent:
        """Return the receiver's id for it, if it gave one, or raise what the status means."""
        return Sent(read_id(response))


def signing_key(value: str, name: str) -> bytes:
    """Return the key in a `whsec_…` secret; raise BadSetting that names the variable."""
    try:
        key = base64.b64decode(value.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < 16:  # the specification wants 24 to 64 bytes
        raise BadSetting(f"{name}: write whsec_ and 24 to 64 random bytes in base64")
    return key


def signed_headers(key: bytes, id: str, at: float, body: bytes) -> dict[str, str]:
    """Return the headers of Standard Webhooks; without a `key` nothing is signed."""
    found = {"webhook-id": id, "webhook-timestamp": str(int(at)), "Idempotency-Key": id}
    if key:
        text = f"{id}.{int(at)}.".encode() + body
        digest = hmac.new(key, text, hashlib.sha256).digest()
        found["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return found


def read_id(response: Response) -> str:
    """Return the id in the answer of a receiver that took it ("" for none), or raise."""
    found = _json_in(response)
    if responses.succeeded(response):
        id = found.get("id")
        return line(id, 200) if isinstance(id, str) else ""
    raise _refusal(response, next((found[name] for name in _SAYS if found.get(name)), ""))


def _refusal(response: Response, said: object) -> DeliveryError:
    status, wait = response.status, responses.retry_after(response, "retry-after")
    if before := gateways.refusal_before(response):
        return before
    text = responses.reason(f"status {status}", said, error_words.clock_advice(response, said))
    fast = 400 <= status < 500 and error_words.says_too_fast(said)
    if status == 429 or fast or (status in _LATER and wait is not None):
        return Throttled(text, retry_after=error_words.wait_in(said) if wait is None else wait)
    if status == _GONE:
        return Rejected(f"{text}; the receiver is gone for good: take its URL out of the settings")
    if 400 <= status < 500 and status not in _DOUBT:
        return Rejected(text)
    return Uncertain(text)


def _json_in(response: Response) -> dict[str, object]:
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
