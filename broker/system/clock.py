"""
The clocks, as one argument: the seam by which tests make time jump (PROTOCOL.md section 8).

`wall` stamps what people read; `mono` runs every timer, because a wall clock may jump a year; `up`
counts the seconds since the boot, sleep included. Ages that are stored are measured by bus time:
it goes on with `up`, also over a restart of the broker. Only over a boot the wall clock is asked.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

# What a machine that was off may make things older by; less than the day that a key holds. A clock
# that jumped a year looks just like a year without power, and must not empty the store.
OFF_MOST_S: Final = 43_200.0


def _up() -> float:
    # On Linux `monotonic` stands still while the machine sleeps; on macOS CLOCK_MONOTONIC does not.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock(NamedTuple):
    """All return seconds."""

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic
    up: Callable[[], float] = _up


class Mark(NamedTuple):
    """What the clocks showed at one moment. `bus`: bus time; `boot`: the machine's boot."""

    bus: float
    wall: float
    up: float
    boot: str


def bus_time(last: Mark | None, newest: float | None, wall: float, up: float, boot: str) -> float:
    """
    Return bus time (seconds since the epoch, about) at a start of the broker. Never back.

    `last`: the newest mark in the store; `newest`: the newest time that anything in it has.
    """
    if last is None and newest is None:
        return wall
    if last is None:
        last = Mark(newest or 0.0, newest or 0.0, 0.0, "")
    if last.boot == boot:
        return last.bus + max(0.0, up - last.up)
    before = max(last.bus, newest or 0.0)
    off = wall - (last.wall + before - last.bus)
    return before + min(max(0.0, off), OFF_MOST_S)
