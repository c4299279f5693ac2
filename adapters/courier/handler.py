"""
What the courier does with one message: the decisions, in the order in which they are made.

Rule 1: `body.channel` says where, `body.text` and `body.file` say what, `body.reply_to` to which
message there; the type means nothing here. Rule 2: what cannot work is refused with its reason
before anything is performed. Rule 3: what the permit holds back comes again when its place has
come; the broker is not told that work began. Rule 4: what was certainly not accepted comes again,
without end until the message expires. Rule 5: what may have been accepted is sent again only while
its key makes that safe; else it is said to be uncertain. Rule 6: what was sent is written down
(delivery_log.py) before the next step, so that neither a kill nor a takeover sends a part twice.
Rule 7: no secret of the settings is in any word that leaves here.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wakebus.adapters import channel
from wakebus.adapters.base import ChannelResult, File, Outgoing, Transport
from wakebus.adapters.courier.attachment_memory import FULL_S, AttachmentMemory
from wakebus.adapters.courier.delivery_log import DeliveryLog, MessageRecord, Overtaken
from wakebus.adapters.courier.lane_backoff import FIRST_WAIT_S, LaneBackoff
from wakebus.adapters.delivery import attachments
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.context import DeliveryContext, MemoryRecord
from wakebus.adapters.delivery.deliver import deliver, outgoing_of, result_of
from wakebus.adapters.delivery.retry import STOPS
from wakebus.adapters.errors import DeliveryError, NotSent, Rejected, Uncertain
from wakebus.adapters.pacing.admission import AdmissionControl, Permit
from wakebus.adapters.sanitize import line
from wakebus.adapters.settings.redact import secret_values
from wakebus.broker import Delivery, Later, Outcome, Refusal
from wakebus.broker.errors import NotNow
from wakebus.broker.protocol.message import Message
from wakebus.broker.protocol.outcome import WorkDone

log = logging.getLogger(__name__)

Env = Callable[[], Mapping[str, str]]


class Order(NamedTuple):
    """
    What a message asks for: what is to go out, but its file, and the chat.

    home: the chat's token, where the message names a platform only: the home may change.
    """

    outgoing: Outgoing
    chat: GuardedAdapter
    home: str


class Ended(NamedTuple):
    """
    What became of a message.

    work: what is certain of the work on it, for the time that it waits. held: only held back.
    """

    result: ChannelResult
    record: MessageRecord | None = None
    work: WorkDone = ""
    held: bool = False


class Courier:
    """
    The handler. `env`, `now`, `jitter`, transports, log and admission are given by the host.

    folder: the bus's own, where files lie.
    """

    def __init__(
        self,
        performers: Mapping[str, Transport],
        delivery_log: DeliveryLog,
        *,
        env: Env,
        folder: Path | None = None,
        admission: AdmissionControl | None = None,
        now: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._log, self._env, self._folder, self._now = delivery_log, env, folder, now
        self.admission = admission or AdmissionControl(env)
        self.attachments = AttachmentMemory(folder)
        self._backoff = LaneBackoff(jitter)
        self._context = DeliveryContext(performers, now=now, secrets=self._secrets)
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
                return Later(FIRST_WAIT_S, STOPS)
            return self._handle(delivery, halt)
        finally:
            with self._rest:
                self._busy -= 1
                self._rest.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait for what is under way; return whether all of it has ended."""
        with self._rest:
            return self._rest.wait_for(lambda: not self._busy, seconds)

    def save_cooldowns(self) -> None:
        """Write down what platforms asked for, so that the next courier waits as well."""
        waits, now = self.admission.long_cooldowns(), self._now()
        if waits is not None:
            self._log.save_cooldowns({name: now + wait for name, wait in waits.items()})

    def restore_cooldowns(self) -> None:
        """Wait for what an earlier courier was asked for."""
        now, saved = self._now(), self._log.cooldowns()
        self.admission.restore_cooldowns({name: at - now for name, at in saved.items()})

    def _handle(self, delivery: Delivery, halt: threading.Event) -> Outcome:
        try:
            order = self._read(delivery.message)
            ended = self._carry_out(delivery, order, halt)
        except DeliveryError as exc:  # of reading: there is no chat yet that could be told of
            ended = Ended(result_of(exc, secrets=self._secrets()))
        except NotNow as exc:  # whatever else it raises: the message is no longer ours
            return Later(FIRST_WAIT_S, f"the broker could not store the start: {exc.text}")
        return self._conclude(delivery.message, ended)

    def _read(self, message: Message) -> Order:
        """Return what it asks for, or raise; of a bare platform parts may be in an earlier home."""
        if not message.channel:
            raise Rejected("the message names no channel; write body.channel, as feishu:oc_1")
        text = message.text
        if not text.strip() and message.body.get("file") is None:
            raise Rejected("the message has no text (body.text) and no file (body.file)")
        outgoing = outgoing_of(text, message.id, message.body, self._now())
        asked = channel.parse(message.channel)
        bare = asked.chat_id is None
        begun = self._log.chat(message.id) if bare else ""
        chat = GuardedAdapter.resolve(channel.parse(begun) if begun else asked, self._env())
        return Order(outgoing, chat, (begun or chat.token) if bare else "")

    def _carry_out(self, delivery: Delivery, order: Order, halt: threading.Event) -> Ended:
        """Admit, record and deliver; return what became of it. Raises DeliveryError before all."""
        message, target = delivery.message, order.chat.target
        record: MessageRecord | None = None
        work: WorkDone = ""
        host = order.chat.host(order.outgoing)
        with self.admission.permit(target, order.chat.card.limits, message.id, host) as permit:
            try:
                with self._admit(message, permit) as file:
                    record = self._record(delivery, order)
                    result = self._deliver(delivery, order, file, permit, record, halt)
                    work = work_of(result, record)
            except DeliveryError as exc:
                result = result_of(exc, target, self._secrets())
            permit.result = result
        return Ended(result, record, work, held=permit.untried)

    @contextmanager
    def _admit(self, message: Message, permit: Permit) -> Iterator[File | None]:
        """Hold the memory for its file while it goes out, and load it, once it may; else raise."""
        with self.attachments.reserve(message.body) as reserved:
            if not reserved:
                permit.defer(self.attachments.full(), FULL_S)
            permit.enter()
            yield attachments.load(message.body, self._folder)

    def _record(self, delivery: Delivery, order: Order) -> MessageRecord | None:
        """
        Make the message ours in the log; None where no resend could ever double it.

        Raises Overtaken, Unavailable, NotSent, and as `started`.
        """
        chat, home = order.chat, order.home
        if chat.always_safe and not home and chat.lookup() is None:
            return None
        claim = partial(self._log.claim, delivery.message.id, delivery.epoch, home)
        try:
            record = claim(begun=delivery.started_before)
        except Overtaken:
            # The broker's word decides. It says that we hold it: its epochs began anew (another
            # store), the log is of the one before.
            delivery.started()
            record = claim(begun=True, force=True)
        if home and record.chat != home:
            raise NotSent(f"another courier began it meanwhile at {record.chat}, an earlier home")
        return record

    def _deliver(
        self,
        delivery: Delivery,
        order: Order,
        file: File | None,
        permit: Permit,
        record: MessageRecord | None,
        halt: threading.Event,
    ) -> ChannelResult:
        if record:
            record.halt = halt
            if record.lost and not order.chat.always_safe:
                raise Uncertain("an earlier attempt may have been accepted; not sent again")
        delivery.started()
        context = replace(
            self._context, sleep=halt.wait, permit=permit, record=record or MemoryRecord()
        )
        return deliver(order.chat, replace(order.outgoing, file=file), context)

    def _secrets(self) -> set[str]:
        """Return the values of secret settings, which platforms like to quote."""
        try:
            return secret_values(self._env())
        except DeliveryError:  # nothing could be read of them so far: none was used
            return set()

    def _conclude(self, message: Message, ended: Ended) -> Outcome:
        """Return what the broker is told, and keep the record accordingly."""
        result, record, work, held = ended
        # A success is told by the message's own outcome; what is held back was not tried.
        level = logging.DEBUG if result.result == "sent" or held else logging.WARNING
        to = result.chat or message.channel or "no channel"
        log.log(level, "%s to %s: %s: %s", message.id, line(to), result.result, result.reason)
        if result.again:
            return self._backoff.defer(message.lane, message.id, result, held=held, work=work)
        self._backoff.reset(message.lane)
        if record:
            record.finish(again=result.result == "rejected")
        outcome = result.to_outcome(self._now())
        if result.result == "rejected":
            return Refusal(result.reason, outcome)
        self.attachments.expire(message.body, self._now())
        return outcome


def work_of(result: ChannelResult, record: MessageRecord | None) -> WorkDone:
    """Return what is certain of the work on a message, for the time that it waits."""
    if result.result == "uncertain":
        return "maybe"
    done = record.parts() if record else result.done
    return "none" if result.result == "not_sent" and not done else ""
