"""
The receiving half of a client: names, handlers, and what is in hand.

Rule 1: an id stays in hand until the broker has confirmed the stored ack; it is listed at every
registration, so that no living handler sees a message twice. Rule 2: callbacks of the transport
run in its IO thread and never wait; handlers run in threads of their own.
"""

import json
import os
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.broker import message as messages
from wakebus.broker import wire
from wakebus.broker.errors import Fenced, NotRegistered, NotRunning, WakebusError
from wakebus.broker.message import Message
from wakebus.broker.transport import Pending, Transport

MAX_OUTCOME: Final = 16 << 10


class Later(NamedTuple):
    """A handler's word: not now. It comes again after `after_s` seconds; only its lane waits."""

    after_s: float
    reason: str = ""


class Refusal(NamedTuple):
    """A handler's word: never. The message becomes a dead letter with this reason."""

    reason: str
    outcome: Mapping[str, Any] | None = None


Outcome = Mapping[str, Any] | None | Later | Refusal


class Delivery:
    """
    A message in a handler's hands.

    `attempt` counts from 1, one more for each holder that died with it; `redelivered`: another
    holder had it before; `started_before`: and had begun to work on it. `asks`: the sender waits
    for an answer; `sender_known`: the sender is an endpoint; `claimed`: the sender is not proven.
    """

    def __init__(self, payload: dict[str, Any], name: str, transport: Transport) -> None:
        self.message: Message = messages.from_wire(payload["message"])
        self.name = name
        self.epoch = int(payload["epoch"])
        self.attempt = int(payload.get("attempt", 1))
        self.redelivered = payload.get("redelivered") is True
        self.started_before = payload.get("started") is True
        self.asks = payload.get("asks") is True
        self.sender_known = payload.get("sender_known") is True
        self.claimed = payload.get("claimed") is True
        self.takes_more = False
        self._transport = transport

    def reference(self) -> dict[str, Any]:
        """Return how the protocol names this delivery."""
        return {"to": self.name, "id": self.message.id, "epoch": self.epoch}

    def started(self, token: str | None = None) -> None:
        """
        Say that work begins; returns once that is stored, so a later redelivery is labelled.

        `token`: sends that show it come provably from this turn. Raises Fenced, NotRegistered or
        NotRunning when the delivery is no longer ours: the work must not begin.
        """
        message = self.message
        payload = {**self.reference(), "hops": message.hops, "path": list(message.path)}
        if token is not None:
            payload["token"] = token
        pending = self._transport.request("started", payload)
        pending.wait(None)  # ends with the answer or with the client
        if pending.error is not None:
            raise pending.error
        if pending.answer is None:
            raise NotRunning("this client is closed")

    def take_more(self) -> None:
        """Take the lane's next message too while this one is in hand (for coalescing)."""
        self.takes_more = True
        self._transport.request("got", {**self.reference(), "more": True}, fleeting=True)


class _Name:
    """An endpoint that this client holds, or is about to."""

    def __init__(
        self,
        handler: Callable[[Delivery], Outcome],
        on_lost: Callable[[str], None] | None,
        takeover: bool,
    ) -> None:
        self.handler, self.on_lost, self.takeover = handler, on_lost, takeover
        self.epoch = 0
        self.settled = threading.Event()  # the first claim was granted or refused
        self.error: WakebusError | None = None
        self.hands: dict[str, Delivery] = {}
        self.finished: set[str] = set()


