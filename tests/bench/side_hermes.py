"""
hermes-bus 0.7.0 by its own client, `BusClient`.

It knows endpoints, no topics: 1→10 is its broadcast. `send` that returns False is tried again: its
client takes one second without traffic for a lost connection, and is away for another.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from hermes_bus.client import BusClient  # type: ignore[import-not-found]

from bench.pace import Step
from bench.workers import drive

AGAIN_S = 0.01


def publish(
    address: str, topic: str, steps: Iterator[Step], fields: Callable[[], dict[str, Any]], me: int
) -> Callable[[], None]:
    """Return what publishes by `steps`, once it is called."""
    bus = _connect(address, f"publisher-{me}")
    to = "" if topic.endswith(".all") else "subscriber-0"

    def send() -> None:
        body = {"type": topic, **fields()}
        deadline = time.monotonic() + 5
        while not bus.send(to, body) and time.monotonic() < deadline:
            time.sleep(AGAIN_S)

    return lambda: drive(steps, send)


def subscribe(
    address: str, topic: str, take: Callable[[dict[str, Any]], None], me: int
) -> Callable[[], None]:
    """Return what calls `take` with each event."""
    bus = _connect(address, f"subscriber-{me}")

    def run() -> None:
        while True:
            for message in bus.poll():
                if message.get("type") == "message":
                    take(message["body"])
            time.sleep(0.0005)

    return run


def _connect(address: str, name: str) -> Any:
    bus = BusClient(name, address)
    if not bus.connect():
        raise ConnectionError(f"no hermes-bus at {address}")
    return bus
