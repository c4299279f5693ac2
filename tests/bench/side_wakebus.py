"""wakebus by its public API: `Client.publish` and `Client.subscribe`."""

import signal
from collections.abc import Callable, Iterator
from typing import Any

from bench.pace import Step
from bench.workers import drive
from wakebus.broker import Client


def publish(
    address: str, topic: str, steps: Iterator[Step], fields: Callable[[], dict[str, Any]], me: int
) -> Callable[[], None]:
    """Return what publishes by `steps`, once it is called."""
    bus = Client(address)
    bus.publish("bench.ready")
    return lambda: drive(steps, lambda: bus.publish(topic, fields()))


def subscribe(
    address: str, topic: str, take: Callable[[dict[str, Any]], None], me: int
) -> Callable[[], None]:
    """Return what waits while `take` is called with each event."""
    bus = Client(address)
    bus.subscribe(topic, lambda event: take(event.envelope))
    return _wait


def _wait() -> None:
    while True:
        signal.pause()
