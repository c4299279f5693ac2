"""
The router thread: ROUTER socket in, verbs out (PROTOCOL.md sections 2 and 3).

Rule 1: it never waits for a peer (MANDATORY and NOBLOCK: without them a message to a frozen peer
vanishes or the router stands still, both measured; send_queues.py) and never for the disk. Rule 2:
every request is answered, a wrong one by `err`. Rule 3: a fault in one request ends that request
only. Rule 4: who a peer is, the kernel is asked once for each connection: it costs a tenth of a
whole send (measured).
"""

import logging
import os
import struct
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import zmq

from wakebus.broker import __version__
from wakebus.broker.core.dispatch import resume_deliveries, unmark_unsent
from wakebus.broker.core.holders import release_ended_holders
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest, Effects
from wakebus.broker.core.restore import restore_hub
from wakebus.broker.core.timers import run_guarded
from wakebus.broker.errors import BadFrame, BadVersion, TooBig, UnknownVerb, WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.server import housekeeping
from wakebus.broker.server.connection_limit import ConnectionLimit
from wakebus.broker.server.peer_connection import PeerConnection, close_peer, peer_of_frame
from wakebus.broker.server.proxy import Proxy
from wakebus.broker.server.send_queues import SendQueues
from wakebus.broker.settings import Settings
from wakebus.broker.store.group_commit import Writer
from wakebus.broker.store.recovery import close_store
from wakebus.broker.store.store import Store
from wakebus.broker.system.clock import Clock
from wakebus.broker.system.zmq_options import drain
from wakebus.broker.verbs import VERBS
from wakebus.broker.verbs.fields import FAULT

log = logging.getLogger("wakebus.router")

BURST: Final = 500  # frames read between two looks at the store's results
PEERS: Final = 10_000  # connections that are gone stay among them until then; then all ask again
LAST_WORDS_S: Final = 0.5  # for what waits for peers at the end; one that is frozen holds up none


