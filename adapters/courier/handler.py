"""
What the courier does with one message: the decisions, in the order in which they are made.

Rule 1: `body.channel` says where, `body.text` and `body.file` say what, `body.reply_to` to which
message there; the type means nothing here. Rule 2: what cannot work is refused with its reason
before anything is performed. Rule 3: what the gate holds back comes again when its place has come;
the broker is not told that work began. Rule 4: what was certainly not accepted comes again, without
end until the message expires. Rule 5: what may have been accepted is sent again only while its key
makes that safe; else it is said to be uncertain. Rule 6: what was sent is written down
(progress.py) before the next step, so that neither a kill nor a takeover sends a part twice. Rule
7: no secret of the settings is in any word that leaves here.
"""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from wakebus.adapters import channel
from wakebus.adapters.abilities import KeysByWay
from wakebus.adapters.base import Adapter, ChannelResult, File, Target, Transport
from wakebus.adapters.courier.attachment_memory import FULL_S, Spool
from wakebus.adapters.courier.delivery_log import Book, Notes, Overtaken
from wakebus.adapters.courier.lane_backoff import FIRST_WAIT_S, Waits, Work
from wakebus.adapters.delivery.access_tokens import Tokens
from wakebus.adapters.delivery.adapter_calls import token_of
from wakebus.adapters.delivery.chat_lookup import Lookups, lookup
from wakebus.adapters.delivery.deliver import Tools, address, deliver, replied, result_of
from wakebus.adapters.delivery.retry import STOPS
from wakebus.adapters.delivery.split_cache import Splits
from wakebus.adapters.errors import DeliveryError, NotSent, Rejected, Uncertain
from wakebus.adapters.pacing.admission import AdmissionControl, Permit
from wakebus.adapters.sanitize import line
from wakebus.adapters.settings.redact import redact, secret_values
from wakebus.broker import Delivery, Later, Outcome, Refusal
from wakebus.broker.errors import NotNow
from wakebus.broker.protocol.message import Message

log = logging.getLogger(__name__)

Env = Callable[[], Mapping[str, str]]


