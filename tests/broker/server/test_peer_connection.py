"""A connection of a ROUTER, as the kernel knows it."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from wakebus.broker.server.peer_connection import PeerConnection, close_peer, peer_of_frame


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends, both this process's."""
    one, other = socket.socketpair(socket.AF_UNIX)
    yield one, other
    one.close()
    other.close()


def test_who_sent_a_frame(bus_root: Path) -> None:
    """PROTOCOL-5.1: where the kernel tells."""
    with zmq.Context() as context:
        router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        router.bind(f"ipc://{bus_root}/r")
        dealer.connect(f"ipc://{bus_root}/r")
        dealer.send(b"x")
        router.recv()
        found = peer_of_frame(router.recv(copy=False))
        if sys.platform == "linux":
            assert found[:2] == (os.getuid(), os.getpid())
        assert found.descriptor > 2
        router.close(0)
        dealer.close(0)


def test_a_frame_from_nowhere() -> None:
    """What libzmq does not tell is 0."""
    assert peer_of_frame(zmq.Frame(b"x")) == PeerConnection(0, 0, -1)


def test_it_is_closed(pair: tuple[socket.socket, socket.socket]) -> None:
    """PROTOCOL-3.4: both sides see the end; the descriptor stays libzmq's."""
    one, other = pair
    close_peer(PeerConnection(os.getuid(), os.getpid(), one.fileno()))
    assert other.recv(1) == b"" and one.recv(1) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not tell whose it is")
def test_another_peers_descriptor_is_left_alone(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """PROTOCOL-3.3: it may have been closed and opened again meanwhile."""
    close_peer(PeerConnection(0, 1, pair[0].fileno()))
    pair[0].send(b"x")
    assert pair[1].recv(1) == b"x"


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    """PROTOCOL-3.3: so may a file."""
    with (tmp_path / "f").open("w") as file:
        close_peer(PeerConnection(0, 0, file.fileno()))
        file.write("x")
    close_peer(PeerConnection(0, 0, -1))
