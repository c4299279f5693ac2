"""Whose turn it is in a chat."""

import pytest

from wakebus.adapters.pacing import chat_lease
from wakebus.adapters.pacing.chat_lease import (
    EXPIRE_S,
    LONG_S,
    LONGEST_S,
    LOST_S,
    SOON_S,
    ChatLeases,
)


def go(leases: ChatLeases, key: str, left: int, now: float, gap: float = 1.0) -> float:
    """Let a part go if it may; return 0.0 then, else the wait."""
    wait = leases.wait("a", key, left, now)
    if not wait:
        leases.acquire("a", key, left, now, gap)
    return wait


def test_two_long_texts() -> None:
    """ADP-6.27: the second waits until the first is through; another chat does not."""
    leases = ChatLeases()
    assert go(leases, "A", 3, 0.0) == 0.0
    assert 3.0 <= go(leases, "B", 3, 0.0) < 3.1
    assert leases.wait("b", "B", 3, 0.0) == 0.0
    assert [go(leases, "A", left, 3.0 - left) for left in (2, 1)] == [0.0, 0.0]
    assert go(leases, "B", 3, 2.1) > 0
    leases.release("a", "A", None, 2.2)
    assert go(leases, "B", 3, 3.0) == 0.0
    leases.release("a", "B", None, 4.0)
    assert len(leases) == 0


def test_texts_of_one_part_own_nothing() -> None:
    """ADP-6.27: they go side by side, and wait only for one that owns."""
    leases = ChatLeases()
    assert [go(leases, key, 1, 0.0) for key in "CDE"] == [0.0] * 3 and len(leases) == 0
    assert go(leases, "A", 2, 0.0) == 0.0
    assert go(leases, "C", 1, 0.0) > 0
    leases.release("a", "A", None, 1.0)
    assert [go(leases, key, 1, 1.0) for key in "DC"] == [0.0] * 2


@pytest.mark.parametrize(
    ("again", "until"), [(None, 0.0), (LONG_S + 1, 0.0), (5.0, 5.0 + LONG_S), (0.0, LONG_S)]
)
def test_put_off(again: float | None, until: float) -> None:
    """ADP-6.27: for a short time the chat stays its own, and not for ever."""
    leases = ChatLeases()
    go(leases, "A", 3, 0.0)
    leases.release("a", "A", again, 0.0)
    assert bool(until) == (leases.wait("a", "B", 0, until - 0.1) > 0)
    assert leases.wait("a", "B", 0, until) == 0.0


def test_one_that_is_not_heard_of() -> None:
    """ADP-6.27: a minute after its last part another begins; the rest of it comes behind."""
    leases = ChatLeases()
    go(leases, "A", 3, 0.0)
    assert go(leases, "B", 2, LOST_S - 1) > 0
    assert go(leases, "B", 2, LOST_S) == 0.0
    assert go(leases, "A", 2, LOST_S) > 0
    leases.release("a", "A", None, LOST_S)  # not its own any more
    assert go(leases, "A", 2, LOST_S) > 0


def test_long_texts_in_a_row() -> None:
    """ADP-6.27: who waits goes before the owner's next one, unless he does not come."""
    for comes in (True, False):
        leases = ChatLeases()
        go(leases, "A1", 2, 0.0)
        wait = go(leases, "B", 2, 0.0)
        leases.release("a", "A1", None, 0.1)
        assert 0 < go(leases, "A2", 2, 0.2) <= SOON_S + 1
        if comes:
            assert leases.wait("a", "B", 0, wait) == 0.0  # not known yet: it keeps its place
            assert go(leases, "B", 2, wait) == 0.0
            leases.release("a", "B", None, wait + 1)
            assert go(leases, "A2", 2, wait + 2) == 0.0
        else:
            assert go(leases, "A2", 2, wait + EXPIRE_S - 0.1) > 0
            assert go(leases, "A2", 2, wait + EXPIRE_S) == 0.0


def test_how_often_one_asks() -> None:
    """ADP-6.27: not before the owner may be through, and the later, the more there are."""
    leases = ChatLeases()
    go(leases, "A", 50, 0.0, gap=3.0)
    waits = [go(leases, f"m{n}", 1, 0.0) for n in range(60)]
    assert waits == sorted(waits) and waits[0] >= LONGEST_S and waits[-1] > waits[0] + 2
    assert go(leases, "A", 0, 1.0) == 0.0  # it does not say how many are left
    assert go(leases, "m99", 1, 1.0) >= LONGEST_S
    quick = ChatLeases()
    go(quick, "A", 2, 0.0, gap=0.01)
    assert go(quick, "B", 2, 0.0) == SOON_S


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.27: so many chats, so many that wait; what is forgotten only goes sooner."""
    monkeypatch.setattr(chat_lease, "MAX_CHATS", 3)
    monkeypatch.setattr(chat_lease, "MAX_WAITING", 3)
    leases = ChatLeases()
    for n in range(9):
        leases.acquire(f"c{n}", "A", 2, 0.0, 1.0)
        assert leases.wait("c8" if n == 8 else f"c{n}", f"B{n}", 2, 0.0) > 0
    assert len(leases) == 3
    assert [leases.wait("c8", f"D{n}", 2, 0.0) for n in range(9)][-1] < LONGEST_S
