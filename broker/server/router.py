"""
The router thread: ROUTER socket in, verbs out (PROTOCOL.md sections 2 and 3).

Rule 1: it never waits for a peer (MANDATORY and NOBLOCK: without them a message to a frozen peer
vanishes or the router stands still, both measured) and never for the disk. Rule 2: every request
is answered, a wrong one by `err`. Rule 3: a fault in one request ends that request only.
"""

import logging
import os
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import zmq

from wakebus.broker import __version__
from wakebus.broker.core import dispatch as delivering
from wakebus.broker.core import ephemeral
from wakebus.broker.core import waiters as waiting
from wakebus.broker.core.hub import Hub, Request
from wakebus.broker.core.restore import load
from wakebus.broker.errors import BadFrame, BadVersion, TooBig, UnknownVerb, WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.server.connection_limit import Door
from wakebus.broker.server.peers import Peers
from wakebus.broker.server.proxy import INSIDE, Proxy
from wakebus.broker.store import clock_marks as marks
from wakebus.broker.store import retention as keeping
from wakebus.broker.store.group_commit import StoreThread
from wakebus.broker.store.store import Store
from wakebus.broker.verbs import acks as acking
from wakebus.broker.verbs import dead_letters as retrying
from wakebus.broker.verbs import events as publishing
from wakebus.broker.verbs import inbox as boxes
from wakebus.broker.verbs import queries as admin
from wakebus.broker.verbs import registration as registering
from wakebus.broker.verbs import send as sending

log = logging.getLogger("wakebus.router")

BURST: Final = 500  # frames read between two looks at the store's results
SWEEP_S: Final = 1.0
HOUSEKEEPING_S: Final = 30.0

Verb = Callable[[Hub, Request], None]
VERBS: Final[dict[str, Verb]] = {
    "register": registering.register,
    "unregister": registering.unregister,
    "beat": registering.beat,
    "send": sending.send,
    "wait": waiting.wait,
    "got": acking.got,
    "started": acking.started,
    "handled": acking.handled,
    "refused": acking.refused,
    "later": acking.later,
    "list": admin.list_endpoints,
    "declare": admin.declare,
    "forget": admin.forget,
    "trace": admin.trace,
    "read": admin.read,
    "status": admin.status,
    "dead": boxes.dead,
    "retry": retrying.retry,
    "purge": retrying.purge,
    "inbox": boxes.inbox,
    "cancel": boxes.cancel,
    "publish": publishing.publish,
    "probe": publishing.probe,
}


