"""
Acknowledged sends with n in flight: by threads, tasks, batches or frames.

Rule 1: each sender waits for its receipt before it sends again. Rule 2: what comes out is
(receipts in a second, latencies in ms), written to a file by the process that sends.
"""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.workers import obey, text

TO = "receiver"
Latencies = list[float]


def send(way: str, address: str, flight: int, seconds: float, out: Path) -> None:
    """Send by `way` (the body of a process)."""
    obey(lambda: None)
    took, latencies = WAYS[way](address, flight, seconds)
    latencies.sort()
    count = len(latencies)
    p50, p99 = latencies[count // 2], latencies[min(count - 1, count * 99 // 100)]
    draft = out.with_suffix(".draft")
    draft.write_text(json.dumps({"rate": count / took, "p50": p50, "p99": p99}))
    draft.replace(out)


def _threads(once: Callable[[], object], flight: int, seconds: float) -> tuple[float, Latencies]:
    latencies: Latencies = []
    once()
    began = time.perf_counter()

    def run() -> None:
        while (start := time.perf_counter()) - began < seconds:
            once()
            latencies.append((time.perf_counter() - start) * 1000)

    threads = [threading.Thread(target=run) for _ in range(flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began, latencies


async def _tasks(
    once: Callable[[], Awaitable[object]], flight: int, seconds: float
) -> tuple[float, Latencies]:
    latencies: Latencies = []
    await asyncio.gather(*(once() for _ in range(flight)))  # connections are made
    began = time.perf_counter()

    async def run() -> None:
        while (start := time.perf_counter()) - began < seconds:
            await once()
            latencies.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*(run() for _ in range(flight)))
    return time.perf_counter() - began, latencies


def wakebus_threads(address: str, flight: int, seconds: float) -> tuple[float, Latencies]:
    """`Client.send` in as many threads."""
    from wakebus.broker import Client

    with Client(address, timeout=30) as bus:
        return _threads(lambda: bus.send(TO, text(200), queue=True), flight, seconds)


def wakebus_tasks(address: str, flight: int, seconds: float) -> tuple[float, Latencies]:
    """`AsyncClient.send` in as many tasks."""
    from wakebus.broker import AsyncClient

    async def run() -> tuple[float, Latencies]:
        async with AsyncClient(address, timeout=30) as bus:
            return await _tasks(lambda: bus.send(TO, text(200), queue=True), flight, seconds)

    return asyncio.run(run())


def wakebus_frames(address: str, flight: int, seconds: float) -> tuple[float, Latencies]:
    """A DEALER that writes frames and counts answers: shows the broker, not the client."""
    import msgspec
    import zmq

    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(address)
    body, began, prefix = {"text": text(200)}, time.perf_counter(), f"{time.time_ns():x}"
    sent: dict[int, float] = {}
    latencies: Latencies = []

    def write(n: int) -> None:
        sent[n] = time.perf_counter()
        message = {"id": f"{prefix}{n}", "ts": time.time(), "from": "cli", "to": TO, "body": body}
        socket.send(encode([1, "send", n, {"message": message, "queue": True}]))

    for n in range(1, flight + 1):
        write(n)
    while sent:
        verb, number, payload = decode(socket.recv())[1:]
        if verb != "ok":
            raise RuntimeError(f"{verb} {payload}")
        now = time.perf_counter()
        latencies.append((now - sent.pop(number)) * 1000)
        if now - began < seconds:
            n += 1
            write(n)
    return time.perf_counter() - began, latencies


def redis_pipeline(address: str, flight: int, seconds: float) -> tuple[float, Latencies]:
    """XADD in pipelines of `flight`: all go out together, all receipts come back together."""
    import redis  # type: ignore[import-not-found]

    bus, latencies = redis.Redis(unix_socket_path=address), Latencies()
    began = time.perf_counter()
    while (start := time.perf_counter()) - began < seconds:
        if flight == 1:
            bus.xadd(TO, {"message": text(330)})
        else:
            batch = bus.pipeline(transaction=False)
            for _ in range(flight):
                batch.xadd(TO, {"message": text(330)})
            batch.execute()
        latencies += [(time.perf_counter() - start) * 1000] * flight
    return time.perf_counter() - began, latencies


def redis_tasks(address: str, flight: int, seconds: float) -> tuple[float, Latencies]:
    """XADD by redis.asyncio in as many tasks, each with its connection of the pool."""
    import redis.asyncio as redis  # type: ignore[import-not-found]

    async def run() -> tuple[float, Latencies]:
        bus = redis.Redis(unix_socket_path=address)
        try:
            return await _tasks(lambda: bus.xadd(TO, {"message": text(330)}), flight, seconds)
        finally:
            await bus.aclose()

    return asyncio.run(run())


def jetstream(address: str, flight: int, seconds: float) -> tuple[float, Latencies]:
    """JetStream's publish by nats-py, in as many tasks."""
    import nats  # type: ignore[import-not-found]

    async def run() -> tuple[float, Latencies]:
        bus = await nats.connect(address)
        stream = bus.jetstream(publish_async_max_pending=4000, timeout=30)
        name = f"s{time.time_ns()}"
        await stream.add_stream(name=name, subjects=[name])
        return await _tasks(lambda: stream.publish(name, text(330).encode()), flight, seconds)

    return asyncio.run(run())


WAYS: dict[str, Callable[[str, int, float], Any]] = {
    "wakebus, threads": wakebus_threads,
    "wakebus, asyncio": wakebus_tasks,
    "wakebus, raw frames": wakebus_frames,
    "redis-py, XADD (pipeline)": redis_pipeline,
    "redis-py asyncio, XADD": redis_tasks,
    "nats-py, JetStream": jetstream,
}
