"""
A client's one IO thread: it owns the DEALER socket and its monitor.

Rule 1: callers hand over frames, wait on a `PendingRequest`, and never touch a socket. Rule 2: a
request that was written and not answered is written again after a reconnect, until its caller
gives up: without this every broker kill made an unknown (measured). Rule 3: nothing in here waits
for the broker; closing never hangs. Rule 4: a forked child has no part in it (fork_safety.py).
"""

import itertools
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import zmq

from wakebus.broker.address import refusal_of_address
from wakebus.broker.client.pending_request import PendingRequest
from wakebus.broker.errors import NotRunning, WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.system.fork_safety import FORKED, detach
from wakebus.broker.system.zmq_options import drain, set_reconnect

REREAD_S: Final = 0.5
BEAT_S: Final = 2.0
FLUSH_S: Final = 0.5


class ClientConnection:
    """
    Frames out, frames in, reconnects.

    `address`: asked at the start and again while disconnected. `greet`: called at each connect.
    `on_frame(verb, payload)`: what the broker says by itself. `heartbeat`: called every 2 s while
    connected. All callbacks run in the IO thread and must not wait. `parent`: in the child of a
    fork the parent's, which is `forked`; this one opens at its first use. Raises NotRunning when no
    socket can connect to the address.
    """

    def __init__(
        self,
        address: Callable[[], str],
        greet: Callable[[], None],
        on_frame: Callable[[str, dict[str, Any]], None],
        heartbeat: Callable[[], None],
        parent: "ClientConnection | None" = None,
    ) -> None:
        self._address, self._greet, self._on_frame = address, greet, on_frame
        self._heartbeat = heartbeat
        # No number twice: a call that was cut off by the fork may still drop its own.
        self.sequence: itertools.count[int] = parent.sequence if parent else itertools.count(1)
        self._current = parent.address if parent else ""
        self._thread: threading.Thread | None = None
        self.forked = False
        self._begin()
        if parent is None:
            self._open()

    def _begin(self) -> None:
        self._pending: dict[int, PendingRequest] = {}
        self._outbox: deque[PendingRequest] = deque()
        self._connected = threading.Event()
        self._closing = self._ended = self._woken = False
        self._left = False  # the socket at the address was not safe
        self._closed_at = 0.0
        self._last_heartbeat: PendingRequest | None = None
        self._lock = threading.RLock()  # callbacks may ask for requests; a signal handler may close

    def _open(self) -> None:
        process = os.getpid()
        self._current = self._address()
        self._context, self._socket, self._monitor = _open(self._current)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        if process != os.getpid():  # a signal handler has forked meanwhile
            detach(self._context)
            self._open()
            return
        self._thread = threading.Thread(target=self._run, name="wakebus io", daemon=True)
        self._thread.start()

    def after_fork(self) -> None:
        """In the child of a fork: be over, and let go of who waits."""
        left = list(self._pending.values())
        self._begin()
        self._closing = self._ended = self.forked = True
        if self._thread is not None:
            detach(self._context)
        for pending in left:
            pending.abandon(NotRunning(FORKED))

    @property
    def address(self) -> str:
        """Where the broker is looked for."""
        return self._current

    def connected(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a connection; return whether there is one."""
        with self._lock:
            if self._thread is None and not self._closing:
                self._open()
        return self._connected.wait(timeout)

    def request(
        self,
        verb: str,
        payload: dict[str, Any],
        notify: Callable[[PendingRequest], object] | None = None,
        *,
        fleeting: bool = False,
    ) -> PendingRequest:
        """Queue a request; any thread. Raises BadFrame for what JSON cannot carry."""
        sequence = next(self.sequence)
        pending = PendingRequest(sequence, wire.encode(verb, sequence, payload), notify, fleeting)
        with self._lock:
            if not self._closing:
                if self._thread is None:
                    self._open()
                self._pending[sequence] = pending
                self._outbox.append(pending)
                self._wake()
                return pending
        pending.error = NotRunning(FORKED) if self.forked else None
        pending.finish()
        return pending

    def drop_request(self, pending: PendingRequest) -> bool:
        """Stop caring for a request; return whether it was ever written."""
        with self._lock:
            if self._pending.pop(pending.sequence, None) and pending in self._outbox:
                self._outbox.remove(pending)
            return pending.written

    @contextmanager
    def asking(self, verb: str, payload: dict[str, Any]) -> Iterator[None]:
        """Ask for as long as this lasts; raise the error that the broker has answered."""
        pending = self.request(verb, payload, fleeting=True)
        try:
            yield
        finally:
            self.drop_request(pending)
        if pending.error is not None:
            raise pending.error

    def send_heartbeat(
        self, facts: dict[str, Any], notify: Callable[[PendingRequest], object] | None = None
    ) -> None:
        """Show that this client is alive, and tell `facts` (IO thread)."""
        if self._last_heartbeat is not None:
            self.drop_request(self._last_heartbeat)  # a silent broker: they must not pile up
        self._last_heartbeat = self.request("beat", facts, notify, fleeting=True)

    def close(self, timeout: float) -> None:
        """End the IO thread; requests without an answer are finished without one."""
        with self._lock:
            self._closing = True
            self._wake()
        if self._thread and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _wake(self) -> None:
        # Under the lock: a descriptor that was closed belongs to somebody else a moment later.
        thread = self._thread
        if self._woken or self._ended or not thread or threading.current_thread() is thread:
            return
        self._woken = True
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            pass  # full: it wakes anyway

    # --- IO thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop(self._socket, self._monitor)
        finally:
            if not self.forked:  # in a callback; then all this is the parent's
                self._socket.disable_monitor()
                self._monitor.close(0)
                self._socket.close(0)
                self._context.term()
                self._end()

    def _end(self) -> None:
        with self._lock:
            self._closing = self._ended = True
            self._connected.clear()
            left = list(self._pending.values())
            self._pending.clear()
            self._outbox.clear()
            os.close(self._wake_read)
            os.close(self._wake_write)
        for pending in left:
            pending.finish()

    def _loop(self, socket: "zmq.Socket[bytes]", monitor: "zmq.Socket[bytes]") -> None:
        poller = zmq.Poller()
        for source in (socket, monitor, self._wake_read):
            poller.register(source, zmq.POLLIN)
        next_beat = next_reread = 0.0
        while not self._closing or self._is_flushing():
            events = dict(poller.poll(50 if self._outbox else 1000))
            if self._wake_read in events:
                drain(self._wake_read)
                self._woken = False  # last, and before the outbox: what comes later wakes again
            if monitor in events:
                self._watch(socket, monitor)
            if socket in events:
                self._read(socket)
            now = time.monotonic()
            if self._connected.is_set():
                if now >= next_beat:
                    next_beat = now + BEAT_S
                    self._heartbeat()
                self._write(socket)
            elif now >= next_reread:
                next_reread = now + REREAD_S
                self._follow_address(socket)

    def _is_flushing(self) -> bool:
        """Whether a closing client still has something to write, and somebody to write it to."""
        self._closed_at = self._closed_at or time.monotonic()
        waiting = bool(self._outbox) and self._connected.is_set()
        return waiting and time.monotonic() - self._closed_at < FLUSH_S

    def _watch(self, socket: "zmq.Socket[bytes]", monitor: "zmq.Socket[bytes]") -> None:
        while monitor.poll(0):
            event = struct.unpack("=HI", monitor.recv_multipart()[0])[0]
            if event == zmq.EVENT_DISCONNECTED:
                self._connected.clear()
            elif self._is_safe():
                self._reconnected()
            else:
                self._leave(socket)

    def _reconnected(self) -> None:
        # In one step, so that nothing is written before the greeting; and connected first, so
        # that a name which misses this greeting sees that it must be claimed by itself.
        with self._lock:
            self._connected.set()
            again = [p for p in self._pending.values() if not p.fleeting]
            self._pending = {p.sequence: p for p in again}
            self._outbox.clear()
            self._greet()
            self._outbox.extend(sorted(again, key=lambda p: p.sequence))

    def _write(self, socket: "zmq.Socket[bytes]") -> None:
        while True:
            with self._lock:
                if not self._outbox:
                    return
                pending = self._outbox[0]
                try:
                    socket.send(pending.frame, zmq.NOBLOCK)
                except zmq.Again:  # a frozen broker: the pipe is full; the poll comes back
                    return
                pending.written = True
                self._outbox.popleft()

    def _read(self, socket: "zmq.Socket[bytes]") -> None:
        for _ in range(500):
            try:
                data = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                verb, sequence, payload = wire.decode(data)
            except WakebusError:
                continue  # no broker of ours writes this
            if verb in ("ok", "err"):
                pending = self._pending.pop(sequence, None)  # in one step: no lock
                if pending is not None:
                    pending.settle(verb, payload)
            else:
                self._on_frame(verb, payload)

    def _is_safe(self) -> bool:
        """Whether it is still nobody else's socket: libzmq reconnects to whoever is there."""
        try:
            return not refusal_of_address(self._current)
        except OSError:
            return False  # who answered is not there any more: it may have been anybody

    def _leave(self, socket: "zmq.Socket[bytes]") -> None:
        """Hear nothing from it and tell it nothing; the address is looked at again."""
        if not self._left:
            self._left = True
            socket.disconnect(self._current)

    def _follow_address(self, socket: "zmq.Socket[bytes]") -> None:
        try:
            found = self._address()
            if found != self._current or self._left:
                socket.connect(found)
                if not self._left:
                    socket.disconnect(self._current)
                self._current, self._left = found, False
        except (WakebusError, zmq.ZMQError):
            pass  # half a file, or no address: looked at again


def _open(address: str) -> "tuple[zmq.Context[Any], zmq.Socket[bytes], zmq.Socket[bytes]]":
    """Return context, DEALER and its monitor; the thread that starts next owns them."""
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IMMEDIATE, 1)  # a message for nobody is not queued: it is "not accepted"
    socket.setsockopt(zmq.LINGER, 0)
    # Answers to what this client has asked: as many as it asked for. At libzmq's own 1,000 a client
    # that paused with 3,000 sends in flight lost the rest of its receipts.
    socket.setsockopt(zmq.RCVHWM, 0)
    set_reconnect(socket)
    monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
    try:
        socket.connect(address)
    except zmq.ZMQError as exc:
        socket.disable_monitor()
        monitor.close(0)
        context.destroy(linger=0)
        raise NotRunning(f"no broker can be at {address}: {exc}") from exc
    return context, socket, monitor
