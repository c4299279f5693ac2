"""
A client's deliveries in flight: not acknowledged yet. Their handlers, and their acks.

Rule 1: an id stays in flight until the broker has confirmed the stored ack; it is listed at every
registration, so that no living handler sees a message twice, also after its name was given up and
registered again. Rule 2: `on_deliver` and the connection's callbacks run in the IO thread and never
wait; handlers run in threads of their own. Rule 3: the connection is never called with `_lock`
held: it calls back with its own lock held. `_sending` may be held; no callback under that lock
takes it.
"""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from wakebus.broker.client.connection import ClientConnection
from wakebus.broker.client.delivery import Delivery
from wakebus.broker.client.pending_request import PendingRequest
from wakebus.broker.errors import CLOSED, Fenced, NotRegistered, NotRunning, WakebusError
from wakebus.broker.protocol.outcome import Later, Outcome, Refusal, ack_of, bounded
from wakebus.broker.system.fork_safety import FORKED

NO_THREAD_S: Final = 1.0  # a message comes again after this when no thread can start
MAX_UNSAID: Final = 1_000  # acks kept of names that may never be registered again
MAX_ERROR: Final = 300  # characters of what a handler raised, in a reason
CHECK_FORK_S: Final = 1.0  # an ack waits no longer in a forked child, where no answer can come

log: Final = logging.getLogger("wakebus.client")

Handler = Callable[[Delivery], Outcome]
Key = tuple[str, str]  # name and id
# Has a handler run, without waiting, then calls `finish`; RuntimeError: it has no thread for it.
RunHandler = Callable[["InFlight", Handler, Delivery], None]


# Whose handler runs here: a thread's own, and that of a task and of the tasks that it makes.
_running: ContextVar["tuple[InFlight, Delivery] | None"] = ContextVar("wakebus", default=None)


class PendingAck:
    """An ack on its way to the broker. `settle(error)`: it is stored, or never will be."""

    __slots__ = ("delivery", "fields", "pending", "settle", "verb")

    def __init__(
        self,
        delivery: Delivery,
        verb: str,
        fields: dict[str, Any],
        settle: Callable[[WakebusError | None], object],
    ) -> None:
        self.delivery, self.verb, self.fields, self.settle = delivery, verb, fields, settle
        self.pending: PendingRequest | None = None


class HeldNames(Protocol):
    """What must be known of the names that a client holds."""

    def epoch_of(self, name: str) -> int | None:
        """Return the epoch, 0 before the first grant, None when the name is not held."""

    def send_ack_later(self, ack: PendingAck) -> bool:
        """Have it sent once the name is registered again; False when it is not held."""


