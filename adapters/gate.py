"""
Whether a request may go out now: the published limits (pace.py), the circuits (circuit.py), and
how many are under way without an answer (crowd.py).

Rule 1: asked before a part is begun, told after it: what is held back was not begun. Rule 2: who
is told to wait has a place of his own in the row, so that nobody is overtaken or asks twice. Rule
3: a throttled chat, or app, waits as long as its platform says, and all who want to go there.
Rule 4: what is granted stays granted until it is used or given back: a delivery always does one
of both. Rule 5: no text of a message, no credential; all memory bounded.
"""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from wakebus.adapters import pace
from wakebus.adapters.base import Adapter, ChannelResult, Limit, Target
from wakebus.adapters.circuit import TRIPS, Circuit
from wakebus.adapters.crowd import Crowd
from wakebus.adapters.errors import DeliveryError, Held, Throttled, Unavailable, Uncertain
from wakebus.adapters.pace import Pace
from wakebus.adapters.tally import Tally

log = logging.getLogger(__name__)

MAX_CHATS: Final = 10_000  # whose circuits and waits are remembered
MAX_WAIT_S: Final = 3600.0
NO_ANSWER: Final = "it does not answer"
TOO_FAST: Final = "too many messages"
CROWDED: Final = "many requests are under way, and none is answered"

Name = tuple[str, ...]  # (platform,) or (platform, chat)


class Gate(Protocol):
    """Shared by all deliveries of a host. Thread-safe."""

    def enter(self, adapter: Adapter, target: Target, key: str) -> None:
        """Return when this request (by its key) may go out now; else raise Held with the wait."""
        ...

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn how the request ended: None for sent."""
        ...


class Open:
    """A gate that holds nothing back."""

    def enter(self, adapter: Adapter, target: Target, key: str) -> None:
        """Return at once."""

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn nothing."""


class _Shut(NamedTuple):
    """Until when a platform asked a chat, or the whole app, to wait, and in which words."""

    until: float
    why: str


