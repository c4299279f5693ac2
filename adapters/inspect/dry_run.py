"""
What a text or a file would become at its chat, without sending it: parts, ways, redacted requests.

Rule 1: nothing is performed, nothing is asked of anybody. Rule 2: what is shown is made by the
same calls as what is sent: cleaned, split, keyed, built. Rule 3: what only the platform could say
is not asked for but shown as it would be asked: an access token as `***`, a chat by its first
look-up, a file by its first upload. Rule 4: bytes are told, not dumped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wakebus.adapters.base import File, Outgoing, Request
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.deliver import parts_of
from wakebus.adapters.delivery.split_cache import SplitCache
from wakebus.adapters.errors import DeliveryError
from wakebus.adapters.settings.redact import REDACTED, redact, redacted_request, secret_values

_SHORT: Final = 32


def dry_run(
    chat: GuardedAdapter, message: Outgoing, at: float, env: Mapping[str, str]
) -> dict[str, Any]:
    """
    Return what `deliver` would send, as JSON. Raises Rejected as it would.

    `{"chat", "limit", "unit", "lookup": request or None, "ways", "tokens": [{"way", request}],
    "parts": [{"part", "size", "text", "requests": [{"way", request}]}]}`; a request is method, url,
    headers, body. The part with the file has `"file": "N bytes of NAME"` and its size in bytes; its
    requests have `"upload": request` where it is brought there first. A way that cannot carry a
    part has `{"way", "error"}`. at: Unix seconds. env: what the adapter was made of.
    """
    outgoing = parts_of(chat, message, SplitCache())
    asked = chat.lookup()
    show = _DryRun(chat, at, secret_values(env))
    ways = chat.ways(outgoing[0])
    return {
        "chat": str(chat.target),
        "limit": chat.card.max_text,
        "unit": chat.card.unit,
        "lookup": asked and show.request(asked, None),
        "ways": ways,
        "tokens": show.tokens(ways),
        "parts": [show.part(number, part, ways) for number, part in enumerate(outgoing, 1)],
    }


@dataclass(frozen=True, slots=True)
class _DryRun:
    chat: GuardedAdapter
    at: float
    secrets: set[str]

    def tokens(self, ways: Sequence[str]) -> list[dict[str, Any]]:
        asked = {way: self.chat.token_request(way) for way in ways}
        once: list[dict[str, Any]] = []
        for way, request in asked.items():
            if request and request not in [asked[one["way"]] for one in once]:
                once.append({"way": way, **self.request(request, None)})
        return once

    def part(self, number: int, part: Outgoing, ways: Sequence[str]) -> dict[str, Any]:
        shown: dict[str, Any] = {"part": number}
        if part.file is None:
            shown |= {"size": self.chat.measure(part.text), "text": part.text}
        else:
            shown |= {"size": len(part.file.data), "text": "", "file": _file_text(part.file)}
        requests = [self.by_way(part, way) for way in ways]
        # Ways of a text, with and without markup, are one for a file.
        once = requests if part.file is None else _distinct(requests)
        return {**shown, "requests": once}

    def by_way(self, part: Outgoing, way: str) -> dict[str, Any]:
        try:
            token = REDACTED if self.chat.token_request(way) else ""
            sent = replace(part, token=token, way=way, at=self.at)
            upload = self.chat.upload(sent)
            if upload is not None and sent.file:
                sent = replace(sent, file=replace(sent.file, ref=REDACTED, url="", stored=True))
            shown = self.request(self.chat.build(sent), part.file)
        except DeliveryError as exc:
            return {"way": way, "error": redact(exc.text, self.secrets)}
        more = {"upload": self.request(upload, part.file)} if upload else {}
        return {"way": way, **more, **shown}

    def request(self, request: Request, file: File | None) -> dict[str, Any]:
        return redacted_request(_without_bytes(request, file) if file else request, self.secrets)


def _distinct(requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    for one in requests:
        if not any({**one, "way": ""} == {**other, "way": ""} for other in seen):
            seen.append(one)
    return seen


def _without_bytes(request: Request, file: File) -> Request:
    told = f"<{_file_text(file)}>".encode()
    form = b"\r\n\r\n%s\r\n--"
    if request.body == file.data:
        return replace(request, body=told)
    if len(file.data) < _SHORT:  # its bytes are found in other words, unless it stands in a form
        return replace(request, body=request.body.replace(form % file.data, form % told))
    return replace(request, body=request.body.replace(file.data, told))


def _file_text(file: File) -> str:
    return f"{len(file.data)} bytes of {file.name}"
