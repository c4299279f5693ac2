"""
The service that takes texts to chats: endpoint `courier`, one message at a time per lane.

Rule 1: `body.channel` says where, `body.text` says what; the type means nothing here. Rule 2:
what cannot work is refused with its reason before anything is performed. Rule 3: what was
certainly not accepted comes again, without end until the message expires. Rule 4: what may have
been accepted is sent again only while its key makes that safe; else it is said to be uncertain.
Rule 5: what was sent is written down (progress.py) before the next step, so that neither a kill
nor a takeover sends a part twice. Rule 6: a courier never starts a broker and never gives up: it
waits for its name. Rule 7: told to stop, or without its name, it begins nothing more.
"""

import logging
import math
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TextIO, TypeVar

from wakebus.adapters.abilities import KeysByWay
from wakebus.adapters.base import Adapter, ChannelResult, Target, Transport
from wakebus.adapters.errors import DeliveryError, NotSent, Rejected, Uncertain
from wakebus.adapters.markup import line
from wakebus.adapters.progress import Book, Notes, Overtaken
from wakebus.adapters.send import Tools, address, deliver, result_of, transports
from wakebus.adapters.settings import Environment
from wakebus.adapters.tokens import Tokens
from wakebus.broker import Client, Delivery, Later, Outcome, Refusal
from wakebus.broker.errors import NotNow, WakebusError
from wakebus.broker.message import Message
from wakebus.broker.paths import bus_dir

log = logging.getLogger(__name__)
T = TypeVar("T")

ENDPOINT: Final = "courier"
NOTES: Final = "courier.db"
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
ASKED_S: Final = 0.05  # between looks whether a signal came
LOOK_S: Final = 0.5  # between looks whether the name was lost
DRAIN_S: Final = 1.2  # for requests under way at the end; the broker kills a service after 2 s
MAX_LANES: Final = 10_000  # of waiting lanes remembered; a forgotten one only waits 1 s again


class Waiting(NamedTuple):
    """A lane's message that went back to the broker, and how often."""

    id: str
    tries: int


