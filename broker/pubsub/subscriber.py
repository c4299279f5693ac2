"""
What a client is subscribed to: one SUB for each subscription, one thread that calls all handlers
(EVENTS.md).

Rule 1: a subscription is returned when it works: its own probe came back through it. Rule 2: a slow
handler fills the pipe of its own subscription, then the broker drops for that one alone; the beats
and messages of the client are on another thread. Rule 3: `close` works from any thread, also from a
handler, and waits for none.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import zmq

from wakebus.broker.address import TopicAddresses
from wakebus.broker.errors import CLOSED, NotNow, NotRunning, WakebusError
from wakebus.broker.protocol.topics import filters
from wakebus.broker.pubsub.subscription import HasRoom, OnEvent, OnGap, Subscription
from wakebus.broker.system.fork_safety import detach, exit_child
from wakebus.broker.system.zmq_options import drain, set_reconnect

MAX_SUBSCRIPTIONS: Final = 65_000  # libzmq's own default is 1,023; each has a socket
HWM: Final = 2_000  # EVENTS.md; as much again waits in the broker
BURST: Final = 500  # events of one subscription before the next one has its turn
ASK_AGAIN_MS: Final = (5, 10, 20, 50, 100, 200)
LOCATE_S: Final = 0.5

# Without the options of zmq.Socket.recv: 0.25 µs instead of 0.37 (200 B).
_receive: Final = zmq.backend.Socket.recv
_NOBLOCK: Final = int(zmq.NOBLOCK)


class Subscriber:
    """
    The events thread of a client. `locate()`: where the events are, or NotRunning.

    `missed`: events that all its subscriptions together have missed so far.
    """

    def __init__(self, locate: Callable[[], TopicAddresses]) -> None:
        self.missed = 0
        self._locate, self._addresses = locate, locate()
        self._located = time.monotonic()
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, MAX_SUBSCRIPTIONS)
        self._open: dict[zmq.Socket[bytes], Subscription] = {}
        self._new: deque[tuple[zmq.Socket[bytes], Subscription, list[bytes]]] = deque()
        self._address = self._addresses.events_out  # where the sockets are connected to
        self._closing = self._ended = self._forked = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._lock = threading.RLock()  # a signal handler may close
        self._thread = threading.Thread(target=self._run, name="wakebus events", daemon=True)
        self._thread.start()

    # --- any thread -----------------------------------------------------------------------

    def subscribe(
        self,
        patterns: tuple[str, ...],
        on_event: OnEvent,
        on_gap: OnGap | None,
        probe: "Probe",
        has_room: HasRoom | None = None,
    ) -> Subscription:
        """Open a subscription, wait until `probe` has come back through it, start it."""
        subscription = Subscription(self, patterns, on_event, on_gap, has_room)
        with self._lock:
            self._check_open()
            address = self._addresses.events_out
            try:
                socket = _open(self._context, address, patterns)
            except zmq.ZMQError as exc:
                raise NotNow(
                    f"no more subscriptions ({len(self._open)} are open): {exc}; close some, "
                    "or raise the limit of open files (ulimit -n)"
                ) from exc
        try:
            early = self._prove(socket, probe)
            with self._lock:
                self._check_open()
                if address != self._address:
                    _move(socket, address, self._address)
                self._new.append((socket, subscription, early))
                self.wake()
        except BaseException:
            socket.close(0)
            raise
        return subscription

    def _check_open(self) -> None:
        if self._closing:
            raise NotRunning(CLOSED)

    def _prove(self, socket: "zmq.Socket[bytes]", probe: "Probe") -> list[bytes]:
        """Return the events that came before the proof that all of them come from now on."""
        socket.setsockopt(zmq.SUBSCRIBE, probe.mark)
        early: list[bytes] = []
        back = 0
        try:
            for pause in probe.asked():
                self._check_open()
                back += _came_back(socket, probe.mark, early, pause)
                # The first one may have overtaken the news on its way to another publisher.
                if back > 1:
                    break
        except zmq.ZMQError:  # ContextTerminated, or forked meanwhile
            self._check_open()
            raise
        probe.arrived()
        socket.setsockopt(zmq.UNSUBSCRIBE, probe.mark)
        return early

    def move_to(self, addresses: TopicAddresses) -> None:
        """Take it that the broker is there now; never waits."""
        with self._lock:
            self._addresses = addresses
            self.wake()

    def wake(self) -> None:
        """Have the events thread see what has changed."""
        with self._lock:
            if not self._ended:
                try:
                    os.write(self._wake_write, b"x")
                except BlockingIOError:
                    pass  # full: it wakes anyway

    def close(self, timeout: float) -> None:
        """End all subscriptions; wait at most `timeout` seconds for a handler that runs."""
        with self._lock:
            self._closing = True
            self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def after_fork(self) -> None:
        """In the child of a fork: be closed, without a word to the parent's sockets."""
        self._lock = threading.RLock()
        self._closing = self._ended = self._forked = True
        detach(self._context)
        for subscription in (*self._open.values(), *(one for _, one, _ in self._new)):
            subscription.close()

    # --- events thread --------------------------------------------------------------------

    def is_bus(self, pub: str) -> bool:
        """Return whether `pub` is the broker; a new one is looked up, but not all the time."""
        if pub != self._addresses.bus_pub and time.monotonic() - self._located > LOCATE_S:
            self._located = time.monotonic()
            try:
                self.move_to(self._locate())
            except WakebusError:
                pass
        return pub == self._addresses.bus_pub

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake_read, zmq.POLLIN)
        try:
            while not self._closing:
                self._apply_changes(poller)
                ready = dict(poller.poll())
                if self._wake_read in ready:
                    drain(self._wake_read)
                for socket, subscription in self._open.items():
                    if socket in ready and not self._closing:
                        _hand_out(socket, subscription)
        except zmq.ZMQError:
            if not self._forked:  # else the socket is the parent's
                raise
        finally:
            self.exit_child()
            self._end()

    def exit_child(self, error: BaseException | None = None) -> None:
        """End the child of a fork in a handler, which has returned or raised `error`."""
        if self._forked:
            exit_child(error)

    def _apply_changes(self, poller: zmq.Poller) -> None:
        with self._lock:
            new, self._new = self._new, deque()
            old, self._address = self._address, self._addresses.events_out
        # New ones first: they were connected to where the others still are.
        for socket, subscription, _ in new:
            self._open[socket] = subscription
            poller.register(socket, zmq.POLLIN)
        if old != self._address:
            for socket in self._open:
                _move(socket, old, self._address)
        for _, subscription, early in new:
            for frame in early:
                subscription.on_frame(frame)
        # Last: also one that was closed before it was looked at.
        for socket in [s for s, subscription in self._open.items() if subscription.closed]:
            poller.unregister(socket)
            del self._open[socket]
            socket.close(0)

    def _end(self) -> None:
        with self._lock:
            self._closing = self._ended = True
            for socket in (*self._open, *(socket for socket, _, _ in self._new)):
                socket.close(0)
            os.close(self._wake_read)
            os.close(self._wake_write)
        self._context.term()


