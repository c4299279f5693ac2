"""
The router thread: ROUTER socket in, verbs out (PROTOCOL.md sections 2 and 3).

Rule 1: it never waits for a peer (MANDATORY and NOBLOCK: without them a message to a frozen peer
vanishes or the router stands still, both measured) and never for the disk. Rule 2: every request
is answered, a wrong one by `err`. Rule 3: a fault in one request ends that request only.
"""

import json
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import zmq

from wakebus.broker import (
    __version__,
    acking,
    admin,
    delivering,
    registering,
    sending,
    waiting,
    wire,
)
from wakebus.broker.errors import BadFrame, BadVersion, TooBig, UnknownVerb, WakebusError
from wakebus.broker.hub import Endpoint, Hub, Request, Turn
from wakebus.broker.mailbox import Entry
from wakebus.broker.presence import Holder, Process
from wakebus.broker.state import State
from wakebus.broker.store import Row, Store
from wakebus.broker.storing import StoreThread

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
}


class Router:
    """Owns the ROUTER socket and the hub. Made and run in one thread."""

    def __init__(self, hub: Hub, socket: zmq.Socket[bytes], store: Store) -> None:
        self._hub, self._socket = hub, socket
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        hub.post, hub.reply, hub.fail = self._post, self._reply, self._fail
        _load(hub, store)
        self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._stopping = False
        hub.store = StoreThread(store, self.wake)
        self._sweep()
        self._housekeep()

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

    def stop(self) -> None:
        """Finish what is accepted, then let `run` return."""
        self._stopping = True
        self.wake()

    def run(self) -> None:
        """Serve until `stop`."""
        poller = zmq.Poller()
        for source in (self._socket, self._monitor, self._wake_read):
            poller.register(source, zmq.POLLIN)
        while not self._stopping:
            events = dict(poller.poll(int(self._hub.run_timers() * 1000) + 1))
            self._collect()
            if self._monitor in events:
                self._drain_monitor()
            if self._socket in events:
                self._read()

    def finish(self) -> None:
        """Return when all that was accepted is stored and answered; ends the store thread."""
        self._read()
        while not self._hub.store.idle():
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

    def _collect(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
        self._hub.store.collect(self._hub.guarded)

    def _drain_monitor(self) -> None:
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
        # A process that ends closes its socket a moment before it is gone.
        self._hub.later(0.02, partial(registering.look_for_the_gone, self._hub))

    # --- frames in ------------------------------------------------------------------------

    def _read(self) -> None:
        for _ in range(BURST):
            try:
                conn = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            frame = self._socket.recv(zmq.NOBLOCK, copy=False)
            extra = 0
            while self._socket.getsockopt(zmq.RCVMORE):
                self._socket.recv(zmq.NOBLOCK)
                extra += 1
            self._serve(conn, frame, extra)

    def _serve(self, conn: bytes, frame: zmq.Frame, extra: int) -> None:
        uid, pid = _peer(frame)
        request = Request(conn, 0, {}, uid, pid)
        try:
            if extra:
                raise BadFrame(f"{extra + 1} frames after the identity, not one")
            verb, sequence, payload = wire.decode(frame.bytes, msgspec.json.decode)
            request = Request(conn, sequence, payload, uid, pid)
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
        self._hub.later(SWEEP_S, self._sweep)

    def _housekeep(self) -> None:
        registering.forget_conns(self._hub)
        registering.look_after_names(self._hub)
        before = self._hub.steady_wall() - self._hub.settings.retention_days * 86400
        self._hub.store.submit(lambda store: store.purge(before))
        self._hub.later(HOUSEKEEPING_S, self._housekeep)


def _peer(frame: zmq.Frame) -> tuple[int, int]:
    """Return uid and pid of an ipc peer as the kernel gives them, 0 where it does not."""
    try:
        _, uid, _, pid = str(frame.get("Peer-Address")).split(":")
        return int(uid), int(pid)
    except (ValueError, zmq.ZMQError):
        return 0, 0


def _load(hub: Hub, store: Store) -> None:
    """Fill the hub from the store: names, holders that may come back, open messages."""
    now, wall = hub.clock.mono(), hub.clock.wall()
    for row in store.endpoints():
        hub.endpoints[row["name"]] = _endpoint(hub, row, now)
    for row in store.open_messages():
        endpoint = hub.endpoint(row["endpoint"])
        entry = Entry(row["seq"], row["id"], row["lane"], row["size"], 0.0)
        entry.deadline = now + max(0.0, row["deadline"] - wall)
        entry.deaths = row["deaths"]
        entry.redelivered = bool(row["redelivered"])
        entry.suspect = entry.deaths > 0  # what merely came back is none
        entry.started_before = bool(row["started_before"])
        entry.asks, entry.claimed = bool(row["asks"]), bool(row["claimed"])
        endpoint.mailbox.add(entry)
        if State(row["state"]) is not State.QUEUED:
            _in_hand(hub, endpoint, entry, row, store)


def _in_hand(hub: Hub, endpoint: Endpoint, entry: Entry, row: Row, store: Store) -> None:
    """Take up a delivery that was with a holder when the broker ended."""
    if endpoint.holder is None:  # killed between two commits: it had left
        entry.redelivered = True
        entry.started_before |= row["state"] == State.STARTED
        return
    entry.state, entry.token = State(row["state"]), row["token"]
    endpoint.mailbox.adopt(entry.id)  # in its holder's hands, until that one is gone
    if entry.token and (stored := store.find(entry.id)):
        message = json.loads(stored["message"])
        path = tuple(message.get("path", ()))
        hub.turns[entry.token] = Turn(endpoint.name, entry.id, message.get("hops", 0), path)


def _endpoint(hub: Hub, row: Row, now: float) -> Endpoint:
    endpoint = Endpoint(row["name"], hub.settings, row["seen"])
    endpoint.declared, endpoint.epoch = bool(row["declared"]), row["epoch"]
    endpoint.instance = row["instance"]
    if row["instance"]:
        # After a reboot the pid means nothing: the holder is gone (pid 0 would only be silent).
        here = row["boot"].partition("/")[0] == hub.boot.partition("/")[0]
        process = Process(row["pid"], row["start"]) if here else Process(2**31 - 1)
        endpoint.holder = Holder(row["instance"], process, row["epoch"], None)
        endpoint.holder.beat = now + hub.settings.reclaim_s - hub.settings.stale_s
        endpoint.holder.since = row["seen"]
    return endpoint
