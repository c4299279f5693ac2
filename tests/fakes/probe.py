"""
A platform in memory: an adapter that shows what it was given, and a wire that answers by a script.

A request is `probe:WAY`, its body JSON of text, key, way and token. The wire answers with the next
step of its script (the last one again and again): an error is raised, a response given back.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from wakebus.adapters.base import (
    Capabilities,
    ChannelResult,
    File,
    Outgoing,
    Part,
    Progress,
    Request,
    Response,
    Sent,
    Target,
    Token,
)
from wakebus.adapters.delivery.access_tokens import TokenCache
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.chat_lookup import ChatLookups
from wakebus.adapters.delivery.context import DeliveryContext, MemoryRecord
from wakebus.adapters.delivery.deliver import deliver
from wakebus.adapters.delivery.split_cache import SplitCache
from wakebus.adapters.errors import DeliveryError, Held, Result

TARGET = Target("probe", "alice")
OK = Response(200, b"m")


class Probe:
    """One way, no token; `build` and `parse` may be replaced."""

    capabilities: ClassVar = Capabilities(max_text=20)

    def __init__(self, env: Any = None, **steps: Callable[..., Any]) -> None:
        self.steps = steps

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        return Target("probe", chat_id, thread)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        if step := self.steps.get("build"):
            found: Request = step()
            return found
        shown = {"text": outgoing.text, "key": outgoing.key, "way": outgoing.way}
        body = shown | {"token": outgoing.token, "at": outgoing.at}
        return Request(f"probe:{outgoing.way}", json.dumps(body).encode())

    def parse_response(self, response: Response) -> Sent:
        if step := self.steps.get("parse"):
            found: Sent = step()
            return found
        return Sent(response.body.decode())


class Keyed(Probe):
    """A platform whose keys are good for 100 s."""

    capabilities: ClassVar = Capabilities(max_text=20, idempotent_s=100)


class Ways(Probe):
    """Three ways; `last` keeps a key for 100 s, the others none."""

    names: Sequence[str] = ("first", "second", "last")

    def ways(self, target: Target, outgoing: Outgoing) -> Sequence[str]:
        return self.names

    def key_time(self, target: Target, way: str) -> float:
        return 100.0 if way == "last" else 0.0


class Tokened(Keyed):
    """A platform with an access token: `probe:token` gets one, whose text is the answer's body."""

    def token_request(self, way: str) -> Request | None:
        return Request("token:ask", b"hush")

    def parse_token(self, response: Response) -> Token:
        return Token(response.body.decode(), 7200.0)


class Finder(Probe):
    """A platform that asks for a chat's id: `@NAME` leads to whatever the answer says."""

    def lookup(self, target: Target) -> Request | None:
        return Request(f"look:{target.chat_id}") if target.chat_id.startswith("@") else None

    def parse_lookup(self, target: Target, response: Response) -> Target:
        return replace(target, chat_id=response.body.decode())

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        return to_chat(super().build_request(target, outgoing), target)


def to_chat(request: Request, target: Target) -> Request:
    """Return a probe's request that names its chat as well."""
    body = {**json.loads(request.body), "chat": target.chat_id}
    return replace(request, body=json.dumps(body).encode())


class Filer(Probe):
    """A platform that takes a file of 100 bytes in the request that shows it."""

    capabilities: ClassVar = Capabilities(max_text=20, max_file=100)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        request = super().build_request(target, outgoing)
        if (file := outgoing.file) is None:
            return request
        held = {"name": file.name, "ref": file.ref, "data": "" if file.ref else file.data.decode()}
        return replace(request, body=json.dumps({**json.loads(request.body), **held}).encode())


class Uploader(Filer):
    """A platform that takes it in two steps first: `up:where` names a place, `up:PLACE` takes."""

    def upload(self, target: Target, outgoing: Outgoing) -> Request | None:
        file = outgoing.file
        if file is None or file.stored:
            return None
        if file.ref:
            return Request(f"up:{file.ref}", file.data)
        return Request("up:where", headers={"token": outgoing.token})

    def parse_upload(self, file: File, response: Response) -> File:
        if file.ref:
            return replace(file, stored=True)
        return replace(file, ref=response.body.decode())


