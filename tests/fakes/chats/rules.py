"""
What a stand-in has to know of a platform, and the values that the server and the rules share.

Rule 1: a family is a subclass of Rules with data and small functions; it opens no socket and
keeps no state: what stands in a chat is the server's (fakes/platform.py). Rule 2: bodies, codes
and headers are the platforms' own, so that an adapter that reads them wrongly fails here. Rule 3:
a limit is kept in the platform's own unit and words.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl, urlsplit

# What a request meets. `_lost`: nothing was accepted.
Step = Literal[
    "ok",
    "slow",  # accepted, and answered byte by byte
    "throttle_429",  # with `hint` seconds, where the platform writes them
    "throttle_in_200",  # without a hint, and in a 200 where the platform does so
    "token_expired_once",  # the token is good no more; another one is, where it can be fetched
    "error_in_200",  # HTTP 200, and no success
    "permanent",  # the platform's own refusal, in its own status
    "html",  # HTTP 200 with a page
    "html_429",  # of a proxy before the platform
    "html_502",
    "html_413",
    "redirect",  # to another host
    "half",  # accepted; half an answer
    "empty",  # accepted; an answer without a body
    "error_500",  # accepted; and yet 500
    "error_500_lost",
    "hang",  # accepted; no answer until `release`
    "hang_lost",
    "reset_after_write",  # accepted; the connection is reset
    "reset_lost",
    "close_before_read",  # reset before the body was read
    # of one platform
    "staff_invalid_in_200",
    "staff_flow_in_200",
    "session_expired",
]
ACCEPTING = {"ok", "slow", "half", "empty", "error_500", "hang", "reset_after_write"}
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
HTML = b"<!doctype html><html><body>please log in</body></html>"


@dataclass(frozen=True)
class Call:
    """One HTTP request, as it came; header names in lower case."""

    method: str
    url: str
    headers: dict[str, str]
    data: bytes = b""

    @property
    def path(self) -> str:
        """Its path, without the query."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        """Its query."""
        return dict(parse_qsl(urlsplit(self.url).query))

    @cached_property
    def fields(self) -> dict[str, bytes]:
        """The fields of a multipart body; of a form the same."""
        kind = self.headers.get("content-type", "")
        if "form-urlencoded" in kind:
            return {name: value.encode() for name, value in parse_qsl(self.data.decode())}
        _, _, boundary = kind.partition("boundary=")
        found = {}
        for piece in self.data.split(b"--" + boundary.strip('"').encode()) if boundary else []:
            head, _, value = piece.partition(b"\r\n\r\n")
            if b'name="' in head:
                name = head.split(b'name="')[1].split(b'"')[0].decode()
                found[name] = value.removesuffix(b"\r\n")
        return found

    @cached_property
    def body(self) -> dict[str, Any]:
        """Its JSON object; {} where it has none."""
        raw = self.fields.get("payload_json", self.data)
        try:
            value = json.loads(raw)
        except ValueError:
            return {name: text.decode(errors="replace") for name, text in self.fields.items()}
        return value if isinstance(value, dict) else {}

    @property
    def bearer(self) -> str:
        """What stands in Authorization, without its scheme."""
        return self.headers.get("authorization", "").partition(" ")[2]


@dataclass(frozen=True)
class Seen:
    """One request and what was done about it; `key`: what makes it the same as another."""

    call: Call
    platform: str
    route: str
    chat: str
    step: Step
    key: str = ""
    token: str = ""
    text: str = ""
    accepted: bool = False

    @property
    def path(self) -> str:
        """Its URL from the path on."""
        return self.call.url

    @property
    def body(self) -> dict[str, Any]:
        """Its JSON."""
        return self.call.body


@dataclass(frozen=True)
class Message:
    """What stands in a chat."""

    platform: str
    chat: str
    text: str
    key: str
    id: str


@dataclass
class Answer:
    """What goes back."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def reply(value: Any, status: int = 200, **headers: str) -> Answer:
    """Return an answer of JSON; in the names of headers `_` stands for `-`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, json.dumps(value, ensure_ascii=False).encode(), named)


def unescaped(text: str) -> str:
    """Return Markdown as its reader sees it, as far as escapes go (CommonMark 2.4)."""
    return _ESCAPED.sub(r"\1", text)


def whole(hint: float | None) -> str:
    """Return a wait as platforms write it that know whole seconds only."""
    return str(max(1, int(hint or 0)))


class Rules:
    """
    One platform.

    name: the adapter's. key_s: seconds for which a key makes one message, 0: it knows none.
    renews: whether its token is fetched, and may be fetched again.
    """

    name: ClassVar[str]
    key_s: float = 0.0
    renews: ClassVar[bool] = False
    token: ClassVar[str] = "hush-token"
    hook: ClassVar[str] = "hush-hook"

    def settings(self, url: str) -> dict[str, str]:
        """Return the settings that lead a person's adapter to a server at `url`."""
        raise NotImplementedError

    def route(self, call: Call) -> str:
        """Return what is asked: send, webhook, token, …; "" where it is not this platform."""
        raise NotImplementedError

    def chat(self, call: Call) -> str:
        """Return the chat that a text is for."""
        raise NotImplementedError

    def text(self, call: Call) -> str:
        """Return the text, as its reader sees it."""
        return str(call.body.get("text", ""))

    def key(self, call: Call) -> str:
        """Return what makes a second request the same as the first, "" without."""
        return ""

    def credential(self, call: Call) -> str:
        """Return the credential that the request shows."""
        return call.bearer

    def admits(self, call: Call, route: str, generation: int) -> bool:
        """Whether the request shows what this route asks for: a webhook's secret is its URL."""
        if route == "webhook":
            return self.hook in call.url
        # Who fetches a token shows a secret, which `fetched` judges; a session's URL is its own.
        return route in ("token", "session") or self.credential(call) == self.good(generation)

    def good(self, generation: int) -> str:
        """Return the credential that is good now."""
        return f"t-{generation}" if self.renews else self.token

    def fetched(self, call: Call, token: str) -> Answer:
        """Return the answer to a request for a token."""
        raise NotImplementedError

    def too_long(self, call: Call) -> Answer | None:
        """Return the refusal of what is over its limits, None of what is not."""
        return None

    def throttled(self, call: Call, hint: float | None) -> Answer:
        """Return that it was too fast."""
        raise NotImplementedError

    def unauthorized(self, call: Call) -> Answer:
        """Return that the credential is not good."""
        raise NotImplementedError

    def permanent(self, call: Call) -> Answer:
        """Return a refusal for ever."""
        raise NotImplementedError

    def error_in_200(self, call: Call) -> Answer:
        """Return an error in a 200."""
        return self.permanent(call)

    def failed(self, call: Call) -> Answer:
        """Return a 500."""
        return Answer(500, b"Internal Server Error", {"content-type": "text/plain"})

    def success(self, call: Call, id_: str) -> Answer:
        """Return that the text was taken."""
        raise NotImplementedError

    def message_id(self, number: int) -> str:
        """Return the id of a message."""
        return f"{number}"

    def other(self, call: Call, route: str) -> Answer:
        """Return the answer to a look-up, an upload or a check."""
        return self.permanent(call)

    def own(self, call: Call, step: Step) -> Answer | None:
        """Return the answer of a step that only this platform has."""
        return None
