"""Until when platforms asked to wait."""

import pytest

from wakebus.adapters.pacing import cooldowns as module
from wakebus.adapters.pacing.cooldowns import Shut, Shuts

CHAT, APP = ("x", "a"), ("x",)


def test_the_longest_counts() -> None:
    """ADP-6.17: of chat and app, and of two answers; an hour at most."""
    shuts = Shuts()
    shuts.ask(CHAT, 9.0, 0.0, "nine")
    shuts.ask(CHAT, 3.0, 1.0, "three")
    shuts.ask(APP, 5.0, 0.0, "five")
    assert shuts.of([APP, CHAT], 4.0) == Shut(9.0, "nine")
    assert shuts.of([APP], 4.0) == Shut(5.0, "five")
    assert shuts.of([APP, CHAT], 9.0).until == 0.0
    shuts.ask(APP, 1e9, 0.0)
    assert shuts.of([APP], 1.0).until == 3600.0


def test_the_words() -> None:
    """ADP-6.20: as they are shown, of what is shut."""
    shuts = Shuts()
    shuts.ask(CHAT, 9.0, 0.0)
    shuts.say(CHAT, "slow down")
    shuts.say(APP, "nothing to say it of")
    assert shuts.of([APP, CHAT], 0.0) == Shut(9.0, "slow down")


def test_what_is_kept() -> None:
    """ADP-6.28: long ones, and what is left of them afterwards."""
    shuts, later = Shuts(), Shuts()
    shuts.ask(CHAT, 60.0, 100.0)
    shuts.ask(APP, 9.9, 100.0)
    assert shuts.changed and shuts.long(105.0) == {CHAT: 55.0}
    assert not shuts.changed
    later.restore({CHAT: 50.0, APP: -1.0}, 7.0)
    assert later.of([CHAT], 7.0).until == 57.0 and later.of([APP], 7.0).until == 0.0
    assert not later.changed


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.17: so many chats; the oldest goes, and asks once more."""
    monkeypatch.setattr(module, "MOST", 3)
    monkeypatch.setattr(module, "MOST_LONG", 2)
    shuts = Shuts()
    for n in range(9):
        shuts.ask(("x", str(n)), 60.0, 0.0)
    assert list(shuts.long(0.0)) == [("x", "7"), ("x", "8")]
    assert shuts.of([("x", "5")], 0.0).until == 0.0
