"""
The message: its fields, their limits, and what makes two messages the same.

Rule 1: pure; `now` and randomness are arguments or made by the caller. Rule 2: a message is
checked once, here, by sender and broker alike; the text of an error names the field. Rule 3: the
body belongs to its writer and is carried unchanged. Field by field: PROTOCOL.md section 4.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from wakebus.broker.errors import BadFrame, BadMessage, BadName, TooBig
from wakebus.broker.protocol import wire

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
INSTANCE: Final = re.compile(r"[0-9a-f]{16}\Z")  # of a client object
WAKES: Final = ("immediate", "next_turn", "silent")
PRIORITIES: Final = ("low", "normal", "high")
MAX_KEY: Final = 256  # bytes; session keys of Hermes and OpenClaw stay below 200
MAX_CHANNEL: Final = 512  # bytes; the longest known chat id (DingTalk) is below 100
MAX_TYPE: Final = 128
MAX_PATH: Final = 64
MAX_HOPS: Final = 1_000_000
DEFAULT_TTL_S: Final = 7 * 86400.0
MAX_TTL_S: Final = 366 * 86400.0
MAX_DELAY_S: Final = 366 * 86400.0

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Message(NamedTuple):
    """One addressed message; `sender` is the wire's `from`."""

    id: str
    ts: float
    sender: str
    to: str
    body: Mapping[str, Any]
    session: str | None = None
    wake: str | None = None
    reply_to: str | None = None
    cause: str | None = None
    hops: int = 0
    path: tuple[str, ...] = ()
    ttl_s: float = DEFAULT_TTL_S
    key: str | None = None
    not_before: float | None = None
    priority: str | None = None

    @property
    def type(self) -> str:
        """The body's `type`, or "" for an untyped message."""
        return str(self.body.get("type") or "")

    @property
    def text(self) -> str:
        """The body's `text`, or ""."""
        return str(self.body.get("text") or "")

    @property
    def channel(self) -> str:
        """The body's `channel` (the reply token), or ""."""
        return str(self.body.get("channel") or "")

    @property
    def lane(self) -> str:
        """What must stay in order within one endpoint: sender, session or channel, priority."""
        lane = f"{self.sender}\n{self.session or self.channel}"
        return lane if self.priority in (None, "normal") else f"{lane}\n{self.priority}"

    def to_wire(self) -> dict[str, Any]:
        """Return the wire object; absent fields are left out."""
        data: dict[str, Any] = {"id": self.id, "ts": self.ts, "from": self.sender, "to": self.to}
        data["body"] = dict(self.body)
        for field in ("session", "wake", "reply_to", "cause", "key", "not_before", "priority"):
            if (value := getattr(self, field)) is not None:
                data[field] = value
        if self.hops:
            data["hops"] = self.hops
        if self.path:
            data["path"] = list(self.path)
        if self.ttl_s != DEFAULT_TTL_S:
            data["ttl_s"] = self.ttl_s
        return data


def rank_of(priority: str | None) -> int:
    """Return 0 for `high`, 2 for `low`, else 1: what goes first has the lowest."""
    return {"high": 0, "low": 2}.get(priority or "", 1)


def rank_of_lane(lane: str) -> int:
    """Return the rank of a lane's messages, which all have the same priority."""
    return rank_of(next(iter(lane.split("\n")[2:3]), None))


def new_id(now: float, random: bytes | None = None) -> str:
    """
    Return an id that sorts by time (ms, 11 hex digits) and is unique (40 random bits).

    `random`: 5 bytes that nobody else has; a caller who needs many gets them in one go.
    """
    return f"{int(now * 1000):011x}{(random or os.urandom(5)).hex()}"


class Ids:
    """Makes ids for one client: its random bits come from the kernel for 64 of them at once."""

    def __init__(self) -> None:
        self._random: list[bytes] = []

    def new(self, now: float) -> str:
        """Return a new id, as `new_id`."""
        try:
            return new_id(now, self._random.pop())
        except IndexError:  # such a call may cost as much as all the rest of a send
            data = os.urandom(320)
            self._random += [data[at : at + 5] for at in range(0, 315, 5)]
            return new_id(now, data[315:])


def check_name(value: Any, field: str) -> str:
    """Return `value` if it is an endpoint name, or raise BadName."""
    if not isinstance(value, str) or not NAME.match(value):
        shown = value[:80] if isinstance(value, str) else value
        raise BadName(
            f"{field} {shown!r}: an endpoint name has 1 to 64 of the characters A-Z a-z 0-9 _ -"
        )
    return value


