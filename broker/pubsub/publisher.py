"""
What a client publishes: one socket under a lock (EVENTS.md).

Rule 1: only the first publish waits, for the broker and what it is subscribed to; later ones never
do. Rule 2: what cannot go out (the broker is away, or its pipe is full) is dropped and counted, and
its number is used up, so that subscribers see the gap. Rule 3: an event of ours that is no event by
EVENTS.md raises, and uses no number.

The socket is an XPUB: a PUB that tells what is subscribed. The broker holds one subscription that
comes after all others (`\\xff`): when it is there, all are; when it is gone, so is the broker.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import zmq

from wakebus.broker.denial import not_running
from wakebus.broker.errors import CLOSED, NotRunning, Refused
from wakebus.broker.protocol.event import OwnStream, encode, frame_of, stamp
from wakebus.broker.protocol.topics import check_topic
from wakebus.broker.pubsub.sequences import Counters
from wakebus.broker.system.fork_safety import detach
from wakebus.broker.system.zmq_options import set_reconnect

HWM: Final = 10_000  # as the broker's own, EVENTS.md
# For what is in the pipe at the end. A frozen broker must not hold a client that ends.
LINGER_MS: Final = 500
# How old the news of subscriptions may be: 300 events at full speed share one look.
NEWS_S: Final = 0.001
SLICE_MS: Final = 20

ALL_THERE: Final = b"\x01\xff"
GONE: Final = b"\x00\xff"
PROBE: Final = b"\x01bus.probe."

# Without the options of zmq.Socket.send, which take as long as the sending itself.
_send: Final = zmq.backend.Socket.send
_NOBLOCK: Final = int(zmq.NOBLOCK)


class Publisher:
    """`address`: the broker's XSUB. `dropped`: events that could not go out."""

    def __init__(self, address: str) -> None:
        self.dropped = 0
        self._address = self._wanted = address
        self._context = zmq.Context()
        self._socket = _open(self._context, address)
        self._lock = threading.RLock()  # a signal handler may publish
        self._counters = Counters()
        self._streams = self._counters.streams
        self._there = self._was_there = self._closed = self._has_waited = False
        self._next_read = 0.0
        self._probes: deque[bytes] = deque(maxlen=64)

    def publish(self, topic: str, fields: Mapping[str, Any] | None, timeout: float) -> None:
        """
        Publish one event; `timeout`: seconds that the very first one waits for the broker.

        Raises BadTopic, Refused (`bus.**`), BadMessage, TooBig; NotRunning until the broker has
        been there once.
        """
        # Not acquire and try: 0.15 µs less, but a Ctrl-C between the two would keep the lock.
        with self._lock:
            try:
                own = self._streams[topic]
            except (KeyError, TypeError):
                own = self._begin_stream(topic)
            n = own.last + 1
            frame = frame_of(own, n, fields, time.time())
            if not self._there or time.monotonic() >= self._next_read:
                self._check_broker(timeout)
            own.last = n
            if not self._there:
                self.dropped += 1
                return
            try:
                _send(self._socket, frame, _NOBLOCK)
            except zmq.ZMQError:  # Again: its pipe is full; others: forked meanwhile
                self.dropped += 1

    def _begin_stream(self, topic: str) -> OwnStream:
        _check(topic)
        return self._counters.add(topic)

    # --- what the broker is subscribed to -------------------------------------------------

    def _check_broker(self, timeout: float) -> None:
        if self._closed:
            raise NotRunning(CLOSED)
        self._read()
        if not self._was_there:
            if not self._has_waited:
                self._wait(timeout)
            if not self._was_there:
                text = f"no broker takes events at {self._address}"
                raise not_running(self._address, text, "nothing was published")

    def _read(self) -> None:
        if self._wanted != self._address:
            self._reconnect()
        self._next_read = time.monotonic() + NEWS_S
        try:
            while True:
                frame = self._socket.recv(zmq.NOBLOCK)
                if frame in (ALL_THERE, GONE):
                    self._there = frame == ALL_THERE
                    self._was_there |= self._there
                elif frame.startswith(PROBE):
                    self._probes.append(frame[1:])
        except zmq.Again:
            pass

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._was_there and not self._closed and time.monotonic() < deadline:
            self._socket.poll(SLICE_MS)
            self._read()
        self._has_waited = True
        if self._closed:
            raise NotRunning(CLOSED)

    def wait_for_probe(self, probe: bytes, timeout: float) -> None:
        """Wait until the subscription `probe` is here, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with self._lock:
                if self._closed:
                    return
                self._read()
                if probe in self._probes or not self._there:
                    return
            time.sleep(NEWS_S)  # without the lock: others publish meanwhile

    def read_news(self) -> None:
        """Read what has come while nobody published, unless somebody does; never waits."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._closed:
                    self._read()
            finally:
                self._lock.release()

    # --- the socket -----------------------------------------------------------------------

    def move_to(self, address: str) -> None:
        """Have the next look connect to `address`; never waits."""
        self._wanted = address

    def _reconnect(self) -> None:
        new, old, self._address = self._wanted, self._address, self._wanted
        try:
            self._socket.connect(new)
            self._socket.disconnect(old)
        except zmq.ZMQError:
            pass  # no address: told as a broker that is away

    def after_fork(self) -> None:
        """In the child of a fork: be closed, without a word to the parent's socket."""
        self._closed, self._there = True, False
        self._lock = threading.RLock()
        detach(self._context)

    def close(self) -> None:
        """Let go of the socket; what is in its pipe has LINGER_MS to get out."""
        self._closed = True  # whoever waits under the lock sees it
        with self._lock:
            self._there = False
            if not self._socket.closed:
                self._socket.close(LINGER_MS)
                self._context.term()


def one_shot(topic: str, fields: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the payload of a `publish`: a publisher of its own for the one event."""
    _check(topic)
    event = stamp(topic, fields, time.time())
    pub = Counters().pub
    encode(topic, pub, 1, event)  # what is no event is told here, as without `confirm`
    return {"topic": topic, "event": event, "pub": pub, "n": 1}


def _check(topic: str) -> None:
    if check_topic(topic).partition(".")[0] == "bus":
        raise Refused(f"{topic}: events below `bus` are the broker's own; name it otherwise")


def _open(context: "zmq.Context[Any]", address: str) -> "zmq.Socket[bytes]":
    socket: zmq.Socket[bytes] = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, HWM)
    socket.setsockopt(zmq.RCVHWM, 0)  # subscriptions: read when something is published
    socket.setsockopt(zmq.XPUB_NODROP, 1)  # a full pipe is told, and so counted
    socket.setsockopt(zmq.IMMEDIATE, 1)  # a broker that goes takes its subscriptions along
    set_reconnect(socket)
    try:
        socket.connect(address)
    except zmq.ZMQError as exc:
        context.destroy(linger=0)
        raise NotRunning(f"no broker can be at {address}: {exc}") from exc
    return socket
