"""One platform that hangs does not take all places."""

import pytest

from wakebus.adapters.pacing.bulkhead import LONGEST_S, MOST, MOST_FRESH, Bulkhead


def full(at: float | None = None) -> Bulkhead:
    """Return a bulkhead as full as it may be; the platform answered at `at`."""
    bulkhead = Bulkhead()
    bulkhead.release("first", at)
    for number in range(MOST):
        assert bulkhead.wait(f"k{number}", 100.0) == 0.0
        bulkhead.acquire(f"k{number}")
    return bulkhead


def test_a_platform_without_an_answer() -> None:
    """ADP-6.22: half of the courier's places are its own; the next one waits until one ends."""
    bulkhead = full()
    assert bulkhead.wait("more", 100.0) > 1.0
    assert bulkhead.wait("k0", 100.0) == 0.0
    bulkhead.release("k0", None)
    assert bulkhead.wait("more", 100.0) == 0.0


def test_a_platform_that_answers() -> None:
    """ADP-6.22: it may have more while its last answer is fresh."""
    assert full(at=99.5).wait("more", 100.0) == 0.0
    assert full(at=98.5).wait("more", 100.0) > 0


def test_a_platform_that_answered_a_moment_ago() -> None:
    """ADP-6.22: three quarters at most: what hangs all of a sudden leaves places to the others."""
    bulkhead = full(at=100.0)
    for number in range(MOST, MOST_FRESH):
        assert bulkhead.wait(f"k{number}", 100.0) == 0.0
        bulkhead.acquire(f"k{number}")
    assert 0 < bulkhead.wait("more", 100.0) < 1.0
    assert bulkhead.wait("k0", 100.0) == 0.0
    bulkhead.release("k0", 100.1)
    assert bulkhead.wait("more", 100.1) == 0.0


def test_who_waits_for_a_healthy_platform() -> None:
    """ADP-6.22: each has a turn of his own, one after the other as fast as it answers."""
    bulkhead, now = full(at=100.0), 100.0
    for number in range(MOST, MOST_FRESH):
        bulkhead.acquire(f"k{number}")
    for number in range(1000):
        now += 0.1
        bulkhead.release(f"k{number % MOST_FRESH}", now)
        bulkhead.acquire(f"k{number % MOST_FRESH}")
    waits = [bulkhead.wait(f"more{number}", now) for number in range(100)]
    assert waits == pytest.approx([0.1 * number for number in range(1, 101)])
    assert max(bulkhead.wait(f"many{number}", now) for number in range(1000)) == LONGEST_S


def test_many_who_wait() -> None:
    """ADP-6.22: they ask the more rarely, the more they are; an answer lets them in."""
    bulkhead = full()
    waits = [bulkhead.wait(f"more{number}", 100.0) for number in range(1000)]
    assert waits == sorted(waits) and waits[-1] == LONGEST_S
    bulkhead.release("k0", 100.0)
    assert bulkhead.wait("more", 100.5) == 0.0


def test_several_hosts_that_hang() -> None:
    """ADP-6.37: together they leave a quarter; a host that is not tried yet gets its first."""
    dead, other, fresh = full(), Bulkhead(), Bulkhead()
    other.acquire("o1")
    silent = dead.silent(100.0) + other.silent(100.0)
    assert silent == MOST + 1 and other.wait("o2", 100.0, silent) == 0.0
    assert other.wait("o2", 100.0, MOST_FRESH) > 0 and other.wait("o1", 100.0, MOST_FRESH) == 0.0
    assert Bulkhead().wait("first", 100.0, 64) == 0.0
    fresh.release("", 100.0)
    fresh.acquire("f1")
    assert fresh.silent(100.5) == 0 and fresh.wait("f2", 100.5, 64) == 0.0
    assert fresh.silent(102.0) == 1
