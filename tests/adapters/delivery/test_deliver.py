"""One delivery."""

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fakes.probe import OK, TARGET, Host, Probe, Wire, raises
from wakebus.adapters.base import Outgoing, Response, Sent
from wakebus.adapters.channel import parse
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.context import DeliveryContext
from wakebus.adapters.delivery.deliver import (
    deliver,
    outgoing_of,
    parts_of,
    result_of,
    session_webhook,
)
from wakebus.adapters.delivery.split_cache import SplitCache
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
from wakebus.adapters.platforms.console import Console

HUSH = "hush-7f3a"


def go(adapter: Probe, *script: object, text: str = "hi") -> Any:
    return Host(*script).send(adapter, text)


def test_sent() -> None:
    """ADP-5.4: success is `sent`, with the platform's id and the chat."""
    result = go(Probe(), Response(200, b"m1"))
    assert (result.result, result.platform, result.chat, result.id) == (
        "sent",
        "probe",
        "probe:alice",
        "m1",
    )
    assert (result.done, result.parts, result.again) == (1, 1, False)


def test_the_text_is_cleaned_first() -> None:
    """ADP-5.1: the adapter gets the text without escapes, and measured without them."""
    host = Host()
    assert host.send(Probe(), "\x1b[1;31m" * 9 + "red\u202e").result == "sent"
    assert host.wire.of("text") == ["red"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no text"),
        (" \x1b[0m\n", "no text"),
        ("\u2800 \n\u2800", "no text"),
        ("x" * 1001, "1001 characters"),
    ],
)
def test_nothing_and_too_much(text: str, named: str) -> None:
    """ADP-5.2: no text, and one of more than 50 parts, is rejected before any request."""
    host = Host()
    result = host.send(Probe(), text)
    assert (result.result, host.wire.seen) == ("rejected", [])
    assert named in result.reason


def test_what_goes_out() -> None:
    """ADP-5.8: every part knows its key and the whole that it is a part of."""
    message = Outgoing("one two three four five six", "k", webhook="https://hook")
    parts = parts_of(GuardedAdapter(Probe(), TARGET), message, SplitCache())
    assert [(part.text, part.key) for part in parts] == [
        ("one two three four ", "k.1"),
        ("five six", "k.2"),
    ]
    assert {part.whole for part in parts} == {"one two three four five six"}
    assert {part.webhook for part in parts} == {"https://hook"}


