"""
Acknowledged sends: wakebus against Redis Streams and JetStream, each synced to disk per receipt.

Rule 1: each repetition has fresh servers, so that none carries what an earlier one stored. Rule 2:
a failed cell is a note in its row, never a figure.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

from bench import plan, senders
from bench.figures import Row, Table, figure
from bench.plan import Plan
from bench.servers import running

FLIGHTS: Final = (1, 100, 1000)
CELLS: Final = (
    ("wakebus", "wakebus, threads", (1, 100)),
    ("wakebus", "wakebus, asyncio", (1, 100, 1000)),
    ("wakebus", "wakebus, raw frames", (1, 100, 1000)),
    ("redis", "redis-py, XADD (pipeline)", (1, 100, 1000)),
    ("redis", "redis-py asyncio, XADD", (100,)),
    ("nats", "nats-py, JetStream", (1, 100, 1000)),
)
FIGURES: Final = ("rate", "p50", "p99")


def acked(folder: Path, chosen: Plan) -> list[Table]:
    """Return receipts in a second, their p50 and their p99 in ms."""
    found: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    notes: dict[str, str] = {}
    for number in range(chosen.repeat):
        own = folder / f"acked{number}"
        with running(own, "wakebus", "redis", "nats") as (servers, missing):
            for flight in FLIGHTS:
                for system, way, flights in CELLS:
                    if system in missing:
                        notes[way] = missing[system]
                    elif flight in flights:
                        out = own / f"{way}{flight}"
                        given = (way, servers[system].address, flight, chosen.seconds, out)
                        for name, value in _one(*given, notes=notes).items():
                            found[way, flight, name].append(value)
    columns = tuple(f"{flight} in flight" for flight in FLIGHTS)
    title = "Acknowledged sends, 200 B, on disk: receipts in a second"
    titles = (title, "Their latency, p50", "Their latency, p99")
    return [
        Table(
            title,
            columns,
            "/s" if name == "rate" else "ms",
            tuple(
                Row(
                    way,
                    tuple(figure(found[way, flight, name]) for flight in FLIGHTS),
                    notes.get(way, ""),
                )
                for _, way, _ in CELLS
            ),
            "redis-py, XADD (pipeline)" if name == "rate" else "",
        )
        for title, name in zip(titles, FIGURES, strict=True)
    ]


def _one(
    way: str, address: str, flight: int, seconds: float, out: Path, *, notes: dict[str, str]
) -> dict[str, float]:
    process = plan.start(senders.send, way, address, flight, seconds, out)
    process.join(seconds + 40)
    plan.end(process)
    if not out.exists():
        notes[way] = f"failed with {flight} in flight"
        return {}
    read: dict[str, float] = json.loads(out.read_text())
    return read
