"""What sockets that connect have in common."""

import os

import zmq

from wakebus.broker.system.zmq_options import (
    HANDSHAKE_MS,
    RECONNECT_MAX_MS,
    RECONNECT_MS,
    drain,
    set_reconnect,
)


def test_reconnect() -> None:
    """A socket comes back at first after RECONNECT_MS, at most after RECONNECT_MAX_MS."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        set_reconnect(socket)
        assert socket.getsockopt(zmq.RECONNECT_IVL) == RECONNECT_MS
        assert socket.getsockopt(zmq.RECONNECT_IVL_MAX) == RECONNECT_MAX_MS
        assert socket.getsockopt(zmq.HANDSHAKE_IVL) == HANDSHAKE_MS


def test_drain() -> None:
    """All that is in the pipe is gone; an empty one holds nobody."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"x" * 10_000)
    drain(read)
    drain(read)
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
