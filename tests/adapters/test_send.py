"""One delivery."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from wakebus.adapters.base import Capabilities, Outgoing, Request, Response, Sent, Target
from wakebus.adapters.console import Console
from wakebus.adapters.errors import (
    BadChannel,
    BadSetting,
    BadTarget,
    BrokenAdapter,
    DeliveryError,
    Rejected,
    Throttled,
    Unavailable,
    Uncertain,
    UnknownAdapter,
)
from wakebus.adapters.send import address, deliver, result_of, transports

TARGET = Target("probe", "alice")
HUSH = "hush-7f3a"


class Probe:
    """A platform that does what it is told; each step may be replaced."""

    capabilities: ClassVar = Capabilities(max_text=20)

    def __init__(self, env: Any = None, **steps: Callable[..., Any]) -> None:
        self.steps = steps

    def parse_target(self, chat_id: str, thread: str | None) -> Target:
        return Target("probe", chat_id, thread)

    def build_request(self, target: Target, outgoing: Outgoing) -> Request:
        step = self.steps.get("build")
        return step() if step else Request("probe:x", outgoing.text.encode())

    def parse_response(self, response: Response) -> Sent:
        step = self.steps.get("parse")
        return step() if step else Sent(response.body.decode())


def raises(error: Any) -> Callable[..., Any]:
    def step(*_: Any) -> Any:
        raise error

    return step


class Wire:
    """A transport that counts, and answers what it got; or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.seen: list[Request] = []

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        if self.error:
            raise self.error
        return Response(200, request.body)


def go(adapter: Probe, wire: Wire, text: str = "hi") -> Any:
    return deliver(adapter, TARGET, Outgoing(text, "k1"), {"probe": wire})


def test_sent() -> None:
    """ADP-5.4: success is `sent`, with the platform's id and the chat."""
    result = go(Probe(), Wire())
    assert (result.word, result.platform, result.chat, result.id) == (
        "sent",
        "probe",
        "probe:alice",
        "hi",
    )


def test_the_text_is_cleaned_first() -> None:
    """ADP-5.1: the adapter gets the text without escapes, and measured without them."""
    wire = Wire()
    assert go(Probe(), wire, "\x1b[1;31m" * 9 + "red\u202e").word == "sent"
    assert wire.seen[0].body == b"red"


@pytest.mark.parametrize(
    ("text", "named"), [("", "no text"), (" \x1b[0m\n", "no text"), ("x" * 21, "has 21")]
)
def test_nothing_and_too_much(text: str, named: str) -> None:
    """ADP-5.2: no text and too long a text are rejected before any request."""
    wire = Wire()
    result = go(Probe(), wire, text)
    assert (result.word, wire.seen) == ("rejected", [])
    assert named in result.reason


@pytest.mark.parametrize(
    ("error", "word", "wait"),
    [
        (Rejected("no"), "rejected", None),
        (BadTarget("no"), "rejected", None),
        (Throttled("fast", retry_after=7), "not_sent", 7),
        (Throttled("fast"), "not_sent", None),
        (Throttled("fast", retry_after=math.nan), "not_sent", None),
        (Throttled("fast", retry_after=-1), "not_sent", None),
        (Throttled("fast", retry_after="5"), "not_sent", None),  # type: ignore[arg-type]
        (Throttled("fast", retry_after=10**9), "not_sent", 3600),
        (Unavailable("down"), "not_sent", None),
        (Uncertain("timed out"), "uncertain", None),
    ],
)
def test_words(error: DeliveryError, word: str, wait: float | None) -> None:
    """ADP-5.3, ADP-5.4: each delivery error is its word, from the wire or from the answer."""
    for result in (go(Probe(), Wire(error)), go(Probe(parse=raises(error)), Wire())):
        assert (result.word, result.retry_after) == (word, wait)
        assert result.reason == error.text
        assert result.chat == "probe:alice"


