"""The clocks, and bus time at a start."""

import time

import pytest

from wakebus.broker.system.clock import OFF_MOST_S, Clock, Mark, bus_time

YEAR = 365 * 86400
LAST = Mark(bus=1_000_000.0, wall=1_000_500.0, up=50.0, boot="a")


def test_the_clocks_are_the_systems() -> None:
    """Seconds; one that people read, two that never jump, one of which counts sleep."""
    clock = Clock()
    assert abs(clock.wall() - time.time()) < 60
    assert clock.mono() <= clock.mono()
    assert clock.up() <= clock.up()


def test_a_test_may_bring_its_own() -> None:
    """The seam by which time jumps."""
    assert Clock(lambda: 1.0, lambda: 2.0).wall() == 1.0


def test_a_new_store_begins_with_the_wall_clock() -> None:
    """PROTOCOL-8.10: nothing in it has an age."""
    assert bus_time(None, None, 123.0, 5.0, "a") == 123.0


@pytest.mark.parametrize("wall", [0.0, 1_000_560.0, 1_000_560.0 + YEAR])
def test_in_one_boot_the_wall_clock_is_not_asked(wall: float) -> None:
    """PROTOCOL-8.10: the seconds that the machine was up are what passed."""
    assert bus_time(LAST, 1_000_001.0, wall, 110.0, "a") == LAST.bus + 60


@pytest.mark.parametrize(
    ("wall", "passed"),
    [
        (LAST.wall + 3600, 3600.0),
        (LAST.wall - YEAR, 0.0),
        (LAST.wall + YEAR, OFF_MOST_S),
    ],
)
def test_over_a_boot_it_tells_how_long_the_machine_was_off(wall: float, passed: float) -> None:
    """PROTOCOL-8.10: never less than nothing, and half a day at most."""
    assert bus_time(LAST, None, wall, 5.0, "b") == LAST.bus + passed


def test_time_never_goes_back_behind_what_is_stored() -> None:
    """PROTOCOL-8.10: the mark is written hourly, messages came after it."""
    later = LAST.bus + 7200
    assert bus_time(LAST, later, LAST.wall + 7200 + 60, 5.0, "b") == later + 60
    assert bus_time(LAST, later, LAST.wall, 5.0, "b") == later


def test_a_store_without_a_mark() -> None:
    """PROTOCOL-8.10: of the first version: its newest time stands for it."""
    assert bus_time(None, 5_000.0, 5_060.0, 5.0, "b") == 5_060.0
    assert bus_time(None, 5_000.0, 5_000.0 + YEAR, 5.0, "b") == 5_000.0 + OFF_MOST_S
    assert bus_time(None, 5_000.0, 0.0, 5.0, "b") == 5_000.0


def test_without_a_known_sleep_of_the_machine_time_does_not_go_back() -> None:
    """Another time namespace may count from elsewhere."""
    assert bus_time(LAST, None, LAST.wall, 1.0, "a") == LAST.bus
