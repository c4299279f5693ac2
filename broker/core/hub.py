"""
What the broker knows while it runs: connections, endpoints, waiters, timers, bus time.

Rule 1: owned by the router thread; nothing here is touched by another. Rule 2: no socket in here;
what it does to the world is given (model.Effects). Rule 3: what must survive a kill is in the
store first, here second.
"""

import difflib
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

import msgspec

from wakebus.broker.core.broker_events import BrokerEvents, MissedEvents
from wakebus.broker.core.loop_guard import LoopGuard, LoopLimits
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import Connection, Effects, Endpoint, MessageKey, TokenOwner, Waiter
from wakebus.broker.core.timers import Timers
from wakebus.broker.errors import BrokerUnavailable, UnknownTarget, WakebusError
from wakebus.broker.settings import Settings
from wakebus.broker.store.store import Operation, Store
from wakebus.broker.system.clock import Clock, Mark

log = logging.getLogger("wakebus.router")

NEAR_MOST: Final = 200  # names that an unknown one is compared with: about 10 ms
NEAR_LENGTH: Final = 4  # among very many names only those that differ so little in length


class Hub:
    """
    The broker's state. `boot`: the machine's boot, `/`, and something new at every start.

    `services`: those that run here; each holds the name that it has.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        boot: str,
        effects: Effects,
        services: frozenset[str] = frozenset(),
    ) -> None:
        self.settings, self.clock, self.boot, self.services = settings, clock, boot, services
        self.offer, self.push = effects.offer, effects.push
        self.reply, self.fail = effects.reply, effects.fail
        self.store, self.request_figures = effects.store, effects.request_figures
        self.stop = effects.stop
        self.events, self.missed = BrokerEvents(clock.wall, effects.publish), MissedEvents()
        self.timers, self.loops = Timers(clock.mono), LoopGuard(_loop_limits(settings))
        self.started_mono = clock.mono()
        self._bus, self._up = clock.wall(), clock.up()  # bus time, and the seconds up at it
        self.conns: dict[bytes, Connection] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.token_owners: dict[str, TokenOwner] = {}  # by digest of the token
        self.waiters: dict[str, dict[Waiter, None]] = {}  # in the order they came
        self.turn_waits: dict[MessageKey, dict[Waiter, None]] = {}  # those from inside a turn
        self.waits: Counter[bytes] = Counter()  # open ones of each connection
        self.accepted = self.bounces_lost = 0
        self.unstored = 0  # words that the disk did not take yet

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint, made if it is new."""
        if name not in self.endpoints:
            self.endpoints[name] = Endpoint(name, self.settings)
        return self.endpoints[name]

    def find_entry(self, name: str, id: str) -> MailboxEntry | None:
        """Return message `id` of an endpoint, None where that does not have it (any more)."""
        endpoint = self.endpoints.get(name)
        return endpoint.mailbox.entries.get(id) if endpoint else None

    def enter(self, endpoint: Endpoint, entry: MailboxEntry) -> None:
        """Put what is stored now into its mailbox."""
        endpoint.mailbox.add(entry)
        if endpoint.name not in self.endpoints:  # forgotten while the store worked
            self.endpoints[endpoint.name] = endpoint
        self.events.announce_message("queued", endpoint.name, entry)

    def known(self, name: str) -> bool:
        """Whether it is declared, held, a service's, or was seen in the last `known_days`."""
        endpoint = self.endpoints.get(name)
        if endpoint is None:
            return name in self.services  # before it has come for the first time
        if endpoint.ended:
            return False
        if name in self.services:
            return True
        recent = self.bus_time() - endpoint.seen < self.settings.known_days * 86400
        return bool(endpoint.declared or endpoint.holder or len(endpoint.mailbox) or recent)

    def set_bus_time(self, bus: float) -> None:
        """Count ages on from here: see clock.bus_time."""
        self._bus, self._up = bus, self.clock.up()

    def bus_time(self) -> float:
        """Return bus time: what ages are counted by; a wall clock that jumps makes nothing old."""
        return self._bus + self.clock.up() - self._up

    def wall_time(self, stamp: float) -> float:
        """Return a stored time as the wall clock of now would tell it; 0.0 stays: never."""
        return self.clock.wall() - (self.bus_time() - stamp) if stamp else 0.0

    def clock_mark(self) -> Mark:
        """Return what the clocks show now."""
        clock = self.clock
        return Mark(self.bus_time(), clock.wall(), clock.up(), self.boot.partition("/")[0])

    def near_names(self, name: str) -> list[str]:
        """Return up to three known names that look like `name`."""
        known = [other for other in _alike(name, self.endpoints) if self.known(other)]
        return difflib.get_close_matches(name, known, n=3, cutoff=0.6)

    def unknown_target(self, name: str, **data: Any) -> UnknownTarget:
        """Return the error of a name that nobody knows, with those that may be meant."""
        near = self.near_names(name)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        return UnknownTarget(f"nobody ever registered {name!r}{meant}", near=near, **data)

    def live(self, endpoint: Endpoint) -> bool:
        """Whether a holder is connected and heard of."""
        holder = endpoint.holder
        return (
            holder is not None
            and holder.conn is not None
            and not holder.silent(self.clock.mono(), self.settings.stale_s)
        )

    def reads(self, endpoint: Endpoint) -> bool:
        """Whether it has a live holder that takes deliveries."""
        return self.live(endpoint) and bool(endpoint.holder and endpoint.holder.takes_deliveries)

    def announce_holder(self, endpoint: Endpoint, pid: int, *, up: bool) -> None:
        """Tell that a name is held now, or no longer; what was told already is not told again."""
        if endpoint.up != up:
            endpoint.up = up
            self.events.announce_endpoint(endpoint.name, pid, up=up)

    def revoke_token(self, entry: MailboxEntry) -> None:
        """What the delivery's token proved is over."""
        if entry.token:
            self.token_owners.pop(entry.token, None)
            entry.token = None

    def store_surely(
        self, operation: Operation, done: Callable[[], None], size: int = 0, *, urgent: bool = True
    ) -> None:
        """
        Run it in the store, again every second while the disk does not take it; then `done`.

        For what has happened already (an ack, a death): it cannot be refused. `size`: bytes that
        it writes, about; a mark writes its whole message anew.
        """
        failed = False

        def finished(result: Any) -> None:
            nonlocal failed
            if isinstance(result, BrokerUnavailable):
                self.unstored += not failed
                failed = True
                self.timers.later(1.0, lambda: self.store.submit(operation, finished, size))
                return
            self.unstored -= failed
            if isinstance(result, WakebusError):
                log.error("a record was not stored: %s", result)
            done()

        self.store.submit(operation, finished, size, urgent=urgent)

    def mark_surely(
        self,
        entry: MailboxEntry,
        line: str,
        then: Callable[[], None],
        *,
        urgent: bool = True,
        **columns: Any,
    ) -> None:
        """Set columns of a message and append a line to its log, surely; then call `then`."""
        mark = partial(Store.mark, id=entry.id, line=line, **columns)
        self.store_surely(mark, then, entry.size, urgent=urgent)

    def when_stored(self, done: Callable[[], None]) -> None:
        """Call `done` once all that was said until now is committed."""

        def finished(last: bool, result: Any) -> None:
            if self.unstored or isinstance(result, BrokerUnavailable):
                self.timers.later(1.0, partial(self.when_stored, done))
            elif last:
                done()
            else:  # a death may have looked at the store first, and is written only now
                self.store.submit(lambda store: None, partial(finished, True))

        self.store.submit(lambda store: None, partial(finished, False))

    def forget_endpoint(self, name: str, done: Callable[[Any], None] | None = None) -> None:
        """Know the name no longer, here and in the store; then `done`."""
        del self.endpoints[name]
        self.store.submit(lambda store: store.forget_endpoint(name), done)

    def log_line(self, what: str, **fields: Any) -> str:
        """Return one line for a message's log: `t` is wall seconds."""
        told = {"t": self.clock.wall(), "what": what, **fields}
        return msgspec.json.encode(told).decode() + "\n"


def _loop_limits(settings: Settings) -> LoopLimits:
    return LoopLimits(
        settings.loop_hops,
        settings.loop_messages,
        settings.loop_self,
        settings.loop_window_s,
        settings.loop_pause_s,
    )


def _alike(name: str, others: Collection[str]) -> list[str]:
    """Return those that are worth a comparison, at most NEAR_MOST: it takes long."""
    if len(others) <= NEAR_MOST:
        return list(others)
    start = name[:1]
    alike = (o for o in others if o[:1] == start and abs(len(o) - len(name)) <= NEAR_LENGTH)
    return list(itertools.islice(alike, NEAR_MOST))
