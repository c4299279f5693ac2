"""One platform that hangs does not take all places."""

from wakebus.adapters.crowd import LONGEST_S, MOST, Crowd


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
    """ADP-6.22: it is not bounded while its last answer is fresh."""
    assert full(at=99.5).wait("more", 100.0) == 0.0
    assert full(at=98.5).wait("more", 100.0) > 0


def test_many_who_wait() -> None:
    """ADP-6.22: they ask the more rarely, the more they are; an answer lets them in."""
    crowd = full()
    waits = [crowd.wait(f"more{number}", 100.0) for number in range(1000)]
    assert waits == sorted(waits) and waits[-1] == LONGEST_S
    crowd.leave("k0", 100.0)
    assert crowd.wait("more", 100.5) == 0.0
