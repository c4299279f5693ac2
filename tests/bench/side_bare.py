"""
Sockets without a library: what pyzmq and the codec cost, and nothing else.

The frame, the envelope, the codec and the limits of the pipes are wakebus's own; nothing is
checked, counted, locked or handed to another thread.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import zmq

from bench.pace import Step
from bench.workers import drive

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def publish(
    address: str, topic: str, steps: Iterator[Step], fields: Callable[[], dict[str, Any]], me: int
) -> Callable[[], None]:
    """Return what publishes by `steps`, once it is called."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(
        zmq.XPUB
    )  # a PUB that hears of subscriptions
    socket.setsockopt(zmq.SNDHWM, 10_000)
    socket.connect(f"{address}.in")
    socket.recv()
    source = topic.partition(".")[0]
    head = f"{topic}\0{me:016x} 1\0".encode()

    def send() -> None:
        envelope = {"type": topic, "ts": time.time(), "src": source, **fields()}
        socket.send(head + _encode(envelope), zmq.NOBLOCK)

    return lambda: drive(steps, send)


def subscribe(
    address: str, topic: str, take: Callable[[dict[str, Any]], None], me: int
) -> Callable[[], None]:
    """Return what calls `take` with each event."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, 2_000)
    socket.setsockopt(zmq.SUBSCRIBE, topic.encode() + b"\0")
    socket.connect(f"{address}.out")

    def run() -> None:
        while True:
            take(_decode(socket.recv().split(b"\0", 2)[2]))

    return run
