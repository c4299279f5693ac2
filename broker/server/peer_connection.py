"""
One connection of the ROUTER, as the kernel knows it.

Rule 1: libzmq hands on what it knows (zmq_msg_gets); the descriptor stays its own.
"""

import os
import socket
import struct
import sys
from typing import NamedTuple

import zmq


class PeerConnection(NamedTuple):
    """Who is there, 0 where the kernel does not tell, and libzmq's descriptor of it, else -1."""

    uid: int
    pid: int
    descriptor: int


def peer_of_frame(frame: zmq.Frame) -> PeerConnection:
    """Return the ipc peer that a frame came from, by SO_PEERCRED."""
    try:
        _, uid, _, pid = str(frame.get("Peer-Address")).split(":")
        return PeerConnection(int(uid), int(pid), int(frame.get("__fd")))
    except (ValueError, zmq.ZMQError):
        return PeerConnection(0, 0, -1)


def close_peer(peer: PeerConnection) -> None:
    """End a connection as if the peer had: libzmq has no call for one of a ROUTER's."""
    try:
        with socket.socket(fileno=os.dup(peer.descriptor)) as own:
            if _is_of(own, peer):
                own.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has gone by itself


def _is_of(own: socket.socket, peer: PeerConnection) -> bool:
    """Whether it is that peer's: a descriptor is another one's a moment after it was closed."""
    if own.family != socket.AF_UNIX:
        return False
    if sys.platform != "linux":
        return True
    found = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[0] == peer.pid)