class FakePermit:
    """An admission that holds by a script of waits (None: it lets pass), and remembers."""

    def __init__(self, *waits: float | None) -> None:
        self.waits = list(waits)
        self.seen: list[object] = []

    def enter(self, left: int = 0) -> None:
        wait = self.waits.pop(0) if self.waits else None
        if wait is not None:
            self.seen.append(wait)
            raise Held("our own pace", retry_after=wait)
        self.seen.append("in")

    def begin(self) -> None:
        self.seen.append("begins")

    def report(self, error: DeliveryError | None) -> None:
        self.seen.append("out" if error is None else f"out: {error.text}")


class Wire:
    """A transport that remembers, and does the next step of its script; without one it takes."""

    def __init__(self, *script: object) -> None:
        self.script = list(script) or [OK]
        self.seen: list[Request] = []

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step = step(request)
        assert isinstance(step, Response)
        return step

    def of(self, field: str) -> list[Any]:
        """Return this field of every request, in order."""
        return [json.loads(request.body)[field] for request in self.seen]


class Host:
    """What a courier is to a delivery: a clock, waits that pass at once, a record of parts."""

    def __init__(self, *script: object, tokens: Wire | None = None) -> None:
        self.wire = Wire(*script)
        self.time = 1_000_000.0
        self.waits: list[float] = []
        self.stops_after = 10**9  # waits
        self.record = MemoryRecord()
        self.look, self.up = Wire(), Wire()
        self.performers = {"probe": self.wire, "token": tokens or Wire(Response(200, b"t-1"))}
        self.performers |= {"look": self.look, "up": self.up}
        self.tokens = TokenCache(lambda: self.time)
        self.lookups = ChatLookups(lambda: self.time)
        self.permit = FakePermit()
        self.splits = SplitCache()

    def sleep(self, seconds: float) -> bool:
        """Let the time pass; say whether the host stops."""
        self.time += seconds
        if seconds:
            self.waits.append(seconds)
        return len(self.waits) >= self.stops_after

    def send(
        self,
        adapter: Probe,
        text: str = "hi",
        target: Target = TARGET,
        *,
        record: Progress | None = None,
        **more: Any,
    ) -> ChannelResult:
        """Deliver once, with what earlier deliveries left; `more`: of the message."""
        context = DeliveryContext(
            self.performers,
            self.tokens,
            self.lookups,
            self.splits,
            lambda: self.time,
            self.sleep,
            self.permit,
            record or self.record,
        )
        return deliver(GuardedAdapter(adapter, target), Outgoing(text, "k", **more), context)

    def parts(self) -> Mapping[int, tuple[str, str]]:
        """Return state and id of every part that the record holds."""
        return {number: (part.state, part.id) for number, part in self.record.parts().items()}

    def left(self, number: int, first: float) -> None:
        """Make it so that an earlier delivery left this part begun."""
        self.record.begin_part(number, first)


class Broken:
    """A record whose disk is gone: what is named so raises."""

    def __init__(self, what: str) -> None:
        self.what = what

    def _do(self, what: str) -> None:
        if what == self.what:
            raise OSError("disk: hush-7f3a")

    def parts(self) -> Mapping[int, Part]:
        self._do("parts")
        return {}

    def chat_token(self) -> str:
        return ""

    def begin_part(self, number: int, now: float, chat_token: str = "") -> None:
        self._do("begin_part")

    def end_part(self, number: int, result: Result, id: str = "") -> None:
        self._do("end_part")


def raises(error: Exception | type[DeliveryError]) -> Callable[..., Any]:
    """Return a step that raises."""

    def step(*_: Any) -> Any:
        raise error

    return step
