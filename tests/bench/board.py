"""
Numbers that the processes of one cell share: a file of 64-bit integers in memory.

Rule 1: each number has one writer. Rule 2: nothing waits here; who reads looks again.
"""

import mmap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

MOST: Final = 16  # publishers, or subscribers, of one cell
GO: Final = 0
STOP: Final = 1
SENT: Final = 2
GOT: Final = SENT + MOST
READY: Final = GOT + MOST
SIZE: Final = 8 * (READY + 2 * MOST)


class Board:
    """The numbers in `path`."""

    def __init__(self, path: Path, publishers: int, subscribers: int) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self.numbers = memoryview(self._map).cast("Q")
        self.publishers, self.subscribers = publishers, subscribers

    @staticmethod
    def make(path: Path) -> Path:
        """Make an empty board; return its path."""
        path.write_bytes(bytes(SIZE))
        return path

    @property
    def going(self) -> bool:
        """Whether publishers publish."""
        return bool(self.numbers[GO]) and not self.numbers[STOP]

    @property
    def sent(self) -> int:
        """Events of all publishers."""
        return sum(self.numbers[SENT : SENT + self.publishers])

    @property
    def got(self) -> list[int]:
        """Events that each subscriber has received."""
        return list(self.numbers[GOT : GOT + self.subscribers])

    def outstanding(self) -> int:
        """Events that the slowest subscriber has not received yet."""
        return self.sent - min(self.got)

    def ready(self, number: int) -> None:
        """Say that worker `number` can begin."""
        self.numbers[READY + number] = 1

    def all_ready(self) -> bool:
        """Whether all workers can begin."""
        count = self.publishers + self.subscribers
        return sum(self.numbers[READY : READY + count]) == count

    def go(self) -> None:
        """Have the publishers publish."""
        self.numbers[GO] = 1

    def stop(self) -> None:
        """Have them end."""
        self.numbers[STOP] = 1


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True
