"""One platform that hangs does not take all places."""

import pytest

from wakebus.adapters.pacing.bulkhead import LONGEST_S, MOST, MOST_FRESH, Crowd


def full(at: float | None = None) -> Crowd:
    """Return a crowd as large as it may be; the platform answered at `at`."""
    crowd = Crowd()
    crowd.leave("first", at)
    for number in range(MOST):
        assert crowd.wait(f"k{number}", 100.0) == 0.0
        crowd.enter(f"k{number}")
    return crowd


def test_a_platform_without_an_answer() -> None:
    """ADP-6.22: half of the courier's places are its own; the next one waits until one ends."""
    crowd = full()
    assert crowd.wait("more", 100.0) > 1.0
    assert crowd.wait("k0", 100.0) == 0.0
    crowd.leave("k0", None)
    assert crowd.wait("more", 100.0) == 0.0


def test_a_platform_that_answers() -> None:
    """ADP-6.22: it may have more while its last answer is fresh."""
    assert full(at=99.5).wait("more", 100.0) == 0.0
    assert full(at=98.5).wait("more", 100.0) > 0


def test_a_platform_that_answered_a_moment_ago() -> None:
    """ADP-6.22: three quarters at most: what hangs all of a sudden leaves places to the others."""
    crowd = full(at=100.0)
    for number in range(MOST, MOST_FRESH):
        assert crowd.wait(f"k{number}", 100.0) == 0.0
        crowd.enter(f"k{number}")
    assert 0 < crowd.wait("more", 100.0) < 1.0
    assert crowd.wait("k0", 100.0) == 0.0
    crowd.leave("k0", 100.1)
    assert crowd.wait("more", 100.1) == 0.0


def test_who_waits_for_a_healthy_platform() -> None:
    """ADP-6.22: each has a turn of his own, one after the other as fast as it answers."""
    crowd, now = full(at=100.0), 100.0
    for number in range(MOST, MOST_FRESH):
        crowd.enter(f"k{number}")
    for number in range(1000):
        now += 0.1
        crowd.leave(f"k{number % MOST_FRESH}", now)
        crowd.enter(f"k{number % MOST_FRESH}")
    waits = [crowd.wait(f"more{number}", now) for number in range(100)]
    assert waits == pytest.approx([0.1 * number for number in range(1, 101)])
    assert max(crowd.wait(f"many{number}", now) for number in range(1000)) == LONGEST_S


def test_many_who_wait() -> None:
    """ADP-6.22: they ask the more rarely, the more they are; an answer lets them in."""
    crowd = full()
    waits = [crowd.wait(f"more{number}", 100.0) for number in range(1000)]
    assert waits == sorted(waits) and waits[-1] == LONGEST_S
    crowd.leave("k0", 100.0)
    assert crowd.wait("more", 100.5) == 0.0