class Gates:
    """
    The gate of a host: `passage` makes the one of a delivery. Thread-safe.

    env: the settings, for the limits that they change. ticks: seconds that only go forward. trips:
    see circuit.py.
    """

    def __init__(
        self,
        env: Callable[[], Mapping[str, str]],
        *,
        ticks: Callable[[], float] = time.monotonic,
        trips: int = TRIPS,
    ) -> None:
        self._env, self._ticks, self._trips = env, ticks, trips
        self._lock = threading.Lock()
        self._pace = Pace()
        self._circuits: OrderedDict[Name, Circuit] = OrderedDict()
        self._shut: OrderedDict[Name, _Shut] = OrderedDict()
        self._said: dict[str, str] = {}
        self._crowds: dict[str, Crowd] = {}
        self._tally = Tally()

    def passage(self, adapter: Adapter, target: Target, key: str) -> "Passage":
        """Return the gate of one delivery; `key`: the message's. Close it."""
        found, faults = pace.limits(target.platform, adapter.capabilities.limits, self._env())
        for name, fault in faults.items():
            if self._said.get(name) != fault:
                self._said[name] = fault
                log.warning("%s: %s; the platform's own limits hold until then", name, fault)
        return Passage(self, target, key, found)

    def state(self, wall: float) -> dict[str, dict[str, Any]]:
        """Return what is known of each platform (status.py); `wall`: Unix seconds now."""
        with self._lock:
            now = self._ticks()
            return {
                platform: self._circuit_state(platform, now, wall) | counted
                for platform, counted in self._tally.counts().items()
            }

    def _circuit_state(self, platform: str, now: float, wall: float) -> dict[str, Any]:
        held: dict[str, Any] = {"circuit": "closed"}
        if circuit := self._circuits.get((platform,)):
            held["circuit"] = circuit.state(now)
            if held["circuit"] != "closed":
                held |= {"until": round(wall + circuit.until - now, 3), "why": circuit.why}
        if (shut := self._shut.get((platform,))) and shut.until > now:
            held["throttled_until"] = round(wall + shut.until - now, 3)
        return held

    # --- what a passage does, each under the lock -------------------------------------------

    def _enter(self, passage: "Passage") -> None:
        with self._lock:
            now = self._ticks()
            self._check_circuits(passage, now)
            crowd = self._crowds.setdefault(passage.names[0][0], Crowd())
            if wait := crowd.wait(passage.key, now):
                raise Held(f"{passage.names[0][0]}: {CROWDED}", retry_after=wait)
            self._check_pace(passage, now)
            crowd.enter(passage.key)
            for name in passage.names:
                if circuit := self._circuits.get(name):
                    circuit.go(passage.key, now)

    def _check_circuits(self, passage: "Passage", now: float) -> None:
        for name in passage.names:
            circuit = self._circuits.get(name)
            if circuit and (wait := circuit.wait(passage.key, passage.chat, now)):
                whom = "this chat" if len(name) > 1 else name[0]
                why = circuit.why or NO_ANSWER
                raise Held(f"{whom} gave no answer several times: {why}", retry_after=wait)

    def _check_pace(self, passage: "Passage", now: float) -> None:
        after, why = 0.0, ""
        for name in passage.names:
            shut = self._shut.get(name)
            if shut and shut.until <= now:
                del self._shut[name]
            elif shut and shut.until > after:
                after, why = shut
        if wait := self._pace.enter(passage.key, passage.rules, now, after):
            text = f"{passage.names[0][0]} asked to wait: {why}" if why else passage.words
            raise Held(text, retry_after=wait)

    def _leave(self, passage: "Passage", error: DeliveryError | None) -> None:
        with self._lock:
            now = self._ticks()
            self._pace.leave(passage.key, now)
            if crowd := self._crowds.get(passage.names[0][0]):
                crowd.leave(passage.key, None if passage.failed else now)
            for name in passage.names:
                self._learn(name, passage, error, now)
            if isinstance(error, Throttled):
                scope = passage.names[0] if error.scope == "app" else passage.names[1]
                if wait := _usable(error.retry_after):
                    self._shut_until(scope, _Shut(now + wait, TOO_FAST))

    def _learn(
        self, name: Name, passage: "Passage", error: DeliveryError | None, now: float
    ) -> None:
        failed = isinstance(error, Unavailable | Uncertain)
        circuit = self._circuits.get(name)
        if failed and circuit is None:
            # A platform's circuit needs two chats: one that hangs must not hold the others.
            circuit = Circuit(least=2 if len(name) == 1 else 1, trips=self._trips)
            self._circuits[name] = circuit
            while len(self._circuits) > MAX_CHATS:
                self._circuits.popitem(last=False)
        if circuit and failed:
            self._circuits.move_to_end(name)
            before = circuit.state(now)
            circuit.failed(passage.key, passage.chat, now)
            if before == "closed" != circuit.state(now):
                log.warning("%s: no answer several times; held back", ":".join(name))
        elif circuit:
            if circuit.state(now) != "closed":
                log.warning("%s: it answers again", ":".join(name))
            del self._circuits[name]

    def _shut_until(self, name: Name, shut: _Shut) -> None:
        before = self._shut.pop(name, shut)
        self._shut[name] = max(shut, before)
        while len(self._shut) > MAX_CHATS:
            self._shut.popitem(last=False)

    def _close(self, passage: "Passage", result: ChannelResult | None) -> None:
        with self._lock:
            self._pace.cancel(passage.key, promised=not passage.held)
            if crowd := self._crowds.get(passage.names[0][0]):
                crowd.leave(passage.key, None)
            for name in passage.names:
                if circuit := self._circuits.get(name):
                    circuit.drop(passage.key)
                    circuit.why = result.reason if passage.failed and result else circuit.why
                if (shut := self._shut.get(name)) and passage.throttled and result:
                    self._shut[name] = shut._replace(why=result.reason)
            if result:
                self._tally.count(passage.names[0][0], result, held=passage.held)


class Passage:
    """
    The gate of one delivery, in one thread: a chat stays the one that the message names, whatever
    the platform calls it; and all parts of a message are one after the other in the row.

    held: it was held back, and has a place to come again to.
    """

    def __init__(self, gates: Gates, target: Target, key: str, limits: list[Limit]) -> None:
        self._gates, self.key = gates, key
        self.chat = target.chat_id
        self.names: tuple[Name, Name] = ((target.platform,), (target.platform, target.chat_id))
        self.rules = pace.rules(target, limits)
        self.held = self.failed = self.throttled = False
        self._last = ""  # the words of the request before; masked by whoever shows them

    @property
    def words(self) -> str:
        """Why one waits who keeps to the pace."""
        return f"kept to the pace of {self.names[0][0]} ({'; '.join(map(str, self.rules))})"

    def enter(self, adapter: Adapter, target: Target, key: str) -> None:
        """Return when the next request may go out now; else raise Held."""
        try:
            self.held = False
            self._gates._enter(self)
        except Held as exc:
            self.held = True
            raise Held(self._last or exc.text, retry_after=exc.retry_after) from None

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn how the request ended."""
        self._last = error.text if error else ""
        self.failed = isinstance(error, Unavailable | Uncertain)
        self.throttled = isinstance(error, Throttled)
        self._gates._leave(self, error)

    def hold(self, why: str, wait: float) -> NoReturn:
        """Hold it back for another reason; a place that it has stays its own. Raises Held."""
        self.held = True
        raise Held(why, retry_after=wait)

    def close(self, result: ChannelResult | None) -> None:
        """The delivery is over: what was granted and not used is given back."""
        self._gates._close(self, result)


def _usable(wait: object) -> float:
    # An adapter may have passed on what the platform wrote: any type, NaN, a year.
    usable = isinstance(wait, int | float) and 0 < wait < math.inf
    return min(float(wait), MAX_WAIT_S) if usable and isinstance(wait, int | float) else 0.0
