"""
The topic plane: XSUB in, XPUB out, libzmq's own proxy between them (EVENTS.md section 4).

Rule 1: the sockets are made, secured and bound before the proxy's thread starts; afterwards it
alone touches them. Rule 2: no Python runs per event. Rule 3: if the thread ends by itself, the
daemon ends at once: a bus that swallows events in silence is worse than none.
"""

import logging
import os
import signal
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import zmq

from wakebus.broker.protocol.event import MAX_EVENT
from wakebus.broker.server.socket_paths import Places
from wakebus.broker.settings import Settings
from wakebus.broker.system.private_files import CannotStart

log = logging.getLogger("wakebus.events")

INSIDE: Final = "inproc://events"  # where the broker's own publisher connects
_CONTROL: Final = "inproc://events-control"
# Subscribed to in the broker's name. Publishers learn of subscriptions in their byte order: once
# this one has arrived, all earlier ones have. No event begins with it.
STANDING: Final = b"\xff"
MAX_SUBSCRIPTION: Final = 512  # bytes; a pattern's filter has at most 256
# Subscriptions that wait for one frozen publisher: each that is dropped would be missing for good.
SUBSCRIPTIONS_HWM: Final = 100_000

Figures = dict[str, int]


class Proxy:
    """Made by the daemon, asked by the router thread. `control`: readable when it has answered."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", places: Places, chosen: Settings
    ) -> None:
        self._in = _socket(context, zmq.XSUB, chosen.events_in_hwm, SUBSCRIPTIONS_HWM, MAX_EVENT)
        self._out = _socket(context, zmq.XPUB, 1000, chosen.events_out_hwm, MAX_SUBSCRIPTION)
        self._inner, self.control = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self._asked: deque[Callable[[Figures], None]] = deque()
        self._stopping = False
        self.context = context
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._in.bind(INSIDE)
        self._inner.bind(_CONTROL)
        self.control.connect(_CONTROL)
        try:
            _bind(self._in, f"ipc://{places.events_in}")
            _bind(self._out, f"ipc://{places.events_out}")
        except CannotStart:
            self.stop()
            raise
        self._in.send(b"\x01" + STANDING)

    def start(self) -> None:
        """Let events pass."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the sockets; events on their way are lost."""
        self._stopping = True
        if self._thread.is_alive():
            self.control.send(b"TERMINATE")
            self._thread.join()
        for socket in (self._in, self._out, self._inner, self.control):
            socket.close(0)

    def _run(self) -> None:
        # libzmq's proxy ends at a signal, and would begin again with figures of 0.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        why: object = "it ended"
        try:
            zmq.proxy_steerable(self._in, self._out, None, self._inner)
        except BaseException as exc:
            why = exc
        if not self._stopping:
            log.critical("the events' proxy failed (%s); the broker ends", why)
            logging.shutdown()
            os._exit(70)

    # --- figures --------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether somebody waits for figures."""
        return bool(self._asked)

    def ask(self, done: Callable[[Figures], None]) -> None:
        """Ask for the figures; `answered` hands them to `done`. Never waits."""
        self._asked.append(done)
        self.control.send(b"STATISTICS")

    def answered(self, call: Callable[[Callable[[], None]], None]) -> None:
        """`call` those who asked, with what has come for them."""
        while self.control.poll(0):
            figures = _figures(self.control.recv_multipart())
            done = self._asked.popleft()
            call(lambda done=done, figures=figures: done(figures))  # type: ignore[misc]


def _figures(frames: list[bytes]) -> Figures:
    """
    Return `in`, `bytes_in`, `out`, `bytes_out`.

    Frames: 64-bit numbers; messages and bytes received and sent, of the first socket, then of the
    second one (zmq_proxy_steerable(3)). What a full pipe drops is not among them.
    """
    numbers = [struct.unpack("=Q", frame)[0] for frame in frames]
    return {"in": numbers[0], "bytes_in": numbers[1], "out": numbers[6], "bytes_out": numbers[7]}


def _socket(
    context: "zmq.Context[zmq.Socket[bytes]]", kind: int, receive: int, send: int, largest: int
) -> "zmq.Socket[bytes]":
    socket: zmq.Socket[bytes] = context.socket(kind)
    options: dict[int, Any] = {
        zmq.LINGER: 0,
        zmq.RCVHWM: min(receive, 2**31 - 1),
        zmq.SNDHWM: min(send, 2**31 - 1),
        zmq.MAXMSGSIZE: largest,  # a wall: libzmq closes the connection
        zmq.BACKLOG: 1024,
    }
    for option, value in options.items():
        socket.setsockopt(option, value)
    return socket


def _bind(socket: "zmq.Socket[bytes]", address: str) -> None:
    try:
        socket.bind(address)
    except zmq.ZMQError as exc:
        raise CannotStart(f"the socket {address[6:]} cannot be made: {exc}") from exc
