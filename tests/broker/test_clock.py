"""The two clocks."""

import time

from wakebus.broker.clock import Clock


def test_the_clocks_are_the_systems() -> None:
    """Seconds; one that people read, one that never jumps."""
    clock = Clock()
    assert abs(clock.wall() - time.time()) < 60
    assert clock.mono() <= clock.mono()


def test_a_test_may_bring_its_own() -> None:
    """The seam by which time jumps."""
    assert Clock(lambda: 1.0, lambda: 2.0).wall() == 1.0