def test_a_bug_before_the_request() -> None:
    """ADP-5.5: a bug in build_request is `rejected`: nothing was performed."""
    wire = Wire()
    result = go(Probe(build=raises(ZeroDivisionError(HUSH))), wire)
    assert (result.word, wire.seen) == ("rejected", [])
    assert "'probe' failed: ZeroDivisionError at test_send.py:" in result.reason


@pytest.mark.parametrize(
    "probe",
    [
        Probe(parse=raises(KeyError(HUSH))),
        Probe(parse=lambda: None),
        Probe(parse=lambda: Sent(7)),  # type: ignore[arg-type]
        Probe(parse=raises(RecursionError(HUSH))),
    ],
)
def test_a_bug_after_the_request(probe: Probe) -> None:
    """ADP-5.5: a bug in parse_response is `uncertain`: it may have been accepted."""
    result = go(probe, Wire())
    assert result.word == "uncertain"
    assert "'probe' failed" in result.reason and HUSH not in result.reason


def test_a_bug_on_the_wire() -> None:
    """ADP-5.5: an unforeseen error of a transport is `uncertain`, shown without its text."""
    result = go(Probe(), Wire(OSError(f"https://host/bot{HUSH}/send")))
    assert result.word == "uncertain" and HUSH not in result.reason


def test_no_transport() -> None:
    """A request in a scheme that nothing speaks is rejected by name."""
    result = go(Probe(build=lambda: Request("gopher://x")), Wire())
    assert result.word == "rejected" and "gopher" in result.reason


def test_reasons_are_clean_lines() -> None:
    """A platform's own error text is one clean line in outcome, log and terminal."""
    result = result_of(Rejected("a\n\x1b[31mb" + "c" * 999))
    assert result.reason.startswith("a bccc") and len(result.reason) == 500


def load(kind: Any) -> Callable[[str], Any]:
    return lambda platform: kind


def test_address() -> None:
    """ADP-7.1: a token becomes adapter and chat, a bare platform its home channel."""
    adapter, target = address("console", {"CONSOLE_HOME_CHANNEL": "console:alice"})
    assert isinstance(adapter, Console) and str(target) == "console:alice"


@pytest.mark.parametrize(
    ("token", "error", "named"),
    [
        ("consol", UnknownAdapter, "did you mean console"),
        ("console", BadChannel, "CONSOLE_HOME_CHANNEL is not set"),
        ("console:a/b", BadTarget, "a/b"),
        ("console:a?thread=1", BadTarget, "no threads"),
        ("console:", BadChannel, "no chat id"),
    ],
)
def test_bad_addresses(token: str, error: type[DeliveryError], named: str) -> None:
    """ADP-7.5: an unknown platform is said before a missing home channel; each names its part."""
    with pytest.raises(error, match=named):
        address(token, {})


def test_an_adapter_that_cannot_be_built() -> None:
    """ADP-5.5: a missing setting is named; a bug in the constructor is the adapter's, by name."""
    with pytest.raises(BadSetting, match="PROBE_TOKEN"):
        address("probe:a", {}, load(raises(BadSetting("PROBE_TOKEN is not set"))))
    with pytest.raises(BrokenAdapter, match="'probe' failed: KeyError") as caught:
        address("probe:a", {}, load(raises(KeyError(HUSH))))
    assert HUSH not in caught.value.text


class NoCard:
    """An entry point that leads to something else than an adapter."""

    def __init__(self, env: object) -> None: ...

    def parse_target(self, chat_id: str, thread: str | None) -> str:
        return chat_id


@pytest.mark.parametrize("kind", [NoCard, dict, "text", lambda env: None])
def test_what_is_no_adapter(kind: object) -> None:
    """ADP-5.5: an entry point that leads to no adapter is named; the courier lives."""
    with pytest.raises(BrokenAdapter, match="'probe' failed"):
        address("probe:a", {}, load(kind))


def test_transports(tmp_path: Path) -> None:
    """The schemes that this step speaks."""
    assert set(transports(tmp_path)) == {"console"}
