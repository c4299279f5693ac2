"""
When a publisher publishes: by a window, at a rate, or as fast as it can.

Rule 1: a pace yields steps: how many events now, and how many seconds of sleep after them; the
same for all systems, with or without asyncio. Rule 2: by the window nothing is lost that a system
does not lose by itself, so what comes out is a rate that it can hold.
"""

import time
from collections.abc import Iterator
from typing import Final

from bench.board import SENT, Board

Step = tuple[int, float]

WINDOW: Final = 1000  # on their way in all: half of what wakebus keeps for one subscriber
BATCH: Final = 100
NAP_S: Final = 0.0001
STALL_S: Final = 0.25  # without a move, what is on its way is taken for lost
BURST: Final = 40_000


def pace(kind: str, board: Board, me: int) -> Iterator[Step]:
    """Yield the steps of publisher `me`: `window`, `rate` or `burst`."""
    while not board.numbers[0]:
        yield 0, 0.001
    yield from {"window": _window, "rate": _rate, "burst": _burst}[kind](board, me)


def _window(board: Board, me: int) -> Iterator[Step]:
    sent = forgiven = 0
    seen, since = -1, time.monotonic()
    while board.going:
        waiting = board.outstanding()
        forgiven = min(forgiven, waiting)  # a stalled subscriber caught up: nothing was lost
        if waiting - forgiven <= WINDOW - BATCH:
            yield BATCH, 0.0
            sent += BATCH
            board.numbers[SENT + me] = sent
            continue
        yield 0, NAP_S
        slowest = min(board.got)
        if slowest != seen:
            seen, since = slowest, time.monotonic()
        elif time.monotonic() - since > STALL_S:
            forgiven, since = board.outstanding(), time.monotonic()


def _rate(board: Board, me: int) -> Iterator[Step]:
    """1000 events in a second; each at its own time, none made up for."""
    sent, due = 0, time.monotonic()
    while board.going:
        due = max(due + 0.001, time.monotonic() - 0.01)
        yield 0, max(0.0, due - time.monotonic())
        yield 1, 0.0
        sent += 1
        board.numbers[SENT + me] = sent


def _burst(board: Board, me: int) -> Iterator[Step]:
    for sent in range(BATCH, BURST + 1, BATCH):
        yield BATCH, 0.0
        board.numbers[SENT + me] = sent
        if not board.going:
            return