class InFlight:
    """The deliveries in flight of all names of a client. `run`: has a handler run."""

    def __init__(self, connection: ClientConnection, names: HeldNames, run: RunHandler) -> None:
        self._connection, self._names, self._run = connection, names, run
        self._held: dict[Key, Delivery] = {}
        self._acks: dict[Key, PendingAck] = {}  # on their way, of what is held
        self._unsaid: dict[Key, PendingAck] = {}  # of what is held under names given up
        self._lost: set[str] = set()  # names that others took
        self.after_fork()

    def after_fork(self) -> None:
        """In the child of a fork: all of this is the parent's; only the locks are made anew."""
        self._lock = threading.Lock()
        self._sending = threading.RLock()

    def holding(self, name: str) -> list[dict[str, Any]]:
        """Return what a registration of `name` lists."""
        with self._lock:
            return [
                {"id": id, "more": delivery.takes_more}
                for (to, id), delivery in self._held.items()
                if to == name
            ]

    def forget_acked(self, name: str, ids: list[Any]) -> None:
        """Let go of what the broker has the ack of already."""
        with self._lock:
            for key in [(name, str(id)) for id in ids]:
                if self._acks.pop(key, None) or self._unsaid.pop(key, None):
                    self._held.pop(key, None)

    def on_deliver(self, payload: dict[str, Any], handler: Handler) -> None:
        """Hand a delivery to `handler`, unless that has it already (IO thread)."""
        try:
            delivery = Delivery(payload, str(payload["to"]), self._send_for_handler)
        except (WakebusError, KeyError, TypeError, ValueError):
            return  # no broker of ours writes this
        key = (delivery.name, delivery.message.id)
        with self._lock:
            before, ack = self._held.get(key), self._acks.get(key)
        if before is not None and not self._was_deferred(key, ack):
            return
        with self._lock:
            self._held[key] = delivery
        self._connection.request("got", self._reference(delivery), fleeting=True)
        try:
            self._run(self, handler, delivery)
        except RuntimeError:  # the process has no thread to spare
            self._acknowledge(delivery, Later(NO_THREAD_S))

    def on_cancel(self, name: str, id: str, reason: str) -> None:
        """The broker says that a message was cancelled (any thread but the IO thread)."""
        with self._lock:
            delivery = self._held.get((name, id))
        if delivery is not None:
            delivery.cancel(reason)

    def _was_deferred(self, key: Key, ack: PendingAck | None) -> bool:
        """
        Whether what is held was answered `later`, so that this is its next delivery.

        Then the broker has the ack, though its confirmation was lost or is on its way. It is
        dropped: sent once more it would take the message away from its handler.
        """
        with self._sending:
            pending = ack.pending if ack and ack.verb == "later" else None
        if pending is None or not pending.written:
            return False
        self._connection.drop_request(pending)
        with self._lock:
            self._acks.pop(key, None)
        return True

    def handle(self, handler: Handler, delivery: Delivery) -> None:
        """Call the handler, in this thread, and acknowledge what came of it."""
        try:
            with self.running(delivery):
                outcome = handler(delivery)
        # Also SystemExit: a handler that ends its thread would block its lane for ever.
        except BaseException as exc:
            if self._connection.forked:  # in here; the child ends with it
                raise
            outcome = outcome_of_error(delivery, exc)
        self.finish(delivery, outcome)

    @contextmanager
    def running(self, delivery: Delivery) -> Iterator[None]:
        """Inside, in this thread or task, the handler of this delivery runs."""
        before = _running.set((self, delivery))
        try:
            yield
        finally:
            _running.reset(before)

    def in_hand(self) -> Delivery | None:
        """Return the delivery whose handler calls, None once that has ended or is not ours."""
        owner, delivery = _running.get() or (None, None)
        if owner is not self or delivery is None or delivery.lost:
            return None
        with self._lock:
            held = self._held.get((delivery.name, delivery.message.id))
        return delivery if held is delivery else None

    def finish(self, delivery: Delivery, outcome: Outcome) -> None:
        """Acknowledge what a handler made of its delivery (any thread)."""
        if delivery.cancelled:
            outcome = outcome_of_cancelled(delivery.cancelled, outcome)
        if delivery.lost:
            self._forget(delivery)
        else:
            self._acknowledge(delivery, outcome)

    def _acknowledge(self, delivery: Delivery, outcome: Outcome) -> None:
        verb, fields = ack_of(outcome)
        if "failed" in fields:  # said again to a new broker it must not count twice
            fields["failures"] = delivery.failures + 1
        ack = PendingAck(delivery, verb, fields, partial(self._acknowledged, delivery, verb))
        with self._lock:
            self._acks[delivery.name, delivery.message.id] = ack
        self.send_ack(ack)

    def _acknowledged(self, delivery: Delivery, verb: str, error: WakebusError | None) -> None:
        if isinstance(error, NotRegistered):
            self._keep_unsaid(delivery)
        elif error is None or verb == "refused":
            self._forget(delivery)
        elif not isinstance(error, NotRunning):  # closed: nobody is left to hear of it
            self._acknowledge(delivery, Refusal(f"its receiver's answer was not taken: {error}"))

    def _keep_unsaid(self, delivery: Delivery) -> None:
        """It is done, and its name was given up: said if that is registered again."""
        key = (delivery.name, delivery.message.id)
        if delivery.name in self._lost:
            self._forget(delivery)
            return
        with self._lock:
            ack = self._acks.pop(key, None)
            if ack is not None and self._held.get(key) is delivery:
                self._unsaid[key] = ack
            if len(self._unsaid) > MAX_UNSAID:
                oldest = next(iter(self._unsaid))
                del self._unsaid[oldest], self._held[oldest]
        if self._names.epoch_of(delivery.name):  # granted meanwhile
            self.say_unsaid(delivery.name)

    def on_lost(self, name: str) -> None:
        """Another client has the name: what is done under it is of no use any more."""
        with self._lock:
            self._lost.add(name)

    def say_unsaid(self, name: str) -> None:
        """The name is held again: tell the broker what was done when it was not."""
        with self._lock:
            self._lost.discard(name)
            keys = [key for key in self._unsaid if key[0] == name]
            acks = {key: self._unsaid.pop(key) for key in keys}
            self._acks |= acks
        for ack in acks.values():
            self.send_ack(ack)

    def _forget(self, delivery: Delivery) -> None:
        key = (delivery.name, delivery.message.id)
        with self._lock:
            if self._held.get(key) is delivery:
                del self._held[key]
                self._acks.pop(key, None)

    # --- what the broker is told of a delivery --------------------------------------------

    def _reference(self, delivery: Delivery) -> dict[str, Any]:
        # The epoch of now: a new registration lists what is in flight, and takes it along.
        epoch = self._names.epoch_of(delivery.name) or delivery.epoch
        return {"to": delivery.name, "id": delivery.message.id, "epoch": epoch}

    def send_ack(self, ack: PendingAck) -> None:
        """Tell the broker, again after each registration until it is stored or the name lost."""
        if self._names.epoch_of(ack.delivery.name) is None:
            ack.settle(NotRegistered(f"this client no longer holds {ack.delivery.name}"))
            return
        payload = {**self._reference(ack.delivery), **ack.fields}
        with self._sending:  # the broker may be quicker than the assignment
            ack.pending = self._connection.request(ack.verb, payload, partial(self._answered, ack))

    def _answered(self, ack: PendingAck, pending: PendingRequest) -> None:
        error = pending.error
        if isinstance(error, Fenced | NotRegistered):
            if self._names.send_ack_later(ack):
                return
            error = NotRegistered(str(error))
        if pending.answer is None and error is None:
            error = NotRunning(CLOSED)
        ack.settle(error)

    def _send_for_handler(
        self, delivery: Delivery, verb: str, fields: dict[str, Any], wait: bool
    ) -> None:
        """Tell something of a delivery for its handler; with `wait` until it is stored."""
        if not wait:
            payload = {**self._reference(delivery), **fields}
            self._connection.request(verb, payload, fleeting=True)
            self._check_forked()
            return
        stored = threading.Event()
        errors: list[WakebusError] = []

        def settle(error: WakebusError | None) -> None:
            errors.extend([error] if error else [])
            stored.set()

        self.send_ack(PendingAck(delivery, verb, fields, settle))
        # Ends with the answer, with the name or with the client.
        while not stored.wait(CHECK_FORK_S):
            self._check_forked()
        if errors:
            mark_lost(delivery, errors[0])
            raise errors[0]

    def _check_forked(self) -> None:
        if self._connection.forked:
            raise NotRunning(FORKED)


