"""
What the broker knows while it runs: connections, endpoints, waiters, timers.

Rule 1: owned by the router thread; nothing here is touched by another. Rule 2: no socket in here;
`post` is given. Rule 3: what must survive a kill is in the store first, here second.
"""

import difflib
import hashlib
import heapq
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

import msgspec

from wakebus.broker.core.broker_events import Announcer, Missed
from wakebus.broker.core.mailbox import Entry, Mailbox
from wakebus.broker.errors import BrokerUnavailable, UnknownTarget, WakebusError
from wakebus.broker.settings import Settings
from wakebus.broker.store.group_commit import StoreThread
from wakebus.broker.store.store import Work
from wakebus.broker.system.clock import Clock, Mark
from wakebus.broker.system.processes import Holder, Process

log = logging.getLogger("wakebus.router")

NEAR_MOST: Final = 200  # names that an unknown one is compared with: about 10 ms
NEAR_LENGTH: Final = 4  # among very many names only those that differ so little in length

Post = Callable[[bytes, bytes], bool]  # (connection, frame) -> whether it was taken


class Request(NamedTuple):
    """One request of a client. `uid` and `pid` come from the kernel, 0 where it does not tell."""

    conn: bytes
    sequence: int
    payload: dict[str, Any]
    uid: int = 0
    pid: int = 0


class Connection:
    """A client that said hello."""

    __slots__ = ("greeted", "instance", "lost", "names", "process")

    def __init__(self, instance: str, process: Process, greeted: float) -> None:
        self.instance, self.process, self.greeted = instance, process, greeted  # monotonic
        self.names: set[str] = set()
        self.lost: set[str] = set()  # names that others took from it


class Endpoint:
    """A name with its mailbox and, while somebody holds it, its holder."""

    __slots__ = (
        *("arriving", "arriving_bytes", "declared", "ended", "ephemeral", "epoch", "holder"),
        *("instance", "mailbox", "name", "saved", "seen", "up"),
    )

    def __init__(self, name: str, settings: Settings, seen: float = 0.0) -> None:
        self.name, self.seen = name, seen  # 0.0: never registered
        self.saved = seen  # what the store knows of `seen`
        self.declared = self.up = False  # up: told as held
        # The bus gave it its suffix: bus time since when this session has it, else 0.0.
        self.ephemeral = 0.0
        self.ended = False  # as an ephemeral one: it is nobody's, and takes nothing
        self.epoch = 0
        self.instance = ""  # the last holder's
        self.holder: Holder | None = None
        self.mailbox = Mailbox(settings.window_lanes, settings.window_bytes)
        self.arriving = self.arriving_bytes = 0  # handed to the store, not committed yet

    def full(self, limits: Settings, size: int) -> str:
        """Return why `size` bytes more do not go in, "" if they do."""
        waiting = len(self.mailbox) + self.arriving
        used = self.mailbox.bytes + self.arriving_bytes + size
        if waiting < limits.mailbox_messages and used <= limits.mailbox_bytes:
            return ""
        # What will be refused itself still counts among what arrives.
        most = min(waiting, limits.mailbox_messages)
        return (
            f"the mailbox of {self.name} is full ({most} messages); "
            "nothing was stored, try again when it has caught up"
        )


class Turn(NamedTuple):
    """A started delivery whose token lets sends be proven."""

    endpoint: str
    id: str
    hops: int
    path: tuple[str, ...]


