"""
What a client has in its hands: deliveries, their handlers, and what is said of them.

Rule 1: an id stays in hand until the broker has confirmed the stored ack; it is listed at every
registration, so that no living handler sees a message twice, also after its name was given up and
registered again. Rule 2: `take` and the transport's callbacks run in the IO thread and never wait;
handlers run in threads of their own. Rule 3: the transport is never called with `_lock` held: it
calls back with its own lock held. `_saying` may be held; no callback under that lock takes it.
"""

import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from wakebus.broker.client.connection import Transport
from wakebus.broker.client.delivery import Delivery
from wakebus.broker.client.pending_request import Pending
from wakebus.broker.errors import CLOSED, Fenced, NotRegistered, NotRunning, WakebusError
from wakebus.broker.protocol.outcome import Later, Outcome, Refusal, ack
from wakebus.broker.system.fork_safety import FORKED

NO_THREAD_S: Final = 1.0  # a message comes again after this when no thread can start
LOOK_S: Final = 1.0  # how long a word may wait in a forked child, where no answer can come

Handler = Callable[[Delivery], Outcome]
Key = tuple[str, str]  # name and id
# Has a handler run, without waiting, and says `done`; RuntimeError: it cannot, it has no thread.
Run = Callable[["Hands", Handler, Delivery], None]


class Word:
    """What is to be said of a delivery. `settle(error)`: it is stored, or never will be."""

    __slots__ = ("delivery", "fields", "pending", "settle", "verb")

    def __init__(
        self,
        delivery: Delivery,
        verb: str,
        fields: dict[str, Any],
        settle: Callable[[WakebusError | None], object],
    ) -> None:
        self.delivery, self.verb, self.fields, self.settle = delivery, verb, fields, settle
        self.pending: Pending | None = None


class Names(Protocol):
    """What this file must know of names."""

    def epoch_of(self, name: str) -> int | None:
        """Return the epoch, 0 before the first grant, None when the name is not held."""

    def say_again(self, word: Word) -> bool:
        """Have `word` said once the name is registered again; False when it is not held."""


