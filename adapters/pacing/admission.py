"""
Whether a request may go out now: whose turn it is in the chat (turns.py), the published limits
(pace.py), what platforms asked for (shuts.py), the circuits (circuit.py), and how many are under
way without an answer (crowd.py).

Rule 1: asked before a part is begun, told after it: what is held back was not begun. Rule 2: who
is told to wait has a place of his own in the row, so that nobody is overtaken or asks twice. Rule
3: a throttled chat, or app, waits as long as its platform says, and all who want to go there.
Rule 4: what is granted stays granted until it is used or given back: a delivery always does one
of both. Rule 5: no text of a message, no credential; all memory bounded.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from wakebus.adapters.base import Adapter, ChannelResult, Limit, Target
from wakebus.adapters.errors import DeliveryError, Held, Throttled, Unavailable, Uncertain
from wakebus.adapters.pacing import rate_limiter as pace
from wakebus.adapters.pacing.bulkhead import Crowd
from wakebus.adapters.pacing.chat_lease import SOON_S, Turns
from wakebus.adapters.pacing.circuit_breaker import TRIPS, Circuit
from wakebus.adapters.pacing.cooldowns import Name, Shuts
from wakebus.adapters.pacing.counters import Tally
from wakebus.adapters.pacing.rate_limiter import Pace

log = logging.getLogger(__name__)

MAX_CHATS: Final = 10_000  # whose circuits are remembered
NO_ANSWER: Final = "it does not answer"
CROWDED: Final = "many requests are under way, and none is answered"
BEHIND: Final = "behind another text for this chat, which goes out in parts"


class Gates:
    """
    The gate of a host: `passage` makes the one of a delivery. Thread-safe.

    env: the settings, for the limits that they change. ticks: seconds that only go forward. wall:
    Unix seconds, of what people are told. trips: see circuit.py.
    """

    def __init__(
        self,
        env: Callable[[], Mapping[str, str]],
        *,
        ticks: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        trips: int = TRIPS,
    ) -> None:
        self._env, self._ticks, self._wall, self._trips = env, ticks, wall, trips
        self._lock = threading.Lock()
        self._pace = Pace()
        self._circuits: OrderedDict[Name, Circuit] = OrderedDict()
        self._shuts, self._turns = Shuts(), Turns()
        self._said: dict[str, str] = {}
        self._crowds: dict[str, Crowd] = {}
        self._tally = Tally()

    def passage(self, adapter: Adapter, target: Target, key: str) -> "Passage":
        """Return the gate of one delivery; `key`: the message's. Close it."""
        env = self._env()
        found, faults = pace.limits(target.platform, adapter.capabilities.limits, env)
        for name, fault in faults.items():
            if self._said.get(name) != env[name]:
                self._said[name] = env[name]
                log.warning("%s: %s; the platform's own limits hold until then", name, fault)
        return Passage(self, target, key, found)

    def state(self, wall: float) -> dict[str, dict[str, Any]]:
        """
        Return what is known of each platform (status.py); `wall`: Unix seconds now.

        Times are whole seconds: two clocks that differ by a millisecond are no change.
        """
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
                held |= {"until": round(wall + circuit.until - now), "why": circuit.why}
        if (until := self._shuts.of([(platform,)], now).until) > now:
            held["throttled_until"] = round(wall + until - now)
        chats = [one for name, one in self._circuits.items() if name[0] == platform and name[1:]]
        return held | {"chats_held": sum(one.state(now) != "closed" for one in chats)}

    def long_waits(self) -> dict[Name, float] | None:
        """Return for how many seconds who asked for a long wait has it; None: as it was before."""
        with self._lock:
            return self._shuts.long(self._ticks()) if self._shuts.changed else None

    def restore(self, waits: Mapping[Name, float]) -> None:
        """Take over what `long_waits` returned in an earlier process, less the time since."""
        with self._lock:
            self._shuts.restore(waits, self._ticks())

    # --- what a passage does, each under the lock -------------------------------------------

    def enter(self, passage: "Passage", left: int) -> None:
        """Let this delivery pass, with so many parts to go (0: not known yet); raise Held."""
        with self._lock:
            now = self._ticks()
            if wait := self._turns.wait(passage.turn, passage.key, left, now):
                self._pace.cancel(passage.key)  # a place is booked by whose turn it is
                raise Held(BEHIND, retry_after=wait)
            self._check_circuits(passage, now)
            crowd = self._crowds.setdefault(passage.names[0][0], Crowd())
            if wait := crowd.wait(passage.key, now):
                raise Held(f"{passage.names[0][0]}: {CROWDED}", retry_after=wait)
            self._check_pace(passage, now)
            crowd.enter(passage.key)
            self._turns.go(passage.turn, passage.key, left, now, passage.gap)
            for name in passage.names:
                if circuit := self._circuits.get(name):
                    circuit.go(passage.key, now)

    def begin(self, key: str) -> None:
        """What goes under `key` is counted from now on."""
        with self._lock:
            self._pace.begin(key, self._ticks())

    def _check_circuits(self, passage: "Passage", now: float) -> None:
        for name in passage.names:
            circuit = self._circuits.get(name)
            if circuit and (wait := circuit.wait(passage.key, passage.chat, now)):
                whom = "this chat" if len(name) > 1 else name[0]
                why = circuit.why or NO_ANSWER
                raise Held(f"{whom} gave no answer several times: {why}", retry_after=wait)

    def _check_pace(self, passage: "Passage", now: float) -> None:
        after, why = self._shuts.of(passage.names, now)
        if wait := self._pace.enter(passage.key, passage.rules, now, after):
            text = f"{passage.names[0][0]} asked to wait: {why}" if why else passage.words
            raise Held(text, retry_after=wait)

    def leave(self, passage: "Passage", error: DeliveryError | None) -> None:
        """Learn how a request of this delivery ended."""
        with self._lock:
            now = self._ticks()
            self._pace.leave(passage.key, now)
            if crowd := self._crowds.get(passage.names[0][0]):
                crowd.leave(passage.key, None if passage.failed else now)
            for name in passage.names:
                self._learn(name, passage, now)
            if isinstance(error, Throttled):
                scope = passage.names[0] if error.scope == "app" else passage.names[1]
                if wait := error.wait:
                    self._shuts.ask(scope, wait, now)

    def _learn(self, name: Name, passage: "Passage", now: float) -> None:
        circuit = self._circuits.get(name)
        if passage.failed:
            circuit = circuit or self._new_circuit(name)
            self._circuits.move_to_end(name)
            before = circuit.state(now)
            circuit.failed(passage.key, passage.chat, now)
            if before == "closed" != circuit.state(now):
                log.warning("%s: no answer several times; held back", ":".join(name))
        elif circuit:
            if circuit.state(now) != "closed":
                log.warning("%s: it answers again", ":".join(name))
            del self._circuits[name]

    def _new_circuit(self, name: Name) -> Circuit:
        # A platform's circuit needs two chats: one that hangs must not hold the others.
        circuit = Circuit(least=2 if len(name) == 1 else 1, trips=self._trips)
        self._circuits[name] = circuit
        while len(self._circuits) > MAX_CHATS:
            self._circuits.popitem(last=False)
        return circuit

    def close(self, passage: "Passage", result: ChannelResult | None) -> None:
        """A delivery is over: give back what it holds, keep its words, count it."""
        with self._lock:
            now = self._ticks()
            self._pace.cancel(passage.key, promised=not passage.held)
            self._turns.off(passage.turn, passage.key, _comes_again(result), now)
            if crowd := self._crowds.get(passage.names[0][0]):
                crowd.leave(passage.key, None)
            for name in passage.names:
                if circuit := self._circuits.get(name):
                    circuit.drop(passage.key)
            if result:
                self._keep_words(passage, result.reason)
                told = (passage.names[0][0], result, self._wall())
                self._tally.count(*told, held=passage.untried)

    def _keep_words(self, passage: "Passage", reason: str) -> None:
        """Keep why a circuit opened and what the platform asked to wait for, in shown words."""
        for name in passage.names:
            if passage.failed and (circuit := self._circuits.get(name)):
                circuit.why = reason
            if passage.throttled:
                self._shuts.say(name, reason)