def mark_lost(delivery: Delivery, error: WakebusError) -> None:
    """Take it that `started` was answered with `error`: it may be no longer ours."""
    delivery.lost = isinstance(error, Fenced | NotRegistered | NotRunning)


def outcome_of_cancelled(reason: str, outcome: Outcome) -> Refusal:
    """Return the outcome of a message that was cancelled: dead, with what was done all the same."""
    done = outcome.outcome if isinstance(outcome, Refusal) else outcome
    told = bounded(None if isinstance(done, Later) else done) or {}
    told.pop("failed", None)  # it was not to succeed
    return Refusal(reason, told)


def outcome_of_error(delivery: Delivery, exc: BaseException) -> Refusal:
    """Log what a handler raised, unless its delivery is lost; return the outcome."""
    if not delivery.lost:
        log.error(
            "the handler of %s failed on %s", delivery.name, delivery.message.id, exc_info=exc
        )
    last = traceback.extract_tb(exc.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return Refusal(f"the handler failed: {_error_line(exc)} ({where})", {"failed": True})


def _error_line(exc: BaseException) -> str:
    """Return class and text of an error in one line, without control characters."""
    told = traceback.TracebackException(type(exc), exc, None)  # also where `str(exc)` fails
    text = f"{type(exc).__name__}: {told}".removesuffix(": ")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_ERROR else f"{line[: MAX_ERROR - 1]}…"