class Router:
    """Owns the ROUTER socket and the hub. Made and run in one thread."""

    def __init__(self, hub: Hub, socket: zmq.Socket[bytes], store: Store, door: Door) -> None:
        self._hub, self._socket = hub, socket
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        hub.post, hub.reply, hub.fail = self._post, self._reply, self._fail
        marks.take_up(hub, store)
        load(hub, store)
        self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_ACCEPTED)
        self._stopping = False
        self._peers = Peers()
        self._proxy: Proxy | None = None
        self._asked: deque[Callable[[], None]] = deque()
        self._door = door
        store.room.limit = hub.settings.store_bytes
        hub.store = StoreThread(store, self.wake)
        self._sweep()
        self._housekeep()
        keeping.look_after(hub)
        marks.keep(hub)

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

    def ask(self, act: Callable[[], None]) -> None:
        """Have `act` called by the router thread; from any thread."""
        self._asked.append(act)
        self.wake()

    @property
    def bus_pub(self) -> str:
        """The publisher of the broker's own events."""
        return self._hub.announcer.pub

    def attend(self, proxy: Proxy) -> None:
        """Ask `proxy` for its figures, and publish the broker's own events through it."""
        self._proxy, self._hub.figures = proxy, proxy.ask
        self._hub.announcer.connect(proxy.context, INSIDE)

    def leave(self) -> None:
        """Publish no more."""
        self._hub.announcer.close()

    def stop(self) -> None:
        """Finish what is accepted, then let `run` return."""
        self._stopping = True
        self.wake()

    def run(self, while_: Callable[[], bool] | None = None) -> None:
        """Serve until `stop`, or while that holds; then `wake` makes it look."""
        goes_on = while_ or (lambda: not self._stopping)
        poller = zmq.Poller()
        for source in (self._socket, self._monitor, self._wake_read):
            poller.register(source, zmq.POLLIN)
        if self._proxy and (heard := self._hub.announcer.socket):
            poller.register(heard, zmq.POLLIN)
            poller.register(self._proxy.control, zmq.POLLIN)
        while goes_on():
            events = dict(poller.poll(int(self._hub.run_timers() * 1000) + 1))
            self._collect()
            if self._monitor in events:
                self._drain_monitor()
            self._hear(events)
            if self._socket in events:
                self._read()

    def finish(self) -> None:
        """Return when all that was accepted is stored and answered; ends the store thread."""
        self._read()
        marks.keep_last(self._hub)
        while not self._hub.store.idle() or (self._proxy and self._proxy.busy):
            self._hear({self._proxy and self._proxy.control: 1})
            self._drain_monitor()  # libzmq waits when nobody reads it
            self._hub.run_timers()
            self._collect()
            zmq.select([self._wake_read], [], [], 0.05)
        for endpoint in self._hub.endpoints.values():
            if endpoint.holder and endpoint.holder.conn:
                self._post(endpoint.holder.conn, wire.encode("going", 0, {}))
        self._hub.store.stop()
        self._socket.disable_monitor()
        self._monitor.close(0)
        # The pipe stays open until the process ends: a second SIGTERM writes to it.

    def abandon(self) -> None:
        """End the store thread; nobody is told anything any more."""
        self._hub.store.stop()
        self._socket.disable_monitor()
        self._monitor.close(0)

    def _collect(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
        self._hub.store.collect(self._hub.guarded)
        while self._asked:
            self._hub.guarded(self._asked.popleft())

    def _hear(self, events: dict[Any, int]) -> None:
        if self._proxy and self._proxy.control in events:
            self._proxy.answered(self._hub.guarded)
        if self._hub.announcer.socket in events:
            self._hub.announcer.learn()

    def _drain_monitor(self) -> None:
        gone = False
        while self._monitor.poll(0):
            event, value = struct.unpack("=HI", self._monitor.recv_multipart()[0])
            if event == zmq.EVENT_ACCEPTED:
                self._door.entered(value)
            gone |= event == zmq.EVENT_DISCONNECTED
        if not gone:
            return
        # A process that ends closes its socket a moment before it is gone.
        self._hub.later(0.02, partial(registering.look_for_the_gone, self._hub))

    # --- frames in ------------------------------------------------------------------------

    def _read(self) -> None:
        for _ in range(BURST):
            try:
                conn = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            if peer := self._peers.known(conn):
                data = self._socket.recv(zmq.NOBLOCK)
            else:
                frame = self._socket.recv(zmq.NOBLOCK, copy=False)
                peer, data = self._peers.learn(conn, frame), frame.bytes
            extra = 0
            while self._socket.getsockopt(zmq.RCVMORE):
                self._socket.recv(zmq.NOBLOCK)
                extra += 1
            self._serve(Request(conn, 0, {}, *peer), data, extra)

    def _serve(self, request: Request, data: bytes, extra: int) -> None:
        try:
            if extra:
                raise BadFrame(f"{extra + 1} frames after the identity, not one")
            verb, sequence, payload = wire.decode(data, msgspec.json.decode)
            request = Request(request.conn, sequence, payload, request.uid, request.pid)
            if verb == "hello":
                registering.hello(self._hub, request, self._facts())
            elif verb in VERBS:
                VERBS[verb](self._hub, request)
            else:
                raise UnknownVerb(f"unknown verb {verb!r}; this broker is {__version__}")
        except BadVersion as exc:
            self._fail(request._replace(sequence=exc.data.pop("sequence")), exc)
        except WakebusError as exc:
            self._fail(request, exc)
        except Exception:
            # A bug must cost one request, not the bus; the log has what is needed to mend it.
            log.exception("a request failed")
            self._fail(request, WakebusError("the broker has a fault; its log tells more"))

    def _facts(self) -> dict[str, Any]:
        limits = {"body_bytes": wire.MAX_BODY, "outcome_bytes": acking.MAX_OUTCOME}
        return {"broker": __version__, "boot": self._hub.boot, "limits": limits}

    # --- frames out -----------------------------------------------------------------------

    def _post(self, conn: bytes, frame: bytes) -> bool:
        try:
            self._socket.send(conn, zmq.SNDMORE | zmq.NOBLOCK)
            self._socket.send(frame, zmq.NOBLOCK)
            return True
        except zmq.ZMQError:  # gone (EHOSTUNREACH) or not reading (EAGAIN)
            return False

    def _reply(self, request: Request, payload: dict[str, Any]) -> None:
        self._answer(request, "ok", payload)

    def _fail(self, request: Request, error: WakebusError) -> None:
        self._answer(request, "err", error.to_wire())

    def _answer(self, request: Request, verb: str, payload: dict[str, Any]) -> None:
        # Not taken: the client is gone, or does not read and will ask again after its timeout.
        frame = msgspec.json.encode([wire.VERSION, verb, request.sequence, payload])
        if len(frame) > wire.MAX_FRAME:
            error = TooBig(f"the answer has {len(frame)} bytes; a frame has {wire.MAX_FRAME}")
            frame = msgspec.json.encode([wire.VERSION, "err", request.sequence, error.to_wire()])
        self._post(request.conn, frame)

    # --- by the clock ---------------------------------------------------------------------

    def _sweep(self) -> None:
        registering.look_for_the_gone(self._hub)
        delivering.expire(self._hub)
        ephemeral.end_overdue(self._hub)
        self._door.look()
        self._hub.later(SWEEP_S, self._sweep)

    def _housekeep(self) -> None:
        registering.forget_conns(self._hub)
        registering.look_after_names(self._hub)
        self._hub.later(HOUSEKEEPING_S, self._housekeep)