class Router:
    """
    Owns the ROUTER socket and the hub. Made and run in one thread; all begins with `start`.

    `stopped_for_good`: a client has asked for the end; nobody shall start the broker by itself.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        store: Store,
        proxy: Proxy,
        limit: ConnectionLimit,
        chosen: Settings,
        clock: Clock,
        boot: str,
        services: frozenset[str],
    ) -> None:
        self._socket, self._store, self._proxy, self._limit = socket, store, proxy, limit
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._stopping = self.stopped_for_good = False
        self._peers: dict[bytes, PeerConnection] = {}
        self._calls: deque[Callable[[], None]] = deque()
        writer = Writer(store, self.wake, close_store)
        self._out = SendQueues(self._send, self._later, self._on_room, self._close_peer)
        effects = Effects(
            self._out.offer_frame,
            self._out.push_frame,
            self._reply,
            self._fail,
            writer,
            proxy.publish,
            proxy.request_figures,
            self._stop_for_good,
        )
        self._hub = Hub(chosen, clock, boot, effects, services)

    def restore(self) -> None:
        """Fill the hub from the store. Raises sqlite3.Error."""
        housekeeping.restore_clock(self._hub, self._store)
        restore_hub(self._hub, self._store)

    def start(self) -> None:
        """Begin what runs by itself: the writer thread, the timers, the look at connections."""
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_ACCEPTED)
        self._store.quota.limit = self._hub.settings.store_bytes
        self._hub.store.start()
        housekeeping.start(self._hub, self._limit)

    @property
    def boot(self) -> str:
        """The machine's boot, and something new at every start of the broker."""
        return self._hub.boot

    @property
    def wake_fd(self) -> int:
        """Writing a byte here makes the loop look up (a signal's wakeup fd)."""
        return self._wake_write

    def wake(self) -> None:
        """Make the loop look up; from any thread."""
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            pass  # it is about to look anyway

    def call_soon(self, act: Callable[[], None]) -> None:
        """Have `act` called by the router thread; from any thread."""
        self._calls.append(act)
        self.wake()

    @property
    def bus_pub(self) -> str:
        """The publisher of the broker's own events."""
        return self._hub.events.pub

    def stop(self) -> None:
        """Finish what is accepted, then let `run` return."""
        self._stopping = True
        self.wake()

    def _stop_for_good(self) -> None:
        self.stopped_for_good = True
        self.stop()

    def run(self, while_: Callable[[], bool] | None = None) -> None:
        """Serve until `stop`, or while that holds; then `wake` makes it look."""
        goes_on = while_ or (lambda: not self._stopping)
        poller = zmq.Poller()
        proxy_sockets = (self._proxy.publisher, self._proxy.control)
        for source in (self._socket, self._monitor, self._wake_read, *proxy_sockets):
            poller.register(source, zmq.POLLIN)
        while goes_on():
            events = dict(poller.poll(int(self._hub.timers.run_due() * 1000) + 1))
            self._collect()
            if self._monitor in events:
                self._drain_monitor()
            self._hear_proxy(events)
            if self._socket in events:
                self._read()

    def finish(self) -> None:
        """Return when all that was accepted is stored and answered; ends the writer thread."""
        self._read()
        housekeeping.checkpoint_clock(self._hub)
        self._finish_work()
        unmark_unsent(self._hub)
        self._finish_work()
        for endpoint in self._hub.endpoints.values():
            if endpoint.holder and endpoint.holder.conn:
                self._out.push_frame(endpoint.holder.conn, wire.encode("going", 0, {}))
        until = time.monotonic() + LAST_WORDS_S
        while len(self._out) and time.monotonic() < until:
            time.sleep(min(self._hub.timers.run_due(), 0.01))
        self.abandon()
        # The pipe stays open until the process ends: a second SIGTERM writes to it.

    def _finish_work(self) -> None:
        while not self._hub.store.idle() or self._proxy.busy:
            self._hear_proxy({self._proxy.control: 1})
            self._drain_monitor()  # libzmq waits when nobody reads it
            self._hub.timers.run_due()
            self._collect()
            zmq.select([self._wake_read], [], [], 0.05)

    def abandon(self) -> None:
        """End the writer thread; nobody is told anything any more."""
        self._hub.store.stop()
        self._socket.disable_monitor()
        self._monitor.close(0)

    def _collect(self) -> None:
        drain(self._wake_read)
        self._hub.store.collect(run_guarded)
        while self._calls:
            run_guarded(self._calls.popleft())

    def _hear_proxy(self, events: dict[Any, int]) -> None:
        if self._proxy.control in events:
            self._proxy.deliver_figures(run_guarded)
        if self._proxy.publisher in events:
            for news in self._proxy.subscriptions():
                self._hub.events.on_subscription(news)

    def _drain_monitor(self) -> None:
        gone = False
        while self._monitor.poll(0):
            event, value = struct.unpack("=HI", self._monitor.recv_multipart()[0])
            if event == zmq.EVENT_ACCEPTED:
                self._limit.on_accept(value)
            gone |= event == zmq.EVENT_DISCONNECTED
        if gone:
            # A process that ends closes its socket a moment before it is gone.
            self._hub.timers.later(0.02, partial(release_ended_holders, self._hub))

    # --- frames in ------------------------------------------------------------------------

    def _read(self) -> None:
        for _ in range(BURST):
            try:
                conn = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            if peer := self._peers.get(conn):
                data = self._socket.recv(zmq.NOBLOCK)
            else:
                frame = self._socket.recv(zmq.NOBLOCK, copy=False)
                peer, data = self._learn_peer(conn, frame), frame.bytes
            extra = 0
            while self._socket.getsockopt(zmq.RCVMORE):
                self._socket.recv(zmq.NOBLOCK)
                extra += 1
            self._serve(ClientRequest(conn, 0, {}, peer.uid, peer.pid), data, extra)

    def _serve(self, request: ClientRequest, data: bytes, extra: int) -> None:
        try:
            if extra:
                raise BadFrame(f"{extra + 1} frames after the identity, not one")
            verb, sequence, payload = wire.decode(data, msgspec.json.decode)
            request = ClientRequest(request.conn, sequence, payload, request.uid, request.pid)
            if verb not in VERBS:
                raise UnknownVerb(f"unknown verb {verb!r}; this broker is {__version__}")
            VERBS[verb](self._hub, request)
        except BadVersion as exc:
            self._fail(request._replace(sequence=exc.data.pop("sequence")), exc)
        except WakebusError as exc:
            self._fail(request, exc)
        except Exception:
            # A bug must cost one request, not the bus; the log has what is needed to mend it.
            log.exception("a request failed")
            self._fail(request, WakebusError(FAULT))

    def _learn_peer(self, conn: bytes, frame: zmq.Frame) -> PeerConnection:
        if len(self._peers) >= PEERS:
            self._peers.clear()
        self._peers[conn] = peer_of_frame(frame)
        return self._peers[conn]

    # --- frames out -----------------------------------------------------------------------

    def _send(self, conn: bytes, frame: bytes) -> None:
        self._socket.send(conn, zmq.SNDMORE | zmq.NOBLOCK)
        self._socket.send(frame, zmq.NOBLOCK)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._hub.timers.later(seconds, act)

    def _on_room(self, conn: bytes) -> None:
        resume_deliveries(self._hub, conn)

    def _close_peer(self, conn: bytes) -> None:
        if peer := self._peers.get(conn):
            close_peer(peer)

    def _reply(self, request: ClientRequest, payload: dict[str, Any]) -> None:
        self._answer(request, "ok", payload)

    def _fail(self, request: ClientRequest, error: WakebusError) -> None:
        self._answer(request, "err", error.to_wire())

    def _answer(self, request: ClientRequest, verb: str, payload: dict[str, Any]) -> None:
        frame = msgspec.json.encode([wire.VERSION, verb, request.sequence, payload])
        if len(frame) > wire.MAX_FRAME:
            error = TooBig(f"the answer has {len(frame)} bytes; a frame has {wire.MAX_FRAME}")
            frame = msgspec.json.encode([wire.VERSION, "err", request.sequence, error.to_wire()])
        self._out.push_frame(request.conn, frame)
