"""
The two clocks, as one argument: the seam by which tests make time jump.

`wall` stamps what people read; `mono` runs every timer, because a wall clock may jump a year.
"""

import time
from collections.abc import Callable
from typing import NamedTuple


class Clock(NamedTuple):
    """Both return seconds."""

    wall: Callable[[], float] = time.time
    mono: Callable[[], float] = time.monotonic
