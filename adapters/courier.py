"""
The service that takes texts to chats: endpoint `courier`, one message at a time per lane.

Rule 1: `body.channel` says where, `body.text` says what; the type means nothing here. Rule 2:
what cannot work is refused with its reason before anything is performed. Rule 3: what was
certainly not accepted comes again, without end until the message expires. Rule 4: what may have
been accepted is sent again only while its key makes that safe; else it is said to be uncertain.
Rule 5: a courier never starts a broker and never gives up: it waits for its name.
"""

import logging
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TextIO, TypeVar

from wakebus.adapters.base import Adapter, ChannelResult, Outgoing, Target, Transport
from wakebus.adapters.errors import DeliveryError, Rejected, Uncertain
from wakebus.adapters.markup import line
from wakebus.adapters.send import address, deliver, result_of, transports
from wakebus.adapters.settings import Environment
from wakebus.broker import Client, Delivery, Later, Outcome, Refusal
from wakebus.broker.errors import NotNow, WakebusError
from wakebus.broker.message import Message
from wakebus.broker.paths import bus_dir

log = logging.getLogger(__name__)
T = TypeVar("T")

ENDPOINT: Final = "courier"
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
ASKED_S: Final = 0.05  # between looks whether a signal came
LOOK_S: Final = 0.5  # between looks whether the name was lost
MAX_LANES: Final = 10_000  # of waiting lanes remembered; a forgotten one only waits 1 s again


class Waiting(NamedTuple):
    """A lane's message that went back to the broker: how often, and whether it may be sent."""

    id: str
    tries: int
    uncertain: bool


class Courier:
    """The handler. `env`, `now`, `jitter` and the transports are replaced by tests."""

    def __init__(
        self,
        performers: Mapping[str, Transport],
        *,
        env: Callable[[], Mapping[str, str]],
        now: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._performers = performers
        self._env = env
        self._now = now
        self._jitter = jitter
        # Of messages sent back: only this process knows how their last attempt ended. One lane
        # runs in one thread, so two threads never work on the same key.
        self._waiting: dict[str, Waiting] = {}

    def handle(self, delivery: Delivery) -> Outcome:
        """Take one message to its chat; what the broker is told is what became of it."""
        message = delivery.message
        try:
            adapter, target = self._address(message)
        except DeliveryError as exc:
            return self._end(message, result_of(exc), safe=False)
        safe = self._now() - message.ts < adapter.capabilities.idempotent_s
        if self._may_be_sent(delivery) and not safe:
            doubt = Uncertain("an earlier attempt may have been accepted; not sent again")
            return self._end(message, result_of(doubt, target), safe=False)
        try:
            delivery.started()
        except NotNow as exc:  # whatever else it raises: the message is no longer ours
            return Later(FIRST_WAIT_S, f"the broker could not store the start: {exc.text}")
        outgoing = Outgoing(message.text, message.id)
        result = deliver(adapter, target, outgoing, self._performers)
        return self._end(message, result, safe=safe)

    def _address(self, message: Message) -> tuple[Adapter, Target]:
        if not message.channel:
            raise Rejected("the message names no channel; write body.channel, as feishu:oc_1")
        if not message.text.strip():
            raise Rejected("the message has no text (body.text)")
        return address(message.channel, self._env())

    def _may_be_sent(self, delivery: Delivery) -> bool:
        message = delivery.message
        waiting = self._waiting.get(message.lane)
        if waiting and waiting.id == message.id:
            return waiting.uncertain
        return delivery.redelivered and delivery.started_before

    def _end(self, message: Message, result: ChannelResult, *, safe: bool) -> Outcome:
        """Return what the broker is told. `safe`: the key makes a resend safe."""
        # A success is told by the message's own outcome; this log has no rotation.
        level = logging.DEBUG if result.word == "sent" else logging.WARNING
        to = result.chat or message.channel or "no channel"
        log.log(level, "%s to %s: %s: %s", message.id, line(to), result.word, result.reason)
        if result.word == "not_sent" or (result.word == "uncertain" and safe):
            return self._later(message, result)
        self._waiting.pop(message.lane, None)
        outcome = result.to_outcome(self._now())
        return Refusal(result.reason, outcome) if result.word == "rejected" else outcome

    def _later(self, message: Message, result: ChannelResult) -> Later:
        before = self._waiting.pop(message.lane, None)
        tries = before.tries + 1 if before and before.id == message.id else 0
        while len(self._waiting) >= MAX_LANES:
            self._waiting.pop(next(iter(self._waiting)))
        self._waiting[message.lane] = Waiting(message.id, tries, result.word == "uncertain")
        wait = result.retry_after
        return Later(backoff(tries, self._jitter()) if wait is None else wait, result.reason)


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
    courier = Courier(transports(bus_dir(), echo), env=Environment())
    if client := persist(Client, stop):
        with client:
            while lost := persist(partial(hold, client, courier, takeover), stop):
                takeover = False  # once: whoever takes the name from us keeps it
                while not stop.wait(LOOK_S) and not lost.is_set():
                    pass
    return 0


def hold(client: Client, courier: Courier, takeover: bool) -> threading.Event:
    """Register once; return what is set when the name goes to another."""
    lost = threading.Event()

    def on_lost(why: str) -> None:
        log.warning("%s: the name is lost: %s", ENDPOINT, why)
        lost.set()

    epoch = client.register(ENDPOINT, courier.handle, takeover=takeover, on_lost=on_lost)
    log.info("holding %s, epoch %d", ENDPOINT, epoch)
    return lost


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