class Receiver:
    """All names of one client."""

    def __init__(self, transport: Transport, instance: str) -> None:
        self._transport, self._instance = transport, instance
        self._names: dict[str, _Name] = {}
        self._lock = threading.Lock()
        self._jobs = _Threads()

    def own_name(self) -> str | None:
        """Return the first name held."""
        with self._lock:
            return next((name for name, held in self._names.items() if held.epoch), None)

    def register(
        self,
        name: str,
        handler: Callable[[Delivery], Outcome],
        takeover: bool,
        on_lost: Callable[[str], None] | None,
        timeout: float,
    ) -> int:
        """Claim `name` and wait for the grant; return the epoch."""
        messages.check_name(name, "endpoint")
        held = _Name(handler, on_lost, takeover)
        with self._lock:
            self._names[name] = held
        # Not connected yet: the first connect greets with every name, this one too.
        if self._transport.connected(0):
            self._hello()
            self._claim(name, held)
        if not held.settled.wait(timeout) or held.error is not None:
            self.forget(name)
            self._transport.request("unregister", {"name": name}, fleeting=True)
            raise held.error or NotRunning(
                f"no broker answered at {self._transport.address} within {timeout:g} s"
            )
        return held.epoch

    def _hello(self) -> None:
        versions = {"min": wire.VERSION, "max": wire.VERSION}
        facts = {"instance": self._instance, "pid": os.getpid()}
        self._transport.request("hello", {**versions, **facts}, fleeting=True)

    def _claim(self, name: str, held: _Name) -> None:
        with self._lock:
            holding = [
                {"id": id, "more": delivery.takes_more} for id, delivery in held.hands.items()
            ]
        payload = {"name": name, "takeover": held.takeover, "holding": holding}
        answered = partial(self._answered, name, held)
        self._transport.request("register", payload, answered, fleeting=True)

    def greet(self) -> None:
        """Register every name (again), at each connect (IO thread)."""
        with self._lock:
            names = list(self._names.items())
        if names:
            self._hello()
        for name, held in names:
            self._claim(name, held)

    def _answered(self, name: str, held: _Name, pending: Pending) -> None:
        if pending.answer is not None:
            self._granted(held, pending.answer)
        elif pending.error is not None and not held.settled.is_set():
            held.error = pending.error
        elif pending.error is not None and not pending.error.retry:
            self._lost(name, str(pending.error))
        if pending.answer is not None or pending.error is not None:
            held.settled.set()

    def _granted(self, held: _Name, answer: dict[str, Any]) -> None:
        with self._lock:
            held.epoch = int(answer["epoch"])
            held.takeover = False  # the loser of a later takeover does not fight back
            for id in answer.get("ended", ()):
                if id in held.finished:
                    held.finished.discard(id)
                    held.hands.pop(id, None)

    def _lost(self, name: str, why: str) -> None:
        with self._lock:
            held = self._names.pop(name, None)
        if held is not None and held.on_lost is not None:
            self._jobs.run(lambda: held.on_lost and held.on_lost(why))

    def beat(self) -> None:
        """Show that this client is alive (IO thread)."""
        with self._lock:
            any_held = any(held.epoch for held in self._names.values())
        if any_held:
            self._transport.request("beat", {}, self._beaten, fleeting=True)

    def _beaten(self, pending: Pending) -> None:
        if isinstance(pending.error, NotRegistered):
            self.greet()

    def on_frame(self, verb: str, payload: dict[str, Any]) -> None:
        """Take what the broker says by itself (IO thread)."""
        if verb == "deliver":
            self._deliver(payload)
        elif verb == "fenced":
            self._lost(str(payload.get("to")), "another client took the name over")

    def _deliver(self, payload: dict[str, Any]) -> None:
        name = str(payload.get("to"))
        try:
            delivery = Delivery(payload, name, self._transport)
        except (WakebusError, KeyError, TypeError, ValueError):
            return  # no broker of ours writes this
        with self._lock:
            held = self._names.get(name)
            if held is None or (held.epoch and delivery.epoch != held.epoch):
                return  # sent to a registration that is no more; the broker has it still
            if delivery.message.id in held.hands:
                return
            held.hands[delivery.message.id] = delivery
        self._transport.request("got", delivery.reference(), fleeting=True)
        self._jobs.run(lambda: self._handle(held, delivery))

    def _handle(self, held: _Name, delivery: Delivery) -> None:
        try:
            outcome = held.handler(delivery)
        except (Fenced, NotRegistered, NotRunning):
            self._let_go(held, delivery)
            return
        except Exception as exc:
            last = traceback.extract_tb(exc.__traceback__)[-1]
            where = f"{Path(last.filename).name}:{last.lineno}"
            outcome = Refusal(f"the handler failed: {type(exc).__name__}: {exc} ({where})")
        self._end(held, delivery, outcome)

    def _end(self, held: _Name, delivery: Delivery, outcome: Outcome) -> None:
        with self._lock:
            held.finished.add(delivery.message.id)
        verb, fields = _ack(outcome)

        def confirmed(pending: Pending) -> None:
            if isinstance(pending.error, NotRegistered) and held in self._names.values():
                self.greet()  # then the ack is in order
                self._transport.request(verb, payload, confirmed)
            elif pending.answer is not None or isinstance(pending.error, WakebusError):
                self._let_go(held, delivery)

        payload = {**delivery.reference(), **fields}
        self._transport.request(verb, payload, confirmed)

    def _let_go(self, held: _Name, delivery: Delivery) -> None:
        with self._lock:
            held.hands.pop(delivery.message.id, None)
            held.finished.discard(delivery.message.id)

    def forget(self, name: str) -> str:
        """Stop holding `name` on this side; return it."""
        with self._lock:
            self._names.pop(name, None)
        return name

    def leave(self, timeout: float) -> None:
        """Give all names up, waiting at most `timeout` seconds."""
        with self._lock:
            names = list(self._names)
            self._names.clear()
        left = [self._transport.request("unregister", {"name": name}) for name in names]
        for pending in left:
            if not pending.wait(timeout):
                break
        self._jobs.stop()


def _ack(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    """Return verb and fields for what a handler returned; an impossible outcome is said so."""
    if isinstance(outcome, Later):
        return "later", {"after_s": max(0.0, min(float(outcome.after_s), 86400.0))}
    if isinstance(outcome, Refusal):
        return "refused", {"reason": outcome.reason[:1000], "outcome": _bounded(outcome.outcome)}
    if outcome is not None and not isinstance(outcome, Mapping):
        kind = type(outcome).__name__
        return "handled", {"outcome": {"note": f"the handler returned a {kind}, no mapping"}}
    return "handled", {"outcome": _bounded(outcome)}


def _bounded(outcome: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    try:
        size = len(json.dumps(outcome, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as exc:
        return {"note": f"the outcome is not JSON: {str(exc)[:200]}"}
    if size > MAX_OUTCOME:
        return {"note": f"the outcome was dropped: {size} bytes, the limit is {MAX_OUTCOME}"}
    return dict(outcome)


class _Threads:
    """Daemon threads, reused: handlers may wait for minutes, and exit must not wait for them."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._idle = 0
        self._count = 0
        self._lock = threading.Lock()

    def run(self, job: Callable[[], object]) -> None:
        """Run `job` in a thread; never waits."""
        with self._lock:
            need = self._idle == 0
            if need:
                self._count += 1
            else:
                self._idle -= 1
        self._jobs.put(job)
        if need:
            threading.Thread(target=self._work, name="wakebus handler", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            with self._lock:
                self._idle += 1

    def stop(self) -> None:
        """Let idle threads end."""
        with self._lock:
            for _ in range(self._count):
                self._jobs.put(None)


__all__ = ["Delivery", "Later", "Outcome", "Receiver", "Refusal"]
