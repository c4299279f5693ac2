"""
The names that a client holds: claimed, kept over reconnects, lost (PROTOCOL.md section 5).

Rule 1: at each connect every name is registered before anything else is said. Rule 2: while a
claim is on its way, only its answer tells whose the name is. Rule 3: the loser of a takeover does
not fight back. Rule 4: what was granted with a suffix is kept, and claimed again, under that name.
Threads and locks: as in in_flight.py.
"""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from wakebus.broker.client.connection import ClientConnection
from wakebus.broker.client.delivery import Delivery
from wakebus.broker.client.handler_pool import HandlerPool
from wakebus.broker.client.in_flight import Handler, InFlight, PendingAck, RunHandler
from wakebus.broker.client.pending_request import PendingRequest
from wakebus.broker.denial import not_running
from wakebus.broker.errors import (
    CLOSED,
    NameTaken,
    NotRegistered,
    NotRunning,
    TimedOut,
    WakebusError,
)
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol import wire


class _Registration:
    """An endpoint that this client holds, or is about to. `options`: what a claim says besides."""

    def __init__(
        self,
        asked: str,
        handler: Handler,
        on_lost: Callable[[str], None] | None,
        **options: bool,
    ) -> None:
        self.asked = self.name = asked  # name: as it was granted
        self.handler, self.on_lost = handler, on_lost
        self.options = {"takeover": False, **{word: True for word, on in options.items() if on}}
        self.epoch = 0
        self.claims = 0  # registrations on their way
        self.settled = threading.Event()  # the first claim was granted or refused
        self.error: WakebusError | None = None
        self.acks: list[PendingAck] = []  # to be sent again once the name is granted