def _comes_again(result: ChannelResult | None) -> float | None:
    """Return after how many seconds a text comes again that is begun, None if it does not."""
    if result is None or not result.again or not (result.done or result.result == "uncertain"):
        return None
    return result.retry_after or 0.0


class Passage:
    """
    The gate of one delivery, in one thread: a chat stays the one that the message names, whatever
    the platform calls it; and all parts of a message are one after the other in the row.

    held: it was held back, and has a place to come again to.
    """

    def __init__(self, gates: Gates, target: Target, key: str, limits: list[Limit]) -> None:
        self._gates, self.key = gates, key
        self.chat, self.turn = target.chat_id, str(target)
        self.names: tuple[Name, Name] = ((target.platform,), (target.platform, target.chat_id))
        self.rules = pace.rules(target, limits)
        self.held = self.failed = self.throttled = False
        # The words of the request before; masked by whoever shows them.
        self._last: str | None = None

    @property
    def untried(self) -> bool:
        """Whether it is only held back: no request of this delivery failed before that."""
        return self.held and self._last is None

    @property
    def gap(self) -> float:
        """Seconds from one part to the next, as it is to be expected."""
        return max([rule.seconds / rule.most for rule in self.rules], default=SOON_S)

    @property
    def words(self) -> str:
        """Why one waits who keeps to the pace."""
        return f"kept to the pace of {self.names[0][0]} ({'; '.join(map(str, self.rules))})"

    def enter(self, adapter: Adapter, target: Target, key: str, left: int = 0) -> None:
        """Return when the next request may go out now; else raise Held."""
        try:
            self.held = False
            self._gates.enter(self, left)
        except Held as exc:
            self.held = True
            raise Held(self._last or exc.text, retry_after=exc.retry_after) from None

    def begin(self) -> None:
        """What was let pass goes out only now."""
        self._gates.begin(self.key)

    def leave(self, adapter: Adapter, target: Target, error: DeliveryError | None) -> None:
        """Learn how the request ended."""
        self._last = error.text if error else None
        self.failed = isinstance(error, Unavailable | Uncertain)
        self.throttled = isinstance(error, Throttled)
        self._gates.leave(self, error)

    def hold(self, why: str, wait: float) -> NoReturn:
        """Hold it back for another reason; a place that it has stays its own. Raises Held."""
        self.held = True
        raise Held(why, retry_after=wait)

    def close(self, result: ChannelResult | None) -> None:
        """The delivery is over: what was granted and not used is given back."""
        self._gates.close(self, result)
