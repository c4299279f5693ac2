"""
The topic plane: XSUB in, XPUB out, libzmq's own proxy between them (EVENTS.md section 4).

Rule 1: the sockets are made, secured and bound before the proxy's thread starts; afterwards it
alone touches them: it binds again between two runs of the proxy. Rule 2: no Python runs per event.
Rule 3: if the thread ends by itself, the broker ends at once: a bus that swallows events in
silence is worse than none.
"""

import logging
import os
import signal
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import zmq

from wakebus.broker.core.model import Figures
from wakebus.broker.protocol.event import MAX_EVENT
from wakebus.broker.server.socket_paths import SocketPaths, make_again
from wakebus.broker.settings import Settings
from wakebus.broker.system.private_files import CannotStart

log = logging.getLogger("wakebus.events")

_INSIDE: Final = "inproc://events"
_CONTROL: Final = "inproc://events-control"
# Subscribed to in the broker's name. Publishers learn of subscriptions in their byte order: once
# this one has arrived, all earlier ones have. No event begins with it.
STANDING: Final = b"\xff"
MAX_SUBSCRIPTION: Final = 512  # bytes; a pattern's filter has at most 256
# Subscriptions that wait for one frozen publisher: each that is dropped would be missing for good.
SUBSCRIPTIONS_HWM: Final = 1_000_000


class Proxy:
    """
    Made by the process, asked by the router thread.

    `control`: readable when it has answered. `publisher`: the broker's own, readable when what is
    subscribed has changed: that is why it is an XPUB.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", chosen: Settings) -> None:
        self._in = _socket(context, zmq.XSUB, chosen.events_in_hwm, SUBSCRIPTIONS_HWM, MAX_EVENT)
        self._out = _socket(context, zmq.XPUB, 1000, chosen.events_out_hwm, MAX_SUBSCRIPTION)
        self._inner, self.control = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self.publisher: zmq.Socket[bytes] = context.socket(zmq.XPUB)
        self.publisher.setsockopt(zmq.LINGER, 0)
        self.publisher.setsockopt(zmq.XPUB_NODROP, 1)  # what does not go out is told
        self._asked: deque[Callable[[Figures], None]] = deque()
        self._before: Figures = {}  # what passed until the proxy was begun again
        self._again: deque[None] = deque()  # as often as it was ended for that
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def bind(self, sockets: SocketPaths) -> None:
        """Be where clients look for it. Raises CannotStart."""
        self._in.bind(_INSIDE)
        self._inner.bind(_CONTROL)
        self.control.connect(_CONTROL)
        self.publisher.connect(_INSIDE)
        self._bound = ((self._in, sockets.events_in), (self._out, sockets.events_out))
        for socket, path in self._bound:
            _bind(socket, path)
        self._in.send(b"\x01" + STANDING)

    def start(self) -> None:
        """Let events pass."""
        self._thread.start()

    def bind_again(self) -> None:
        """Make the files again that are gone (router thread); what waits in the pipes stays."""
        self.request_figures(self._carry_over)
        self._again.append(None)
        self.control.send(b"TERMINATE")

    def stop(self) -> None:
        """End the thread and close the sockets; events on their way are lost."""
        self._stopping = True
        if self._thread.is_alive():
            self.control.send(b"TERMINATE")
            self._thread.join()
        for socket in (self._in, self._out, self._inner, self.control, self.publisher):
            socket.close(0)

    def _run(self) -> None:
        # libzmq's proxy ends at a signal, and would begin again with figures of 0.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        why: object = "it ended"
        try:
            zmq.proxy_steerable(self._in, self._out, None, self._inner)
            while self._again and not self._stopping:
                self._again.popleft()
                self._bind_gone()
                zmq.proxy_steerable(self._in, self._out, None, self._inner)
        except BaseException as exc:
            why = exc
        if not self._stopping:
            log.critical("the events' proxy failed (%s); the broker ends", why)
            logging.shutdown()
            os._exit(70)

    def _bind_gone(self) -> None:
        for socket, path in self._bound:
            if os.path.lexists(path):
                continue
            try:
                make_again(path.parent)
                _bind(socket, path)
                log.warning("%s was gone; made again", path)
            except CannotStart as exc:
                log.error("%s", exc)

    # --- the broker's own events ----------------------------------------------------------

    def publish(self, frame: bytes) -> bool:
        """Hand on an event of the router thread; False: it did not go out."""
        try:
            self.publisher.send(frame, zmq.NOBLOCK)
            return True
        except zmq.Again:
            return False
        except zmq.ZMQError as exc:
            log.error("an event was not published: %s", exc)
            return False

    def subscriptions(self) -> Iterator[bytes]:
        """Yield which ones came (`\\x01…`) and went (`\\x00…`) since the last look."""
        try:
            while True:
                yield self.publisher.recv(zmq.NOBLOCK)
        except zmq.Again:
            pass

    # --- figures --------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether somebody waits for figures."""
        return bool(self._asked)

    def request_figures(self, done: Callable[[Figures], None]) -> None:
        """Ask for the figures; `deliver_figures` hands them to `done`. Never waits."""
        self._asked.append(done)
        self.control.send(b"STATISTICS")

    def _carry_over(self, figures: Figures) -> None:
        self._before = figures

    def deliver_figures(self, call: Callable[[Callable[[], None]], None]) -> None:
        """`call` those who asked, with what has come for them."""
        while self.control.poll(0):
            if len(frames := self.control.recv_multipart()) == 1:
                continue  # an empty one: it was told to end (libzmq 4.3.5)
            new = _figures(frames)
            figures = {name: self._before.get(name, 0) + number for name, number in new.items()}
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


def _bind(socket: "zmq.Socket[bytes]", path: Path) -> None:
    try:
        socket.bind(f"ipc://{path}")
    except zmq.ZMQError as exc:
        raise CannotStart(f"the socket {path} cannot be made: {exc}") from exc
