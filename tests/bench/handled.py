"""
A message from end to end: send → stored → handler in another process → ack stored → receipt.
"""

import json
import signal
import time
from pathlib import Path

from bench import plan
from bench.board import wait_for
from bench.figures import Row, Table, figure
from bench.plan import Plan
from bench.servers import running
from bench.workers import obey, text


def receiver(address: str, ready: Path) -> None:
    """Handle messages at once (the body of a process)."""
    from wakebus.broker import Client

    obey(lambda: None)
    bus = Client(address)
    bus.register("receiver", lambda _: None)
    ready.touch()
    while True:
        signal.pause()


def sender(address: str, seconds: float, out: Path) -> None:
    """Send one after the other, each until it is handled (the body of a process)."""
    from wakebus.broker import Client

    obey(lambda: None)
    found: list[float] = []
    with Client(address) as bus:
        bus.send("receiver", text(200), wait=30)
        began = time.perf_counter()
        while (start := time.perf_counter()) - began < seconds:
            bus.send("receiver", text(200), wait=30)
            found.append((time.perf_counter() - start) * 1000)
    found.sort()
    figures = [found[len(found) // 2], found[len(found) * 99 // 100]]
    draft = out.with_suffix(".draft")
    draft.write_text(json.dumps(figures))
    draft.replace(out)


def handled(folder: Path, chosen: Plan) -> Table:
    """Return p50 and p99 in ms."""
    results: list[list[float]] = []
    with running(folder / "handled", "wakebus") as (servers, _):
        address, ready = servers["wakebus"].address, folder / "handled" / "ready"
        receiving = plan.start(receiver, address, ready)
        try:
            wait_for(ready.exists, 20)
            for number in range(chosen.repeat):
                out = folder / "handled" / f"figures{number}"
                sending = plan.start(sender, address, 2 * chosen.seconds, out)
                sending.join(60)
                plan.end(sending)
                results.append(json.loads(out.read_text()))
        finally:
            plan.end(receiving)
    columns = list(zip(*results, strict=True))
    row = Row("wakebus", tuple(figure(values) for values in columns))
    title = "A message handled end to end, one after the other"
    return Table(title, ("p50", "p99"), "ms", (row,))