def new_probe_id() -> str:
    """Return a name for a probe that nobody else has."""
    return os.urandom(8).hex()


class Probe(NamedTuple):
    """How a subscription is proven: `mark` comes back, `asked` yields pauses (ms) and asks."""

    mark: bytes
    asked: Callable[[], Iterator[int]]
    arrived: Callable[[], None]


def _open(
    context: "zmq.Context[Any]", address: str, patterns: tuple[str, ...]
) -> "zmq.Socket[bytes]":
    socket: zmq.Socket[bytes] = context.socket(zmq.SUB)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.RCVHWM, HWM)
    # Subscriptions go up the pipe; at libzmq's own 1,000 the rest is dropped without a word.
    socket.setsockopt(zmq.SNDHWM, 0)
    set_reconnect(socket)
    try:
        for prefix in {prefix for pattern in patterns for prefix in filters(pattern)}:
            socket.setsockopt(zmq.SUBSCRIBE, prefix)
        socket.connect(address)
    except zmq.ZMQError as exc:
        socket.close(0)
        raise NotRunning(f"no broker can be at {address}: {exc}") from exc
    return socket


def _move(socket: "zmq.Socket[bytes]", old: str, new: str) -> None:
    try:
        socket.connect(new)
        socket.disconnect(old)
    except zmq.ZMQError:
        pass  # no address: told as a broker that is away


def _came_back(socket: "zmq.Socket[bytes]", mark: bytes, early: list[bytes], pause_ms: int) -> int:
    """Return how many frames of `mark` come within a pause; keep up to HWM others."""
    found = 0
    deadline = time.monotonic() + pause_ms / 1000
    while not found and (left := deadline - time.monotonic()) > 0:
        if socket.poll(max(1, int(left * 1000))):
            frame = socket.recv()
            if frame.startswith(mark):
                found += 1
            elif len(early) < HWM:  # beyond, they are missed, and told as a gap
                early.append(frame)
    return found


def _hand_out(socket: "zmq.Socket[bytes]", subscription: Subscription) -> None:
    on_frame = subscription.on_frame
    try:
        for _ in range(BURST):
            on_frame(_receive(socket, _NOBLOCK))
    except zmq.Again:
        pass