def from_wire(data: Any, dumps: Callable[[Any], bytes] = wire.dumps) -> Message:
    """
    Return the checked message, or raise BadMessage, BadName or TooBig naming the field.

    `dumps` may be a faster writer for what a strict reader has read.
    """
    if not isinstance(data, dict):
        raise BadMessage("the message is not an object")
    if unknown := data.keys() - _FIELDS:
        raise BadMessage(f"unknown field {min(unknown)[:40]!r} in the message")
    reply_to, cause = _reference(data, "reply_to"), _reference(data, "cause")
    return Message(
        id=_id(data.get("id"), "id"),
        ts=_number(data.get("ts"), "ts", 0, 1e12),
        sender=check_name(data.get("from"), "from"),
        to=check_name(data.get("to"), "to"),
        body=_body(data.get("body"), dumps),
        session=_line(data, "session", MAX_KEY),
        wake=_word(data, "wake", WAKES),
        reply_to=reply_to,
        cause=cause,
        hops=int(_number(data.get("hops", 0), "hops", 0, MAX_HOPS)),
        path=_path(data.get("path", [])),
        ttl_s=_number(data.get("ttl_s", DEFAULT_TTL_S), "ttl_s", 0.001, MAX_TTL_S),
        key=_line(data, "key", MAX_KEY),
        not_before=_number_or_none(data, "not_before", 0, 1e12),
        priority=_word(data, "priority", PRIORITIES),
    )


_FIELDS: Final = frozenset(Message._fields) - {"sender"} | {"from"}


def _id(value: Any, field: str) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        shown = value[:80] if isinstance(value, str) else value
        raise BadMessage(f"{field} {shown!r}: 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return value


def _reference(data: dict[str, Any], field: str) -> str | None:
    value = data.get(field)
    return None if value is None else _id(value, field)


def _number(value: Any, field: str, low: float, high: float) -> float:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not ok:
        raise BadMessage(f"{field} {str(value)[:40]}: a number from {low:g} to {high:g}")
    return float(value)


def _number_or_none(data: dict[str, Any], field: str, low: float, high: float) -> float | None:
    value = data.get(field)
    return None if value is None else _number(value, field, low, high)


def _word(data: dict[str, Any], field: str, words: tuple[str, ...]) -> str | None:
    value = data.get(field)
    if value is not None and value not in words:
        raise BadMessage(f"{field} {str(value)[:40]!r}: one of {', '.join(words)}")
    return value


def _line(data: dict[str, Any], field: str, limit: int) -> str | None:
    value = data.get(field)
    if value is None:
        return None
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        raise BadMessage(f"{field}: a line of text without control characters")
    if len(value.encode(errors="surrogatepass")) > limit:
        raise TooBig(f"{field} is over {limit} bytes")
    return value


def _path(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_PATH:
        raise BadMessage(f"path: a list of up to {MAX_PATH} endpoint names")
    return tuple(check_name(name, "path") for name in value)


def _body(value: Any, dumps: Callable[[Any], bytes]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadMessage("body: an object with at least `text` or fields of your own")
    if "type" in value and (
        not isinstance(value["type"], str)
        or not value["type"].strip()
        or len(value["type"]) > MAX_TYPE
        or _CONTROL.search(value["type"])
    ):
        raise BadMessage(f"body.type: a word of 1 to {MAX_TYPE} characters, or leave it out")
    if "text" in value and not isinstance(value["text"], str):
        raise BadMessage("body.text: a string")
    if "channel" in value:
        _line({"body.channel": value["channel"]}, "body.channel", MAX_CHANNEL)
    try:
        encoded = dumps(value)
    except BadFrame as exc:
        raise BadMessage(f"body: {exc.text}") from exc
    if len(encoded) > wire.MAX_BODY:
        raise TooBig(f"body is {len(encoded)} bytes as JSON; the limit is {wire.MAX_BODY}")
    if wire.too_deep(value, encoded):
        raise BadMessage(f"body: nested deeper than {wire.MAX_DEPTH} levels")
    if b"\\u0000" in encoded and _holds_nul(value):
        raise BadMessage("body: text holds a NUL character, which no terminal or program takes")
    return value


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_holds_nul(k) or _holds_nul(v) for k, v in value.items())
    return isinstance(value, list) and any(_holds_nul(item) for item in value)


def content(message: Message) -> bytes:
    """
    Return what must be equal for the same id to mean the same message.

    Never `ts`, `hops`, `path`, `not_before`: a resend may be stamped anew (PROTOCOL.md section 4).
    """
    fields = ("sender", "to", "session", "wake", "reply_to", "key")
    return wire.dumps([*(getattr(message, f) for f in fields), _sorted(message.body)])


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _sorted(value[k]) for k in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
