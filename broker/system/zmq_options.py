"""
What all sockets of this bus that connect have in common, and the pipe that wakes their threads.

Rule 1: a figure here was measured; one socket's own options stand beside that socket.
"""

import os
from typing import Any, Final

import zmq

# Back within 0.3 s of a broker's return (measured with these two).
RECONNECT_MS: Final = 100
RECONNECT_MAX_MS: Final = 500
HANDSHAKE_MS: Final = 2_000


def set_reconnect(socket: "zmq.Socket[Any]") -> None:
    """Have a socket come back soon after its peer."""
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)


def drain(descriptor: int) -> None:
    """Empty a pipe that does not block."""
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass
