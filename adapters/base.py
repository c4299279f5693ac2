"""
What an adapter is, and the values that pass through it (ADAPTERS.md).

Rule 1: only data and one Protocol; no IO, no clock. Rule 2: `repr` of none of these shows a
credential: platforms put them into URLs and headers. Rule 3: new fields get a default, so that
an older adapter stays an adapter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Final, Literal, Protocol
from urllib.parse import urlsplit

from wakebus.adapters.errors import Result, Scope

COURIER: Final = "courier"  # the endpoint that takes texts to chats

Unit = Literal["characters", "utf16", "bytes"]


@dataclass(frozen=True, slots=True)
class Limit:
    """
    A published limit: at most `count` messages in `seconds`.

    scope: to one chat, or of the whole app. kinds: the targets (`Target.kind`) that it is for and
    that share it; empty: all. refills: not a window but a bucket: `count` at once, and then one
    each `seconds / count`.
    """

    count: int
    seconds: float
    scope: Scope = "chat"
    kinds: frozenset[str] = frozenset()
    refills: bool = False


@dataclass(frozen=True, slots=True)
class Capabilities:
    """
    The card of a platform; read before `build_request`.

    max_text: of one request, in `unit` (code points, UTF-16 code units, UTF-8 bytes).
    threads: a target may name a thread. idempotent_s: for so many seconds a second request with
    the same key makes no second message (0: never, Feishu 3600, Mattermost 25, math.inf: always).
    limits: kept before the platform has to say so. max_file: bytes of one file, 0: takes none.
    settings: the variables that it reads, for people who look what is configured. needs: groups of
    them, each of which is enough to send by; empty: it needs none.
    """

    max_text: int
    unit: Unit = "characters"
    threads: bool = False
    idempotent_s: float = 0.0
    limits: tuple[Limit, ...] = ()
    max_file: int = 0
    settings: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """One chat; `kind`: the platform's own word for the id (`group`, `open_id`), if it has one."""

    platform: str
    chat_id: str
    thread: str | None = None
    kind: str = ""

    def __str__(self) -> str:
        """Return the channel token that leads here."""
        thread = "" if self.thread is None else f"?thread={self.thread}"
        return f"{self.platform}:{self.chat_id}{thread}"


@dataclass(frozen=True, slots=True)
class File:
    """
    A file for a chat; `name` is clean and has no slash.

    What an upload leaves for the request that shows it: `ref`, the platform's word for the file;
    `url`, where its bytes go; `stored`, that they are there.
    """

    name: str
    data: bytes = field(repr=False)
    media_type: str = "application/octet-stream"
    ref: str = ""
    url: str = field(default="", repr=False)
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Outgoing:
    """
    What one request sends: a text, clean and within `max_text`, or a `file` (`text` is "" then).

    `key`: the same for every resend of it.

    token: what `parse_token` returned, "" where the way needs none. way: one of `ways`. webhook: a
    session webhook's URL that came with the message. at: Unix seconds, for signatures. whole: the
    message that `text` is a part of: a format chosen by it is the same in every part.
    """

    text: str
    key: str
    reply_to: str | None = None
    token: str = field(default="", repr=False)
    way: str = ""
    webhook: str | None = field(default=None, repr=False)
    at: float = 0.0
    whole: str = ""
    file: File | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, and for how many seconds it is good."""

    value: str = field(repr=False)
    expires_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """
    What is to be done, as data; the URL's scheme chooses the transport that does it.

    platform: whose request it is, as who performs it says; a platform may have a proxy of its own.
    """

    url: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    platform: str = field(default="", compare=False)

    @property
    def scheme(self) -> str:
        """The URL's scheme: `https`, `console`, `apprise`."""
        return self.url.partition(":")[0].lower()

    def __repr__(self) -> str:
        """Method, scheme and host: paths, queries and headers carry tokens."""
        try:
            host = urlsplit(self.url).hostname or ""
        except ValueError:
            host = "?"
        return f"Request({self.method} {self.scheme}:{'//' if host else ''}{host})"


@dataclass(frozen=True, slots=True)
class Response:
    """What came back; `asked`: how many bytes the request's body had, 0 where that is not known."""

    status: int
    body: bytes = field(default=b"", repr=False)  # of a token's request it is the token
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """The platform took the message and gave it this id ("" where it gives none)."""

    id: str = ""


# Performs a request. Raises NotSent before the first byte left, Uncertain after it.
Transport = Callable[[Request], Response]


class Adapter(Protocol):
    """One platform. Made from the environment and `.env`; raises BadSetting naming the variable."""

    capabilities: ClassVar[Capabilities]

    def __init__(self, env: Mapping[str, str]) -> None: ...

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        """Return the chat, or raise BadTarget saying what is wrong with it."""
        ...

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        """Return the request that sends this text, or raise Rejected."""
        ...

    def parse_response(self, response: Response) -> Sent:
        """Return what the platform says it did, or raise a DeliveryError."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """What is known of one part of a text: `sent`, or `begun` and maybe accepted."""

    state: Literal["sent", "begun"]
    id: str = ""
    first: float = 0.0  # Unix seconds of the first try, by which the key's time counts


class Progress(Protocol):
    """
    The parts of one message's text, by number from 0, and the chat as the platform calls it.

    Kept over a restart by the courier.
    """

    def parts(self) -> Mapping[int, Part]:
        """Return what earlier tries left."""
        ...

    def chat_token(self) -> str:
        """Return the token of the chat in which parts were begun, "" where that is not known."""
        ...

    def begin_part(self, number: int, now: float, chat_token: str = "") -> None:
        """Remember, before a byte goes out, that this part's request begins, and in which chat."""
        ...

    def end_part(self, number: int, result: Result, id: str = "") -> None:
        """Remember how it ended; what was certainly not accepted is as if never begun."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelResult:
    """
    What became of one text at its chat.

    id: the platform's, of the first part. retry_after: seconds, where the platform says so. again:
    the same may be sent again: `not_sent`, or `uncertain` while its key makes that safe. done and
    parts: how many messages the text takes there, and how many of them are certainly sent.
    """

    result: Result
    platform: str = ""
    chat: str = ""
    id: str = ""
    reason: str = ""
    retry_after: float | None = None
    again: bool = False
    done: int = 0
    parts: int = 1

    def to_outcome(self, at: float) -> dict[str, Any]:
        """Return `{"channel": {"result": …}}` for a message's outcome; `at` in Unix seconds."""
        shown = {
            "platform": self.platform,
            "chat": self.chat,
            "id": self.id,
            "reason": self.reason,
        }
        held: dict[str, Any] = {name: value for name, value in shown.items() if value}
        if self.parts > 1:
            held |= {"parts": self.parts, "done": self.done}
        return {"channel": {"result": self.result, **held, "at": at}}


def length(text: str, unit: Unit) -> int:
    """Return the size of `text` as the platform counts it."""
    if unit == "characters":
        return len(text)
    return len(text.encode()) if unit == "bytes" else len(text.encode("utf-16-le")) // 2


# What adapters of other packages import from here, and where it is now.
_MOVED: Final = {
    "Uncertain": ("wakebus.adapters.errors", "Uncertain"),
    "Word": ("wakebus.adapters.errors", "Result"),
    "json_object": ("wakebus.adapters.kit.responses", "json_object"),
}


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        module, now = _MOVED[name]
        return getattr(import_module(module), now)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
