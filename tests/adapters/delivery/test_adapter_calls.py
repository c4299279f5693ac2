"""Calls into an adapter."""

from typing import Any

import pytest

from fakes.probe import TARGET, Filer, Keyed, Probe, Tokened, Uploader, Ways, raises
from wakebus.adapters.base import File, Outgoing, Token
from wakebus.adapters.delivery import adapter_calls as calls
from wakebus.adapters.errors import (
    BadSetting,
    BrokenAdapter,
    Rejected,
    Unavailable,
)

TEXT = Outgoing("hi", "k")


def test_guarded() -> None:
    """ADP-5.5: what was raised on purpose stays; a bug is named without its text."""
    assert calls.guarded("probe", lambda: 1) == 1
    with pytest.raises(BadSetting):
        calls.guarded("probe", raises(BadSetting("no")))
    with pytest.raises(BrokenAdapter, match=r"'probe' failed: KeyError at probe\.py:\d+$"):
        calls.guarded("probe", raises(KeyError("hush")))


def test_kept() -> None:
    """ADP-5.9: a record that fails stops what would have begun."""
    with pytest.raises(Unavailable, match="record"):
        calls.kept(raises(OSError("hush")))
    with pytest.raises(Rejected):
        calls.kept(raises(Rejected("no")))


def test_measure() -> None:
    """ADP-5.7: the adapter's own measure, else the card's unit."""
    assert calls.measure_of(Probe())("中😀") == 2

    class Doubled(Probe):
        def measure(self, text: str) -> int:
            return 2 * len(text)

    assert calls.measure_of(Doubled())("中😀") == 4


def test_ways() -> None:
    """ADP-5.11: an adapter without ways has one; a bug in it is its own."""
    assert calls.ways_of(Probe(), TARGET, TEXT) == [""]
    assert calls.ways_of(Ways(), TARGET, TEXT) == ["first", "second", "last"]

    class Crooked(Ways):
        def ways(self, *_: Any) -> Any:
            raise KeyError("hush")

    with pytest.raises(BrokenAdapter):
        calls.ways_of(Crooked(), TARGET, TEXT)


def test_key_time() -> None:
    """ADP-5.10: by way, else the card's; 0 where the adapter fails to say."""
    assert calls.key_time(Keyed(), TARGET, "") == 100
    assert calls.key_time(Ways(), TARGET, "last") == 100

    class Crooked(Ways):
        def key_time(self, *_: Any) -> Any:
            raise KeyError("hush")

    assert calls.key_time(Crooked(), TARGET, "last") == 0


def test_tokens() -> None:
    """ADP-5.12: only of adapters that need one, and only a token is one."""
    assert calls.token_request(Probe(), TARGET, "") is None
    assert calls.token_request(Tokened(), TARGET, "") is not None
    assert calls.checked(Token("t", 1)).value == "t"
    for none in (None, Token(""), Token(7), "t"):  # type: ignore[arg-type]
        with pytest.raises(Unavailable):
            calls.checked(none)  # type: ignore[arg-type]


def test_parsed() -> None:
    """ADP-5.5: what is no target, or of no adapter, is a bug to whoever asks for one."""
    assert calls.parsed(Probe(), "bob", None).chat_id == "bob"

    class Crooked(Probe):
        def parse_target(self, chat_id: str, thread: str | None) -> Any:
            return chat_id

    with pytest.raises(TypeError):
        calls.parsed(Crooked(), "bob", None)


def test_upload() -> None:
    """ADP-5.24: None for an adapter that brings nothing anywhere; a bug in it is its own."""
    outgoing = Outgoing("", "k", file=File("a", b"x"))
    assert calls.upload(Filer(), TARGET, outgoing) is None
    assert calls.upload(Uploader(), TARGET, outgoing) is not None
    assert calls.upload(Uploader(), TARGET, TEXT) is None

    class Crooked(Uploader):
        def upload(self, *_: Any) -> Any:
            raise KeyError("hush")

    with pytest.raises(BrokenAdapter):
        calls.upload(Crooked(), TARGET, outgoing)