class Registrations:
    """All names of one client. `run`: has handlers run, by default in threads."""

    def __init__(
        self, connection: ClientConnection, instance: str, run: RunHandler | None = None
    ) -> None:
        self._connection, self._instance = connection, instance
        self._names: dict[str, _Registration] = {}
        self._lock = threading.Lock()  # made anew in a forked child
        self._pool = HandlerPool()
        self._in_flight = InFlight(connection, self, run or self._run_in_thread)

    def _run_in_thread(self, in_flight: InFlight, handler: Handler, delivery: Delivery) -> None:
        self._pool.run(lambda: in_flight.handle(handler, delivery))

    def after_fork(self) -> None:
        """In the child of a fork: the names are the parent's; nothing is said of them any more."""
        self._lock = threading.Lock()
        self._pool.after_fork()
        self._in_flight.after_fork()

    def in_hand(self) -> Delivery | None:
        """Return the delivery whose handler calls, None where none of ours does."""
        return self._in_flight.in_hand()

    def own_name(self) -> str | None:
        """Return the first name held."""
        with self._lock:
            return next((name for name, held in self._names.items() if held.epoch), None)

    def names(self) -> dict[str, str]:
        """Return what is held: the name that was asked for, and as which it was granted."""
        with self._lock:
            return {held.asked: name for name, held in self._names.items() if held.epoch}

    def _key(self, name: str) -> str | None:
        # Asked for and granted may differ; both mean it.
        asked = (key for key, held in self._names.items() if held.asked == name)
        return name if name in self._names else next(asked, None)

    def epoch_of(self, name: str) -> int | None:
        """Return the epoch, 0 before the first grant, None when the name is not held."""
        with self._lock:
            held = self._names.get(name)
            return held.epoch if held else None

    # --- claiming -------------------------------------------------------------------------

    def register(
        self,
        name: str,
        handler: Handler,
        on_lost: Callable[[str], None] | None,
        timeout: float,
        **options: bool,
    ) -> int:
        """Claim `name` (`takeover`, `suffix`) and wait for the grant; return the epoch."""
        messages.check_name(name, "endpoint")
        held = _Registration(name, handler, on_lost, **options)
        with self._lock:
            if key := self._key(name):
                as_that = f" as {key}" if key != name else ""
                raise NameTaken(f"this client holds {name} already{as_that}", pid=os.getpid())
            self._names[name] = held
        # Not connected yet: the next connect greets with every name, this one too.
        if self._connection.connected(0):
            self._hello()
            self._claim(held)
        if held.settled.wait(timeout):
            if held.error is None:
                return held.epoch
            self._forget(name)
            raise held.error
        self._forget(name)
        self._connection.request("unregister", {"name": held.name}, fleeting=True)
        raise self._no_answer(timeout)

    def _no_answer(self, timeout: float) -> WakebusError:
        where = self._connection.address
        if self._connection.connected(0):
            return TimedOut(f"the broker at {where} did not answer `register` in {timeout:g} s")
        text = f"no broker answers at {where} ({timeout:g} s)"
        return not_running(where, text, "nothing was registered")

    def _hello(self) -> None:
        versions = {"min": wire.VERSION, "max": wire.VERSION}
        facts = {"instance": self._instance, "pid": os.getpid(), "cancel": True}
        self._connection.request("hello", {**versions, **facts}, fleeting=True)

    def _claim(self, held: _Registration) -> None:
        with self._lock:
            held.claims += 1
            payload: dict[str, Any] = {"name": held.name, **held.options}
        payload["holding"] = self._in_flight.holding(payload["name"])
        answered = partial(self._answered, held)
        self._connection.request("register", payload, answered, fleeting=True)

    def greet(self) -> None:
        """Register every name (again), at each connect (IO thread)."""
        with self._lock:
            names = list(self._names.values())
            for held in names:
                held.claims = 0  # what was on its way went with the old connection
        if names:
            self._hello()
        for held in names:
            self._claim(held)

    def _answered(self, held: _Registration, pending: PendingRequest) -> None:
        with self._lock:
            held.claims = max(0, held.claims - 1)
        error = pending.error
        if pending.answer is not None:
            self._granted(held, pending.answer)
        elif error is None or not held.settled.is_set():
            held.error = error or NotRunning(CLOSED)
        elif not error.retry:
            self._lost(held.name, str(error))
        held.settled.set()

    def _granted(self, held: _Registration, answer: dict[str, Any]) -> None:
        name = str(answer.get("name", held.name))
        if not self._rename(held, name):
            return
        with self._lock:
            held.epoch = int(answer["epoch"])
            held.options = {"takeover": False}
            if answer.get("ephemeral") is True:
                held.options["ephemeral"] = True
            acks, held.acks = held.acks, []
        self._in_flight.forget_acked(name, answer.get("ended", []))
        for ack in acks:
            self._in_flight.send_ack(ack)
        self._in_flight.say_unsaid(name)

    def _rename(self, held: _Registration, name: str) -> bool:
        """Hold as what was granted, in the same place; False: it is not wanted any more."""
        if name == held.name:
            return True
        with self._lock:
            wanted, stray = self._names.get(held.name) is held, name not in self._names
            if wanted and stray:
                self._names = {name if h is held else key: h for key, h in self._names.items()}
                held.name = name
                return True
        held.error = NameTaken(f"this client holds {name} already", pid=os.getpid())
        if stray:  # the claim was given up before its answer came
            self._connection.request("unregister", {"name": name}, fleeting=True)
        return False

    def send_ack_later(self, ack: PendingAck) -> bool:
        """Have it sent once its name is registered again; False when it is not held."""
        name = ack.delivery.name
        with self._lock:
            held = self._names.get(name)
            if held is None:
                return False
            held.acks.append(ack)
        if not held.claims:
            self._hello()
            self._claim(held)
        return True

    # --- keeping --------------------------------------------------------------------------

    def heartbeat(self, facts: dict[str, Any]) -> bool:
        """Show that this client is alive, and tell `facts`; False without a name (IO thread)."""
        with self._lock:
            any_held = any(held.epoch for held in self._names.values())
        if any_held:
            self._connection.send_heartbeat(facts, self._heartbeat_answered)
        return any_held

    def _heartbeat_answered(self, pending: PendingRequest) -> None:
        if isinstance(pending.error, NotRegistered):
            self.greet()

    def on_frame(self, verb: str, payload: dict[str, Any]) -> None:
        """Take what the broker says by itself (IO thread)."""
        name = str(payload.get("to"))
        with self._lock:
            held = self._names.get(name)
        if held is None:
            return
        if verb == "deliver":
            # Another epoch: sent to a registration that is no more; the broker has it still.
            if held.claims or payload.get("epoch") == held.epoch:
                self._in_flight.on_deliver(payload, held.handler)
        elif verb == "cancel":
            self._on_cancel(name, str(payload.get("id")), str(payload.get("reason")))
        elif verb == "fenced" and not held.claims:
            self._lost(name, "another client took the name over")

    def _on_cancel(self, name: str, id: str, reason: str) -> None:
        try:  # in a thread: what a handler does then may take the connection's lock
            self._pool.run(partial(self._in_flight.on_cancel, name, id, reason))
        except RuntimeError:
            pass  # no thread to spare: it goes on to its end, and is dead then

    # --- losing ---------------------------------------------------------------------------

    def _lost(self, name: str, why: str) -> None:
        self._in_flight.on_lost(name)
        held = self._forget(name)
        if held is not None and (on_lost := held.on_lost) is not None:
            try:
                self._pool.run(lambda: on_lost(why))
            except RuntimeError:  # no thread to spare: better here than not at all
                on_lost(why)

    def give_up(self, name: str) -> str:
        """Hold `name` no longer, asked for or granted; return as which it was granted."""
        held = self._forget(name)
        return held.name if held else name

    def _forget(self, name: str) -> _Registration | None:
        """Stop holding `name` on this side; what is in flight stays that until it has ended."""
        with self._lock:
            held = self._names.pop(self._key(name) or name, None)
        for ack in held.acks if held else ():
            ack.settle(NotRegistered(f"this client no longer holds {name}"))
        return held

    def close(self, timeout: float) -> None:
        """Give all names up, waiting at most `timeout` seconds."""
        with self._lock:
            names = list(self._names)
        for name in names:
            if held := self._forget(name):
                held.error = held.error or NotRunning(CLOSED)
                held.settled.set()
        if names and self._connection.connected(0):
            left = [self._connection.request("unregister", {"name": name}) for name in names]
            deadline = time.monotonic() + timeout
            all(pending.wait(max(0.0, deadline - time.monotonic())) for pending in left)
        self._pool.stop()
