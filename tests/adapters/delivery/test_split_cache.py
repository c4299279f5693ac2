"""How long texts that are under way were split."""

import pytest

from fakes.probe import OK, FakePermit, Host, Probe
from wakebus.adapters.delivery import split_cache
from wakebus.adapters.delivery.split_cache import SplitCache
from wakebus.adapters.errors import Rejected


class Maker:
    """Splits into words; counts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls = 0

    def __call__(self) -> list[str]:
        self.calls += 1
        return self.text.split()


def test_split_once() -> None:
    """ADP-5.7: the same message and text; another text under its key is another."""
    kept, one, other = SplitCache(), Maker("a b"), Maker("c d")
    assert [kept.get("k", "a b", one) for _ in range(2)] == [["a", "b"]] * 2
    assert one.calls == 1
    assert kept.get("k", "c d", other) == ["c", "d"]
    assert kept.get("k", "a b", one) == ["a", "b"] and one.calls == 2


def test_what_is_not_kept() -> None:
    """ADP-5.7: a text of one part, and one that is too long."""
    kept, one = SplitCache(), Maker("a")
    assert [kept.get("k", "a", one) for _ in range(2)] == [["a"]] * 2
    assert one.calls == 2

    def fail() -> list[str]:
        raise Rejected("too long")

    with pytest.raises(Rejected):
        kept.get("k", "x", fail)


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.7: in texts and in characters; the oldest goes."""
    monkeypatch.setattr(split_cache, "MOST", 2)
    monkeypatch.setattr(split_cache, "MOST_CHARACTERS", 10)
    kept, maker = SplitCache(), Maker("a b")
    for key in ("1", "2", "3"):
        kept.get(key, "a b", maker)
    assert maker.calls == 3
    kept.get("3", "a b", maker)
    kept.get("2", "a b", maker)
    assert maker.calls == 3
    kept.get("4", "x" * 9, maker)  # pushes out both
    kept.get("3", "a b", maker)
    kept.get("5", "x" * 11, maker)  # more than all may have
    kept.get("3", "a b", maker)
    assert maker.calls == 7


def test_a_text_that_is_held_between_its_parts() -> None:
    """ADP-5.7: each delivery of it goes on without measuring it again."""
    measured: list[str] = []

    class Slow(Probe):
        def measure(self, text: str) -> int:
            measured.append(text)
            return len(text)

    host, text = Host(OK), "one two three four five six seven eight nine ten"
    host.permit = FakePermit(None, 7.0, None, 7.0, None)
    assert [host.send(Slow(), text).done for _ in range(3)] == [1, 2, 3]
    assert host.wire.of("key") == ["k.1", "k.2", "k.3"]
    once = len(measured)
    assert host.send(Slow(), text).result == "sent" and len(measured) == once