class Hands:
    """See the module's rules."""

    def __init__(self, transport: Transport, names: Names, run: Run) -> None:
        self._transport, self._names, self._run = transport, names, run
        self._held: dict[Key, Delivery] = {}
        self._acks: dict[Key, Word] = {}  # on their way, of what is held
        self.after_fork()

    def after_fork(self) -> None:
        """In the child of a fork: what is in hand is the parent's; only the locks are made anew."""
        self._lock = threading.Lock()
        self._saying = threading.RLock()

    def holding(self, name: str) -> list[dict[str, Any]]:
        """Return what a registration of `name` lists."""
        with self._lock:
            return [
                {"id": id, "more": delivery.takes_more}
                for (to, id), delivery in self._held.items()
                if to == name
            ]

    def ended(self, name: str, ids: list[Any]) -> None:
        """Let go of what the broker has the ack of already."""
        with self._lock:
            for key in [(name, str(id)) for id in ids]:
                if self._acks.pop(key, None):
                    self._held.pop(key, None)

    def take(self, payload: dict[str, Any], handler: Handler) -> None:
        """Take a delivery and hand it to `handler`, unless that has it already (IO thread)."""
        try:
            delivery = Delivery(payload, str(payload["to"]), self._speak)
        except (WakebusError, KeyError, TypeError, ValueError):
            return  # no broker of ours writes this
        key = (delivery.name, delivery.message.id)
        with self._lock:
            before, word = self._held.get(key), self._acks.get(key)
        if before is not None and not self._put_off(key, word):
            return
        with self._lock:
            self._held[key] = delivery
        self._transport.request("got", self._reference(delivery), fleeting=True)
        try:
            self._run(self, handler, delivery)
        except RuntimeError:  # the process has no thread to spare
            self._end(delivery, Later(NO_THREAD_S))

    def _put_off(self, key: Key, word: Word | None) -> bool:
        """
        Whether what is held was answered `later`, so that this is its next delivery.

        Then the broker has the ack, though its confirmation was lost or is on its way. It is
        dropped: said once more it would take the message out of the handler's hands.
        """
        with self._saying:
            pending = word.pending if word and word.verb == "later" else None
        if pending is None or not pending.written:
            return False
        self._transport.drop(pending)
        with self._lock:
            self._acks.pop(key, None)
        return True

    def handle(self, handler: Handler, delivery: Delivery) -> None:
        """Call the handler, in this thread, and say what came of it."""
        try:
            outcome = handler(delivery)
        # Also SystemExit: a handler that ends its thread would block its lane for ever.
        except BaseException as exc:
            if self._transport.forked:  # in here; the child ends with it
                raise
            outcome = failed(exc)
        self.done(delivery, outcome)

    def done(self, delivery: Delivery, outcome: Outcome) -> None:
        """Say what a handler made of its delivery (any thread)."""
        if delivery.lost:
            self._let_go(delivery)
        else:
            self._end(delivery, outcome)

    def _end(self, delivery: Delivery, outcome: Outcome) -> None:
        verb, fields = ack(outcome)
        word = Word(delivery, verb, fields, partial(self._acknowledged, delivery, verb))
        with self._lock:
            self._acks[delivery.name, delivery.message.id] = word
        self.say(word)

    def _acknowledged(self, delivery: Delivery, verb: str, error: WakebusError | None) -> None:
        if error is None or isinstance(error, NotRegistered) or verb == "refused":
            self._let_go(delivery)
        elif not isinstance(error, NotRunning):  # closed: nobody is left to hear of it
            self._end(delivery, Refusal(f"its receiver's answer was not taken: {error}"))

    def _let_go(self, delivery: Delivery) -> None:
        key = (delivery.name, delivery.message.id)
        with self._lock:
            if self._held.get(key) is delivery:
                del self._held[key]
                self._acks.pop(key, None)

    # --- what is said of a delivery -------------------------------------------------------

    def _reference(self, delivery: Delivery) -> dict[str, Any]:
        # The epoch of now: a new registration lists what is in hand, and takes it along.
        epoch = self._names.epoch_of(delivery.name) or delivery.epoch
        return {"to": delivery.name, "id": delivery.message.id, "epoch": epoch}

    def say(self, word: Word) -> None:
        """Tell the broker, again after each registration until it is stored or the name lost."""
        if self._names.epoch_of(word.delivery.name) is None:
            word.settle(NotRegistered(f"this client no longer holds {word.delivery.name}"))
            return
        payload = {**self._reference(word.delivery), **word.fields}
        with self._saying:  # the broker may be quicker than the assignment
            word.pending = self._transport.request(word.verb, payload, partial(self._said, word))

    def _said(self, word: Word, pending: Pending) -> None:
        error = pending.error
        if isinstance(error, Fenced | NotRegistered):
            if self._names.say_again(word):
                return
            error = NotRegistered(str(error))
        if pending.answer is None and error is None:
            error = NotRunning(CLOSED)
        word.settle(error)

    def _speak(self, delivery: Delivery, verb: str, fields: dict[str, Any], wait: bool) -> None:
        """Say something of a delivery for its handler; with `wait` until it is stored."""
        if not wait:
            payload = {**self._reference(delivery), **fields}
            self._transport.request(verb, payload, fleeting=True)
            self._check_fork()
            return
        stored = threading.Event()
        errors: list[WakebusError] = []

        def settle(error: WakebusError | None) -> None:
            errors.extend([error] if error else [])
            stored.set()

        self.say(Word(delivery, verb, fields, settle))
        while not stored.wait(LOOK_S):  # ends with the answer, with the name or with the client
            self._check_fork()
        if errors:
            lose(delivery, errors[0])
            raise errors[0]

    def _check_fork(self) -> None:
        if self._transport.forked:
            raise NotRunning(FORKED)


def lose(delivery: Delivery, error: WakebusError) -> None:
    """Take it that `started` was answered with `error`: it may be no longer ours."""
    delivery.lost = isinstance(error, Fenced | NotRegistered | NotRunning)


def failed(exc: BaseException) -> Refusal:
    """Return the outcome of a handler that raised."""
    what = traceback.format_exception_only(exc)[-1].strip()  # also where `str(exc)` fails
    last = traceback.extract_tb(exc.__traceback__)[-1]
    return Refusal(f"the handler failed: {what} ({Path(last.filename).name}:{last.lineno})")
