"""
One process of a cell: a publisher or a subscriber of one system.

Rule 1: it says that it is ready, does its part, and ends at SIGTERM, at once and without a word.
Rule 2: it outlives nobody: after LIFE_S it ends by itself.
"""

import importlib
import itertools
import os
import signal
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.board import GOT, Board
from bench.pace import Step, pace

LIFE_S: Final = 90


class Cell(NamedTuple):
    """What the processes of one cell know. `kind`: of the pace. `size`: bytes of an envelope."""

    system: str
    address: str
    folder: Path
    kind: str
    publishers: int
    subscribers: int
    size: int

    @property
    def board(self) -> Path:
        """Where the shared numbers are."""
        return self.folder / "board"

    @property
    def topic(self) -> str:
        """The cell's own topic, so that nothing of an earlier cell is counted."""
        return f"bench.{self.folder.name}.{'all' if self.subscribers > 1 else 'one'}"


def publisher(cell: Cell, me: int) -> None:
    """Publish as the cell says (the body of a process)."""
    obey(lambda: None)
    board = Board(cell.board, cell.publishers, cell.subscribers)
    side = importlib.import_module(f"bench.side_{cell.system}")
    steps = pace(cell.kind, board, me)
    run = side.publish(cell.address, cell.topic, steps, _fields(cell), me)
    board.ready(me)
    run()
    while True:
        signal.pause()


def subscriber(cell: Cell, me: int) -> None:
    """Count events; at a rate, keep latencies in `latency.<me>` (the body of a process)."""
    latencies = array("d")
    obey(lambda: latencies and (cell.folder / f"latency.{me}").write_bytes(latencies.tobytes()))
    board = Board(cell.board, cell.publishers, cell.subscribers)
    side = importlib.import_module(f"bench.side_{cell.system}")
    numbers, slot, count = board.numbers, GOT + me, itertools.count(1)

    def counted(envelope: dict[str, Any]) -> None:
        if envelope["n"]:
            numbers[slot] = next(count)

    def timed(envelope: dict[str, Any]) -> None:
        latencies.append((time.monotonic_ns() - envelope["t"]) / 1000)
        counted(envelope)

    run = side.subscribe(cell.address, cell.topic, timed if cell.kind == "rate" else counted, me)
    board.ready(cell.publishers + me)
    run()


def obey(last: Callable[[], object]) -> None:
    """End at SIGTERM, or when life is over; `last` is called before."""

    def end(*_: object) -> None:
        last()
        os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the bench ends its processes itself
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(LIFE_S)


def drive(steps: Iterator[Step], send: Callable[[], None]) -> None:
    """Do the steps of a pace."""
    for count, pause in steps:
        for _ in range(count):
            send()
        if pause:
            time.sleep(pause)


def text(size: int) -> str:
    """Return the text that makes an envelope of about `size` bytes."""
    return "x" * (size - 130)


def _fields(cell: Cell) -> Callable[[], dict[str, Any]]:
    count, filler, now = itertools.count(1), text(cell.size), time.monotonic_ns
    return lambda: {"n": next(count), "t": now(), "text": filler}
