"""
What a server costs that does nothing: start, memory, CPU; and with many clients.
"""

import resource
import time
from pathlib import Path
from typing import Any

import psutil
import zmq

from bench.events import NAMES
from bench.figures import Figure, Row, Table, figure
from bench.plan import Plan
from bench.servers import Server, running
from wakebus.broker import Client
from wakebus.broker.protocol import wire


def starts(folder: Path, names: list[str], chosen: Plan) -> Table:
    """Return ms from the command to a server that takes clients."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(chosen.starts):
        for name in names:
            with running(folder / f"start{number}{name}", name) as (servers, _):
                if name in servers:
                    found[name].append(servers[name].began * 1000)
    rows = tuple(Row(NAMES[name], (figure(values),)) for name, values in found.items())
    return Table("Start, from the command to ready", ("ms",), "", rows)


def idle(servers: dict[str, Server], chosen: Plan) -> Table:
    """Return MB and ms of CPU in a second, of servers that nobody uses."""
    before = {name: _cpu(server) for name, server in servers.items()}
    time.sleep(chosen.idle)
    rows = []
    for name, server in servers.items():
        used = (_cpu(server) - before[name]) / chosen.idle * 1000
        rows.append(Row(NAMES[name], (figure([_megabytes(server)]), figure([used]))))
    title = f"Idle for {chosen.idle:g} s"
    return Table(title, ("MB", "ms CPU in 1 s"), "", tuple(rows))


def many(folder: Path, chosen: Plan) -> Table:
    """Return what that many registered clients cost the broker, and whether it still answers."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    with running(folder / "many", "wakebus") as (servers, _):
        server = servers["wakebus"]
        contexts: list[zmq.Context[Any]] = [zmq.Context() for _ in range(chosen.clients // 500 + 1)]
        began = _megabytes(server)
        try:
            for number in range(chosen.clients):
                _register(contexts[number // 500].socket(zmq.DEALER), server.address, number)
            after = _megabytes(server)
            answers = _answers(server.address)
        finally:
            for context in contexts:
                context.destroy(linger=0)
    cells: tuple[Figure | None, ...] = (figure([began]), figure([after]), figure(answers))
    title = f"{chosen.clients} registered clients"
    columns = ("MB before", "MB with them", "ms for a receipt")
    return Table(title, columns, "", (Row("wakebus", cells),))


def _register(socket: "zmq.Socket[bytes]", address: str, number: int) -> None:
    socket.connect(address)
    socket.send(wire.encode("hello", 1, {"min": 1, "max": 1, "instance": f"{number:016x}"}))
    socket.send(wire.encode("register", 2, {"name": f"client-{number}"}))
    for _ in range(2):
        if not socket.poll(20_000) or wire.decode(socket.recv()).verb != "ok":
            raise RuntimeError(f"client {number} was not registered")


def _answers(address: str) -> list[float]:
    found = []
    with Client(address, timeout=30) as bus:
        for _ in range(50):
            began = time.perf_counter()
            bus.send("receiver", "still there?", queue=True)
            found.append((time.perf_counter() - began) * 1000)
    return found


def _cpu(server: Server) -> float:
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def _megabytes(server: Server) -> float:
    return float(psutil.Process(server.process.pid).memory_info().rss) / (1 << 20)