class Courier:
    """The handler. `env`, `now`, `jitter`, the transports and the notes are given by the host."""

    def __init__(
        self,
        performers: Mapping[str, Transport],
        book: Book,
        *,
        env: Callable[[], Mapping[str, str]],
        now: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._performers, self._book, self._env = performers, book, env
        self._now, self._jitter = now, jitter
        self._tokens = Tokens()
        # One lane runs in one thread, so two threads never work on the same message.
        self._waiting: dict[str, Waiting] = {}
        self._busy = 0
        self._rest = threading.Condition()

    def handle(self, delivery: Delivery, halt: threading.Event) -> Outcome:
        """
        Take one message to its chat; what the broker is told is what became of it.

        `halt`: set when this courier stops, or has lost its name: nothing more is begun.
        """
        with self._rest:
            self._busy += 1
        try:
            if halt.is_set():
                return Later(FIRST_WAIT_S, "the courier stops")
            return self._handle(delivery, halt)
        finally:
            with self._rest:
                self._busy -= 1
                self._rest.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait for what is under way; return whether all of it has ended."""
        with self._rest:
            return self._rest.wait_for(lambda: not self._busy, seconds)

    def _handle(self, delivery: Delivery, halt: threading.Event) -> Outcome:
        message = delivery.message
        try:
            adapter, target = self._address(message)
        except DeliveryError as exc:
            return self._end(message, result_of(exc), None)
        try:
            notes = None if always_safe(adapter) else self._take(delivery)
            if notes and notes.lost:
                doubt = Uncertain("an earlier attempt may have been accepted; not sent again")
                return self._end(message, result_of(doubt, target), notes)
            delivery.started()
        except NotSent as exc:
            return self._later(message, result_of(exc, target))
        except NotNow as exc:  # whatever else it raises: the message is no longer ours
            return Later(FIRST_WAIT_S, f"the broker could not store the start: {exc.text}")
        if notes:
            notes.halt = halt
        tools = Tools(
            performers=self._performers, tokens=self._tokens, now=self._now, sleep=halt.wait
        )
        result = deliver(
            *(adapter, target, message.text, message.id, tools),
            progress=notes,
            webhook=session_webhook(message.body, self._now()),
        )
        return self._end(message, result, notes)

    def _address(self, message: Message) -> tuple[Adapter, Target]:
        if not message.channel:
            raise Rejected("the message names no channel; write body.channel, as feishu:oc_1")
        if not message.text.strip():
            raise Rejected("the message has no text (body.text)")
        return address(message.channel, self._env())

    def _take(self, delivery: Delivery) -> Notes:
        """Make the message ours in the notes; raises Overtaken, Unavailable, and as `started`."""
        take = partial(self._book.take, delivery.message.id, delivery.epoch)
        try:
            return take(begun=delivery.started_before)
        except Overtaken:
            # The broker's word decides. It says that we hold it: its epochs began anew (another
            # store), the notes are of the one before.
            delivery.started()
            return take(begun=True, force=True)

    def _end(self, message: Message, result: ChannelResult, notes: Notes | None) -> Outcome:
        """Return what the broker is told, and keep the notes accordingly."""
        # A success is told by the message's own outcome.
        level = logging.DEBUG if result.word == "sent" else logging.WARNING
        to = result.chat or message.channel or "no channel"
        log.log(level, "%s to %s: %s: %s", message.id, line(to), result.word, result.reason)
        if result.again:
            return self._later(message, result)
        self._waiting.pop(message.lane, None)
        if notes:
            notes.over(again=result.word == "rejected")
        outcome = result.to_outcome(self._now())
        return Refusal(result.reason, outcome) if result.word == "rejected" else outcome

    def _later(self, message: Message, result: ChannelResult) -> Later:
        before = self._waiting.pop(message.lane, None)
        tries = before.tries + 1 if before and before.id == message.id else 0
        while len(self._waiting) >= MAX_LANES:
            self._waiting.pop(next(iter(self._waiting)))
        self._waiting[message.lane] = Waiting(message.id, tries)
        wait = result.retry_after
        return Later(backoff(tries, self._jitter()) if wait is None else wait, result.reason)


def always_safe(adapter: Adapter) -> bool:
    """Whether a second request with the same key never makes a second message: no notes needed."""
    return adapter.capabilities.idempotent_s == math.inf and not isinstance(adapter, KeysByWay)


def session_webhook(body: Mapping[str, Any], now: float) -> str | None:
    """Return the URL of `body.session_webhook` {"url", "expires_at": Unix s} while it is good."""
    held = body.get("session_webhook")
    if not isinstance(held, Mapping):
        return None
    url, until = held.get("url"), held.get("expires_at")
    good = isinstance(until, int | float) and not isinstance(until, bool) and now < until
    return url if isinstance(url, str) and url and good else None


def backoff(tries: int, jitter: float) -> float:
    """Return the seconds before try `tries` + 1: 1, 2, 4 … 60, spread by `jitter` (0 to 1)."""
    base = min(FIRST_WAIT_S * 2.0 ** min(tries, 16), LONGEST_WAIT_S)
    # Down only to 3/4: an outage that ends must not find all lanes at the same moment.
    return max(FIRST_WAIT_S, base * (0.75 + jitter / 4))


def serve(stop: threading.Event) -> int:
    """Run as a child of the broker until `stop` is set; return the exit code."""
    return run(stop)


def run_foreground(*, takeover: bool = False) -> int:
    """
    Run in this terminal until Ctrl-C or SIGTERM; console chats are shown as well as kept.

    `takeover`: take the name from the broker's own courier, which has it again afterwards.
    """
    stop = threading.Event()
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not stop.set(): the signal may fall while this thread is inside the Event's own lock.
        signal.signal(number, lambda number, _: asked.append(number))
    threading.Thread(target=_stop_when, args=(asked, stop), daemon=True).start()
    return run(stop, echo=sys.stdout, takeover=takeover)


def _stop_when(asked: list[int], stop: threading.Event) -> None:
    while not asked:
        time.sleep(ASKED_S)
    stop.set()


def run(stop: threading.Event, *, echo: TextIO | None = None, takeover: bool = False) -> int:
    """Hold the endpoint `courier` until `stop` is set, and again whenever it was lost."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    book = Book(bus_dir() / NOTES)
    courier = Courier(transports(bus_dir(), echo), book, env=Environment())
    # The client first: it waits for the broker, which makes the folder.
    if client := persist(Client, stop):
        with client:
            persist(book.open, stop)
            while halt := persist(partial(hold, client, courier, takeover), stop):
                takeover = False  # once: whoever takes the name from us keeps it
                while not stop.wait(LOOK_S) and not halt.is_set():
                    pass
                halt.set()
            courier.drain(DRAIN_S)
    book.close()
    return 0


def hold(client: Client, courier: Courier, takeover: bool) -> threading.Event:
    """Register once; return what is set when the name goes to another."""
    halt = threading.Event()

    def on_lost(why: str) -> None:
        log.warning("%s: the name is lost: %s", ENDPOINT, why)
        halt.set()

    handle = partial(courier.handle, halt=halt)
    epoch = client.register(ENDPOINT, handle, takeover=takeover, on_lost=on_lost)
    log.info("holding %s, epoch %d", ENDPOINT, epoch)
    return halt


def persist(step: Callable[[], T], stop: threading.Event) -> T | None:
    """Return what `step` returns once it raises no WakebusError; None when `stop` is set."""
    tries, said = 0, ""
    while not stop.is_set():
        try:
            return step()
        except WakebusError as exc:
            if said != exc.text:  # once per reason, not once per second
                said = exc.text
                log.warning("%s: not yet (%s): %s", ENDPOINT, exc.code, said)
        stop.wait(backoff(tries, random.random()))
        tries += 1
    return None
