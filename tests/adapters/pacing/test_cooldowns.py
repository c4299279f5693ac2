"""Until when platforms asked to wait."""

import pytest

from wakebus.adapters.pacing import cooldowns as module
from wakebus.adapters.pacing.cooldowns import Cooldown, Cooldowns

CHAT, APP = ("x", "a"), ("x",)


def test_the_longest_counts() -> None:
    """ADP-6.17: of chat and app, and of two answers; an hour at most."""
    cooldowns = Cooldowns()
    cooldowns.start(CHAT, 9.0, 0.0, "nine")
    cooldowns.start(CHAT, 3.0, 1.0, "three")
    cooldowns.start(APP, 5.0, 0.0, "five")
    assert cooldowns.latest([APP, CHAT], 4.0) == Cooldown(9.0, "nine")
    assert cooldowns.latest([APP], 4.0) == Cooldown(5.0, "five")
    assert cooldowns.latest([APP, CHAT], 9.0).until == 0.0
    cooldowns.start(APP, 1e9, 0.0)
    assert cooldowns.latest([APP], 1.0).until == 3600.0


def test_the_words() -> None:
    """ADP-6.20: as they are shown, of what holds."""
    cooldowns = Cooldowns()
    cooldowns.start(CHAT, 9.0, 0.0)
    cooldowns.explain(CHAT, "slow down")
    cooldowns.explain(APP, "nothing to say it of")
    assert cooldowns.latest([APP, CHAT], 0.0) == Cooldown(9.0, "slow down")


def test_what_is_kept() -> None:
    """ADP-6.28: long ones, and what is left of them afterwards."""
    cooldowns, later = Cooldowns(), Cooldowns()
    cooldowns.start(CHAT, 60.0, 100.0)
    cooldowns.start(APP, 9.9, 100.0)
    assert cooldowns.changed and cooldowns.long(105.0) == {CHAT: 55.0}
    assert not cooldowns.changed
    later.restore({CHAT: 50.0, APP: -1.0}, 7.0)
    assert later.latest([CHAT], 7.0).until == 57.0 and later.latest([APP], 7.0).until == 0.0
    assert not later.changed


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.17: so many chats; the oldest goes, and asks once more."""
    monkeypatch.setattr(module, "MOST", 3)
    monkeypatch.setattr(module, "MOST_LONG", 2)
    cooldowns = Cooldowns()
    for n in range(9):
        cooldowns.start(("x", str(n)), 60.0, 0.0)
    assert list(cooldowns.long(0.0)) == [("x", "7"), ("x", "8")]
    assert cooldowns.latest([("x", "5")], 0.0).until == 0.0