class Courier:
    """
    The handler. `env`, `now`, `jitter`, transports, notes and admission are given by the host.

    folder: the bus's own, where files lie.
    """

    def __init__(
        self,
        performers: Mapping[str, Transport],
        book: Book,
        *,
        env: Env,
        folder: Path | None = None,
        admission: AdmissionControl | None = None,
        now: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._performers, self._book, self._env, self._now = performers, book, env, now
        self.admission = admission or AdmissionControl(env)
        self.spool = Spool(folder)
        self._waits = Waits(jitter)
        self._tokens, self._lookups, self._splits = Tokens(), Lookups(), Splits()
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

    def keep_waits(self) -> None:
        """Write down what platforms asked for, so that the next courier waits as well."""
        waits, now = self.admission.long_cooldowns(), self._now()
        if waits is not None:
            self._book.keep_waits({name: now + wait for name, wait in waits.items()})

    def take_waits(self) -> None:
        """Wait for what an earlier courier was asked for."""
        now = self._now()
        self.admission.restore_cooldowns(
            {name: at - now for name, at in self._book.waits().items()}
        )

    def _handle(self, delivery: Delivery, halt: threading.Event) -> Outcome:
        message = delivery.message
        try:
            adapter, target, home = self._address(message)
            permit = self.admission.permit(target, adapter.capabilities.limits, message.id)
        except DeliveryError as exc:
            return self._end(message, self._masked(result_of(exc)))
        work: Work = ""
        result: ChannelResult | None = None
        notes: Notes | None = None
        try:
            with self.spool.room(message.body) as room:
                if not room:
                    permit.defer(self.spool.full(), FULL_S)
                permit.enter()
                file = self.spool.load(message.body)
                safe = always_safe(adapter)
                if not safe or home or lookup(adapter, target):
                    notes = self._take(delivery, home)
                if notes and notes.lost and not safe:
                    raise Uncertain("an earlier attempt may have been accepted; not sent again")
                delivery.started()
                result = self._deliver(message, (adapter, target, file), permit, notes, halt)
                work = work_of(result, notes)
        except DeliveryError as exc:
            result = result_of(exc, target)
        except NotNow as exc:  # whatever else it raises: the message is no longer ours
            return Later(FIRST_WAIT_S, f"the broker could not store the start: {exc.text}")
        finally:
            result = result and self._masked(result)
            permit.result = result
            permit.__exit__()
        return self._end(message, result, notes, held=permit.untried, work=work)

    def _deliver(
        self,
        message: Message,
        what: tuple[Adapter, Target, File | None],
        permit: Permit,
        notes: Notes | None,
        halt: threading.Event,
    ) -> ChannelResult:
        adapter, target, file = what
        if notes:
            notes.halt = halt
        tools = Tools(
            performers=self._performers,
            tokens=self._tokens,
            lookups=self._lookups,
            splits=self._splits,
            now=self._now,
            sleep=halt.wait,
            permit=permit,
        )
        return deliver(
            *(adapter, target, message.text, message.id, tools),
            progress=notes,
            webhook=session_webhook(message.body, self._now()),
            file=file,
            reply_to=replied(message.body),
        )

    def _masked(self, result: ChannelResult) -> ChannelResult:
        """Return it without the values of secret settings, which platforms like to quote."""
        if result.result == "sent":
            return result
        try:
            secrets = secret_values(self._env())
        except DeliveryError:  # nothing could be read of them so far: none was used
            return result
        return replace(result, reason=redact(result.reason, secrets))

    def _address(self, message: Message) -> tuple[Adapter, Target, str]:
        """Return the chat; of a bare platform also its token: parts may be in an earlier home."""
        if not message.channel:
            raise Rejected("the message names no channel; write body.channel, as feishu:oc_1")
        if not message.text.strip() and message.body.get("file") is None:
            raise Rejected("the message has no text (body.text) and no file (body.file)")
        replied(message.body)  # a wrong one is refused
        if channel.parse(message.channel).chat_id is not None:
            return *address(message.channel, self._env()), ""
        begun = self._book.chat(message.id)
        adapter, target = address(begun or message.channel, self._env())
        return adapter, target, begun or token_of(adapter, target)

    def _take(self, delivery: Delivery, home: str) -> Notes:
        """Make the message ours in the notes; raises Overtaken, Unavailable, and as `started`."""
        notes = self._taken(delivery, home)
        if home and notes.chat != home:
            raise NotSent(f"another courier began it meanwhile at {notes.chat}, an earlier home")
        return notes

    def _taken(self, delivery: Delivery, home: str) -> Notes:
        take = partial(self._book.take, delivery.message.id, delivery.epoch, home)
        try:
            return take(begun=delivery.started_before)
        except Overtaken:
            # The broker's word decides. It says that we hold it: its epochs began anew (another
            # store), the notes are of the one before.
            delivery.started()
            return take(begun=True, force=True)

    def _end(
        self,
        message: Message,
        result: ChannelResult,
        notes: Notes | None = None,
        *,
        held: bool = False,
        work: Work = "",
    ) -> Outcome:
        """Return what the broker is told, and keep the notes accordingly."""
        # A success is told by the message's own outcome; what is held back was not tried.
        level = logging.DEBUG if result.result == "sent" or held else logging.WARNING
        to = result.chat or message.channel or "no channel"
        log.log(level, "%s to %s: %s: %s", message.id, line(to), result.result, result.reason)
        if result.again:
            return self._waits.later(message.lane, message.id, result, held=held, work=work)
        self._waits.over(message.lane)
        if notes:
            notes.over(again=result.result == "rejected")
        outcome = result.to_outcome(self._now())
        if result.result == "rejected":
            return Refusal(result.reason, outcome)
        self.spool.over(message.body, self._now())
        return outcome


def work_of(result: ChannelResult, notes: Notes | None) -> Work:
    """Return what is certain of the work on a message, for the time that it waits."""
    if result.result == "uncertain":
        return "maybe"
    done = notes.parts() if notes else result.done
    return "none" if result.result == "not_sent" and not done else ""


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