class Timer:
    """What `later` will do; `act` None: no more."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act


class Waiter:
    """Somebody waits until message `id` is `want`. Each is itself, whatever it holds."""

    __slots__ = ("id", "request", "timer", "want")

    def __init__(self, request: Request, id: str, want: str) -> None:
        self.request, self.id, self.want = request, id, want
        self.timer: Timer | None = None


class Hub:
    """See the module's rules."""

    def __init__(self, settings: Settings, clock: Clock, boot: str) -> None:
        self.settings, self.clock, self.boot = settings, clock, boot
        self.started_mono = clock.mono()
        self._bus, self._up = clock.wall(), clock.up()  # bus time, and the seconds up at it
        self.conns: dict[bytes, Connection] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.turns: dict[str, Turn] = {}  # by digest of the token
        self.waiters: dict[str, dict[Waiter, None]] = {}  # in the order they came
        self.waits: Counter[bytes] = Counter()  # open ones of each connection
        self.services: frozenset[str] = frozenset()  # that run here; each holds its own name
        self.accepted = self.notices_lost = 0
        self.announcer, self.missed = Announcer(clock.wall), Missed()
        self.figures: Callable[[Callable[[dict[str, int]], None]], None] = lambda done: done({})
        self.store: StoreThread
        self.post: Post
        self.reply: Callable[[Request, dict[str, Any]], None]
        self.fail: Callable[[Request, WakebusError], None]
        self._timers: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._order = itertools.count()

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint, made if it is new."""
        if name not in self.endpoints:
            self.endpoints[name] = Endpoint(name, self.settings)
        return self.endpoints[name]

    def enter(self, endpoint: Endpoint, entry: Entry) -> None:
        """Put what is stored now into its mailbox."""
        endpoint.mailbox.add(entry)
        if endpoint.name not in self.endpoints:  # forgotten while the store worked
            self.endpoints[endpoint.name] = endpoint
        self.announcer.message("queued", endpoint.name, entry)

    def known(self, name: str) -> bool:
        """Whether it is declared, held, a service's, or was seen in the last `known_days`."""
        endpoint = self.endpoints.get(name)
        if endpoint is None:
            return name in self.services  # before it has come for the first time
        if endpoint.ended:
            return False
        if name in self.services:
            return True
        recent = self.steady_wall() - endpoint.seen < self.settings.known_days * 86400
        return bool(endpoint.declared or endpoint.holder or len(endpoint.mailbox) or recent)

    def set_bus_time(self, bus: float) -> None:
        """Count ages on from here: see `clock.bus_time`."""
        self._bus, self._up = bus, self.clock.up()

    def steady_wall(self) -> float:
        """Return bus time: what ages are counted by; a wall clock that jumps makes nothing old."""
        return self._bus + self.clock.up() - self._up

    def shown(self, stamp: float) -> float:
        """Return a stored time as the wall clock of now would tell it; 0.0 stays: never."""
        return self.clock.wall() - (self.steady_wall() - stamp) if stamp else 0.0

    def mark(self) -> Mark:
        """Return what the clocks show now."""
        clock = self.clock
        return Mark(self.steady_wall(), clock.wall(), clock.up(), self.boot.partition("/")[0])

    def near(self, name: str) -> list[str]:
        """Return up to three known names that look like `name`."""
        known = [other for other in _alike(name, self.endpoints) if self.known(other)]
        return difflib.get_close_matches(name, known, n=3, cutoff=0.6)

    def unknown(self, name: str, **data: Any) -> UnknownTarget:
        """Return the error that tells it, with the names that may be meant."""
        near = self.near(name)
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

    def end_turn(self, entry: Entry) -> None:
        """What the delivery's token proved is over."""
        if entry.token:
            self.turns.pop(entry.token, None)
            entry.token = None

    def later(self, after_s: float, act: Callable[[], None]) -> Timer:
        """Call `act` in `after_s` seconds, unless it is cancelled."""
        at, timer = self.clock.mono() + after_s, Timer(act)
        heapq.heappush(self._timers, (at, next(self._order), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Forget what a timer would have done; what is cancelled does not pile up."""
        self._cancelled += timer.act is not None
        timer.act = None
        if self._cancelled > 100 and self._cancelled > len(self._timers) // 2:
            self._timers = [entry for entry in self._timers if entry[2].act]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def run_timers(self) -> float:
        """Run what is due; return the seconds until the next timer."""
        now = self.clock.mono()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            act, timer.act = timer.act, None
            if act is None:
                self._cancelled -= 1
            else:
                self.guarded(act)
        return max(0.0, self._timers[0][0] - now) if self._timers else 60.0

    def guarded(self, act: Callable[[], None]) -> None:
        """Call `act`; a bug in it must cost one message or name, not the bus."""
        try:
            act()
        except Exception:
            log.exception("a step failed")

    def store_surely(self, work: Work, done: Callable[[], None], *, urgent: bool = True) -> None:
        """
        Run `work` in the store, again every second while the disk does not take it; then `done`.

        For what has happened already (an ack, a death): it cannot be refused.
        """

        def finished(result: Any) -> None:
            if isinstance(result, BrokerUnavailable):
                self.later(1.0, lambda: self.store.submit(work, finished))
                return
            if isinstance(result, WakebusError):
                log.error("a record was not stored: %s", result)
            done()

        self.store.submit(work, finished, urgent=urgent)

    def line(self, what: str, **fields: Any) -> str:
        """Return one line for a message's log: `t` is wall seconds."""
        told = {"t": self.clock.wall(), "what": what, **fields}
        return msgspec.json.encode(told).decode() + "\n"


def _alike(name: str, others: Collection[str]) -> list[str]:
    """Return those that are worth a comparison, at most NEAR_MOST: it takes long."""
    if len(others) <= NEAR_MOST:
        return list(others)
    start = name[:1]
    alike = (o for o in others if o[:1] == start and abs(len(o) - len(name)) <= NEAR_LENGTH)
    return list(itertools.islice(alike, NEAR_MOST))


def digest(token: str) -> str:
    """Return what is stored of a token: secrets stay out of the file."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
