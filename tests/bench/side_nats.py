"""NATS core by nats-py, in asyncio, as its documentation shows it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import nats  # type: ignore[import-not-found]

from bench.pace import Step

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def publish(
    address: str, topic: str, steps: Iterator[Step], fields: Callable[[], dict[str, Any]], me: int
) -> Callable[[], None]:
    """Return what publishes by `steps`, once it is called."""
    loop = asyncio.new_event_loop()
    bus = loop.run_until_complete(nats.connect(address))
    source = topic.partition(".")[0]

    async def run() -> None:
        for count, pause in steps:
            for _ in range(count):
                envelope = {"type": topic, "ts": time.time(), "src": source, **fields()}
                await bus.publish(topic, _encode(envelope))
            if pause:
                await asyncio.sleep(pause)
            elif count == 1:
                await asyncio.sleep(0)  # at a rate each event goes out at once
        await bus.flush()

    return lambda: loop.run_until_complete(run())


def subscribe(
    address: str, topic: str, take: Callable[[dict[str, Any]], None], me: int
) -> Callable[[], None]:
    """Return what calls `take` with each event."""
    loop = asyncio.new_event_loop()

    async def on_event(message: Any) -> None:
        take(_decode(message.data))

    async def begin() -> None:
        bus = await nats.connect(address)
        await bus.subscribe(topic, cb=on_event)
        await bus.flush()

    loop.run_until_complete(begin())
    return loop.run_forever
