"""
Events: 1→1, 1→10, 10→1 by a window; bursts without one; latency at 1000/s.

Rule 1: a rate is what subscribers received between two looks, after a time to warm up. Rule 2: in
each repetition every system has its turn, in another order.
"""

import time
from array import array
from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

from bench import plan, workers
from bench.board import Board, wait_for
from bench.figures import Figure, Row, Table, figure, percentile
from bench.pace import BURST
from bench.plan import Plan
from bench.servers import Server
from bench.workers import Cell

NAMES: Final = {
    "wakebus": "wakebus",
    "bare": "bare pyzmq, zmq.proxy",
    "nats": "nats-py, NATS",
    "redis": "redis-py, Redis pub/sub",
    "hermes": "hermes-bus 0.7.0",
}
SHAPES: Final = {"1→1": (1, 1), "1→10": (1, 10), "10→1": (10, 1)}
WARM_S: Final = 0.3
QUIET_S: Final = 0.5


class Found(NamedTuple):
    """`rate`: deliveries in a second; `lost`: of `sent`; latencies in µs."""

    rate: float
    sent: int
    lost: int
    latencies: list[float]


def run_cell(
    folder: Path, server: Server, kind: str, shape: tuple[int, int], size: int, seconds: float
) -> Found:
    """Measure one cell."""
    folder.mkdir()
    cell = Cell(server.name, server.address, folder, kind, *shape, size)
    board = Board(Board.make(cell.board), *shape)
    processes = [plan.start(workers.subscriber, cell, me) for me in range(cell.subscribers)]
    try:
        wait_for(lambda: sum(board.numbers[-32:]) == cell.subscribers, 15)
        processes += [plan.start(workers.publisher, cell, me) for me in range(cell.publishers)]
        if not wait_for(board.all_ready, 15):
            raise TimeoutError(f"{cell}: the workers were not ready")
        board.go()
        rate = _burst(board) if kind == "burst" else _sustained(board, seconds)
        board.stop()
        _quiet(board)
        sent, got = board.sent, min(board.got)
    finally:
        plan.end(*processes)
    return Found(rate, sent, max(0, sent - got), _latencies(folder))


def _sustained(board: Board, seconds: float) -> float:
    time.sleep(WARM_S)
    before, began = sum(board.got), time.perf_counter()
    time.sleep(seconds)
    return (sum(board.got) - before) / (time.perf_counter() - began)


def _burst(board: Board) -> float:
    began = time.perf_counter()
    wait_for(lambda: board.sent >= BURST, 20)
    took = time.perf_counter() - began
    _quiet(board)
    return board.sent / took


def _quiet(board: Board) -> None:
    """Return when all has arrived and no publisher is in a batch, or nothing arrives any more."""
    seen, since = (board.sent, board.got), time.monotonic()
    while time.monotonic() - since < (QUIET_S if board.outstanding() > 0 else QUIET_S / 5):
        time.sleep(0.01)
        if (board.sent, board.got) != seen:
            seen, since = (board.sent, board.got), time.monotonic()


def _latencies(folder: Path) -> list[float]:
    found: list[float] = []
    for file in folder.glob("latency.*"):
        numbers = array("d")
        numbers.frombytes(file.read_bytes())
        found += numbers[100:]  # the first ones warm up
    return found


def rates(
    folder: Path, servers: dict[str, Server], missing: dict[str, str], chosen: Plan
) -> list[Table]:
    """Return a table for each size: deliveries in a second, by shape."""
    found: dict[tuple[int, str, str], list[Found]] = defaultdict(list)
    for number in range(chosen.repeat):
        for size in chosen.sizes:
            for shape, counts in SHAPES.items():
                for name in plan.turns(list(servers), number):
                    own = folder / f"{size}{name}{counts[0]}{counts[1]}{number}"
                    cell = run_cell(own, servers[name], "window", counts, size, chosen.seconds)
                    found[size, shape, name].append(cell)
    tables = []
    for size in chosen.sizes:
        rows = [
            Row(NAMES[name], tuple(_rate(found[size, shape, name]) for shape in SHAPES))
            for name in servers
        ]
        rows += [Row(NAMES[name], (None,) * 3, why) for name, why in missing.items()]
        title = f"Events of {size} B, paced by a window: deliveries in a second"
        tables.append(Table(title, tuple(SHAPES), "/s", tuple(rows), NAMES["wakebus"]))
    return tables


def _rate(found: list[Found]) -> Figure | None:
    return figure([one.rate for one in found], sum(one.lost for one in found))


def bursts(folder: Path, servers: dict[str, Server]) -> Table:
    """Return what happens to a burst that nobody paces."""
    rows = []
    for name, server in servers.items():
        found = run_cell(folder / f"burst{name}", server, "burst", (1, 1), 200, 0)
        share = 100 * found.lost / max(1, found.sent)
        rows.append(Row(NAMES[name], (figure([found.rate]), figure([share]))))
    title = f"{BURST:,} events of 200 B as fast as the client takes them, 1→1, once"
    return Table(title, ("offered /s", "lost %"), "", tuple(rows))


def latency(folder: Path, servers: dict[str, Server], chosen: Plan) -> Table:
    """Return µs from `publish` to the handler at 1000/s."""
    found: dict[tuple[str, float], list[float]] = defaultdict(list)
    for number in range(chosen.repeat):
        for name in plan.turns(list(servers), number):
            own = folder / f"latency{name}{number}"
            cell = run_cell(own, servers[name], "rate", (1, 1), 200, 2 * chosen.seconds)
            for share in (0.5, 0.99):
                found[name, share].append(percentile(cell.latencies, share))
    rows = [Row(NAMES[n], tuple(figure(found[n, s]) for s in (0.5, 0.99))) for n in servers]
    return Table("Latency of an event at 1000/s, 200 B", ("p50", "p99"), "µs", tuple(rows))