@pytest.mark.parametrize(
    ("error", "word", "wait"),
    [
        (Rejected("no"), "rejected", None),
        (BadTarget("no"), "rejected", None),
        (Throttled("fast", retry_after=17), "not_sent", 17),
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
    for result in (go(Probe(), error), go(Probe(parse=raises(error)))):
        assert (result.result, result.retry_after) == (word, wait)
        assert result.reason == error.text
        assert result.chat == "probe:alice"
        assert result.again == (word == "not_sent")


def test_a_bug_before_the_request() -> None:
    """ADP-5.5: a bug in build_request is `rejected`: nothing was performed."""
    host = Host()
    result = host.send(Probe(build=raises(ZeroDivisionError(HUSH))))
    assert (result.result, host.wire.seen) == ("rejected", [])
    assert "'probe' failed: ZeroDivisionError at probe.py:" in result.reason


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
    result = go(probe)
    assert result.result == "uncertain"
    assert "'probe' failed" in result.reason and HUSH not in result.reason


def test_a_bug_on_the_wire() -> None:
    """ADP-5.5: an unforeseen error of a transport is `uncertain`, shown without its text."""
    result = go(Probe(), OSError(f"https://host/bot{HUSH}/send"))
    assert result.result == "uncertain" and HUSH not in result.reason


def test_a_bug_in_the_measure() -> None:
    """ADP-5.5: also while it is split."""

    class Crooked(Probe):
        def measure(self, text: str) -> int:
            raise KeyError(HUSH)

    result = go(Crooked())
    assert result.result == "rejected" and HUSH not in result.reason


def test_the_session_webhook_is_never_shown() -> None:
    """ADP-5.14: a platform's reason that repeats the webhook is shown without it."""
    hook = "https://example.org/hook?session=hush"
    host = Host(Rejected(f"cannot post to {hook}"))
    assert host.send(Probe(), webhook=hook).reason == "cannot post to ***"


def test_a_bug_of_the_host() -> None:
    """ADP-5.5: a delivery raises nothing, whatever breaks around it."""
    context = DeliveryContext({"probe": Wire()}, now=raises(OSError(HUSH)))
    result = deliver(GuardedAdapter(Probe(), TARGET), Outgoing("hi", "k"), context)
    assert result.result == "uncertain" and "OSError at probe.py" in result.reason
    assert HUSH not in result.reason


@pytest.mark.parametrize(
    ("held", "good"),
    [
        ({"url": "https://a/b", "expires_at": 101.0}, True),
        ({"url": "https://a/b", "expires_at": 100.0}, False),
        ({"url": "https://a/b", "expires_at": "9e9"}, False),
        ({"url": "https://a/b", "expires_at": True}, False),
        ({"url": "https://a/b"}, False),
        ({"url": 7, "expires_at": 101.0}, False),
        ("https://a/b", False),
        (None, False),
    ],
)
def test_session_webhook(held: object, good: bool) -> None:
    """ADP-6.13: an object with a URL and the time when it ends, and only until then."""
    found = session_webhook({"session_webhook": held}, 100.0)
    assert found == ("https://a/b" if good else None)


def test_what_a_message_asks_for() -> None:
    """ADP-6.13, ADP-6.25: of its body what is answered and, while it is good, the webhook."""
    hook = {"url": "https://a/b", "expires_at": 101.0}
    asked = outgoing_of("hi", "k", {"reply_to": "m7", "session_webhook": hook}, 100.0)
    assert asked == Outgoing("hi", "k", reply_to="m7", webhook="https://a/b")
    assert outgoing_of("hi", "k", {}, 100.0) == Outgoing("hi", "k")
    with pytest.raises(Rejected):
        outgoing_of("hi", "k", {"reply_to": 7}, 100.0)


def test_without_a_record() -> None:
    """ADP-5.9: a delivery that nobody remembers still knows its own parts."""
    wire, message = Wire(), Outgoing("one two three four five six", "k")
    result = deliver(GuardedAdapter(Probe(), TARGET), message, DeliveryContext({"probe": wire}))
    assert (result.result, result.parts, len(wire.seen)) == ("sent", 2, 2)
    assert wire.script == [OK]


def test_reasons_are_clean_lines() -> None:
    """A platform's own error text is one clean line in outcome, log and terminal."""
    result = result_of(Rejected("a\n\x1b[31mb" + "c" * 999))
    assert result.reason.startswith("a bccc") and len(result.reason) == 500


def load(kind: Any) -> Callable[[str], Any]:
    return lambda platform: kind


def test_resolve() -> None:
    """ADP-7.1: a token becomes adapter and chat, a bare platform its home channel."""
    chat = GuardedAdapter.resolve(parse("console"), {"CONSOLE_HOME_CHANNEL": "console:alice"})
    assert isinstance(chat.adapter, Console) and chat.token == "console:alice"


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
        GuardedAdapter.resolve(parse(token), {})


def test_an_adapter_that_cannot_be_built() -> None:
    """ADP-5.5: a missing setting is named; a bug in the constructor is the adapter's, by name."""
    with pytest.raises(BadSetting, match="PROBE_TOKEN"):
        GuardedAdapter.resolve(
            parse("probe:a"), {}, load(raises(BadSetting("PROBE_TOKEN is not set")))
        )
    with pytest.raises(BrokenAdapter, match="'probe' failed: KeyError") as caught:
        GuardedAdapter.resolve(parse("probe:a"), {}, load(raises(KeyError(HUSH))))
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
        GuardedAdapter.resolve(parse("probe:a"), {}, load(kind))


def test_asking_for_an_address_is_cheap() -> None:
    """A command that only checks a channel does not load the HTTP client (0.1 s and more)."""
    code = "import sys, wakebus.adapters.delivery.deliver; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, timeout=60)
    assert done.stdout.strip() == b"False", done.stderr
