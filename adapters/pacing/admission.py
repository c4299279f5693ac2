"""
Admission control: whether a request may go out now. It asks who has the lease on the chat
(chat_lease.py), the circuit breakers, how many requests are under way without an answer
(bulkhead.py), what platforms asked for (cooldowns.py) and the published limits (rate_limiter.py).
What does not answer is a host, not all of its platform: each webhook may be another one.

Rule 1: asked before a part is begun, told after it: what is held back was not begun. Rule 2: who
is told to wait has a reservation of his own, so that nobody is overtaken or asks twice. Rule 3: a
throttled chat, or app, waits as long as its platform says, and all who want to go there. Rule 4:
what is granted stays granted until it is used or given back: a permit always does one of both.
Rule 5: no text of a message, no credential; all memory bounded.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Self

from wakebus.adapters.base import ChannelResult, Limit, Target
from wakebus.adapters.errors import DeliveryError, Held, Throttled, Unavailable, Uncertain
from wakebus.adapters.pacing.bulkhead import Bulkhead
from wakebus.adapters.pacing.chat_lease import SOON_S, ChatLeases
from wakebus.adapters.pacing.circuit_breaker import FAILURE_THRESHOLD, CircuitBreaker
from wakebus.adapters.pacing.cooldowns import Cooldowns, ScopeKey
from wakebus.adapters.pacing.counters import DeliveryCounters
from wakebus.adapters.pacing.rate_buckets import RateRule
from wakebus.adapters.pacing.rate_limiter import RateLimiter, effective_limits, rules_for

log = logging.getLogger(__name__)

MAX_CHATS: Final = 10_000  # whose circuits are remembered
MAX_HOSTS: Final = 1_000
NO_ANSWER: Final = "it does not answer"
CROWDED: Final = "many requests are under way, and none is answered"
BEHIND: Final = "behind another text for this chat, which goes out in parts"


class Place(NamedTuple):
    """What may give no answer: a host of a platform ("" where it has one), or one chat there."""

    platform: str
    host: str
    chat: str | None = None

    @property
    def shown(self) -> str:
        """What people are told of it."""
        return self.host or self.platform if self.chat is None else f"{self.platform}:{self.chat}"


class AdmissionControl:
    """
    Of a host; each delivery asks for a permit of its own. Thread-safe.

    env: the settings, for the limits that they change. ticks: seconds that only go forward. wall:
    Unix seconds, of what people are told. failure_threshold: see circuit_breaker.py.
    """

    def __init__(
        self,
        env: Callable[[], Mapping[str, str]],
        *,
        ticks: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        failure_threshold: int = FAILURE_THRESHOLD,
    ) -> None:
        self._env, self._ticks, self._wall, self._threshold = env, ticks, wall, failure_threshold
        self._lock = threading.Lock()
        self._limiter = RateLimiter()
        self._circuits: OrderedDict[Place, CircuitBreaker] = OrderedDict()
        self._cooldowns, self._leases = Cooldowns(), ChatLeases()
        self._said: dict[str, str] = {}
        self._bulkheads: OrderedDict[Place, Bulkhead] = OrderedDict()
        self._counters = DeliveryCounters()

    def permit(self, target: Target, limits: Sequence[Limit], key: str, host: str = "") -> "Permit":
        """
        Return the permit of one delivery, to be used `with` it.

        key: the message's. host: where its request goes, for a platform that may be many hosts.
        """
        return Permit(self, target, key, self._rules(target, limits), host)

    def _rules(self, target: Target, limits: Sequence[Limit]) -> list[RateRule]:
        """Return the rules that hold for a chat; what is wrong in the settings is logged once."""
        env = self._env()
        found, faults = effective_limits(target.platform, limits, env)
        for name, fault in faults.items():
            if self._said.get(name) != env[name]:
                self._said[name] = env[name]
                log.warning("%s: %s; the platform's own limits hold until then", name, fault)
        return rules_for(target, found)

    def state(self, wall: float) -> dict[str, dict[str, Any]]:
        """
        Return what is known of each platform (status_file.py); `wall`: Unix seconds now.

        Times are whole seconds: two clocks that differ by a millisecond are no change.
        """
        with self._lock:
            now = self._ticks()
            return {
                platform: self._circuit_state(platform, now, wall) | counted
                for platform, counted in self._counters.counts().items()
            }

    def _circuit_state(self, platform: str, now: float, wall: float) -> dict[str, Any]:
        held: dict[str, Any] = {"circuit": "closed"}
        of_it = [(place, one) for place, one in self._circuits.items() if place[0] == platform]
        silent = [found for found in of_it if found[1].state(now) != "closed"]
        hosts = {place.shown: one for place, one in silent if place.chat is None}
        if hosts:
            circuit = min(hosts.values(), key=lambda one: one.until)
            held["circuit"] = circuit.state(now)
            held |= {"until": round(wall + circuit.until - now), "why": circuit.why}
            held["hosts"] = ", ".join(sorted(hosts))
        if (until := self._cooldowns.latest([(platform,)], now).until) > now:
            held["throttled_until"] = round(wall + until - now)
        return held | {"chats_held": len(silent) - len(hosts)}

    def long_cooldowns(self) -> dict[ScopeKey, float] | None:
        """Return for how many seconds who asked for a long wait has it; None: as it was before."""
        with self._lock:
            return self._cooldowns.long(self._ticks()) if self._cooldowns.changed else None

    def restore_cooldowns(self, waits: Mapping[ScopeKey, float]) -> None:
        """Take over what `long_cooldowns` returned in an earlier process, less the time since."""
        with self._lock:
            self._cooldowns.restore(waits, self._ticks())

    # --- what a permit does, each under the lock --------------------------------------------

    def enter(self, permit: "Permit", left: int) -> None:
        """Let this delivery pass, with so many parts to go (0: not known yet); raise Held."""
        with self._lock:
            now = self._ticks()
            if wait := self._leases.wait(permit.lease, permit.key, left, now):
                self._limiter.cancel(permit.key)  # a slot is reserved by whose turn it is
                raise Held(BEHIND, retry_after=wait)
            self._check_circuits(permit, now)
            bulkhead = self._bulkhead(permit.places[0])
            silent = sum(other.silent(now) for other in self._bulkheads.values())
            if wait := bulkhead.wait(permit.key, now, silent):
                raise Held(f"{permit.places[0].shown}: {CROWDED}", retry_after=wait)
            self._check_limits(permit, now)
            bulkhead.acquire(permit.key)
            self._leases.acquire(permit.lease, permit.key, left, now, permit.gap)
            for place in permit.places:
                if circuit := self._circuits.get(place):
                    circuit.admit(permit.key, now)

    def _bulkhead(self, host: Place) -> Bulkhead:
        found = self._bulkheads.setdefault(host, Bulkhead())
        self._bulkheads.move_to_end(host)
        for oldest in list(self._bulkheads)[:-MAX_HOSTS]:
            if not len(self._bulkheads[oldest]):
                del self._bulkheads[oldest]
        return found

    def begin(self, key: str) -> None:
        """What goes under `key` is counted from now on."""
        with self._lock:
            self._limiter.begin(key, self._ticks())

    def _check_circuits(self, permit: "Permit", now: float) -> None:
        for place in permit.places:
            circuit = self._circuits.get(place)
            if circuit and (wait := circuit.wait(permit.key, permit.chat, now)):
                whom = place.shown if place.chat is None else "this chat"
                why = circuit.why or NO_ANSWER
                raise Held(f"{whom} gave no answer several times: {why}", retry_after=wait)

    def _check_limits(self, permit: "Permit", now: float) -> None:
        after, why = self._cooldowns.latest(permit.names, now)
        if wait := self._limiter.enter(permit.key, permit.rules, now, after):
            text = f"{permit.platform} asked to wait: {why}" if why else permit.words
            raise Held(text, retry_after=wait)

    def report(self, permit: "Permit", error: DeliveryError | None) -> None:
        """Learn how a request of this delivery ended."""
        with self._lock:
            now = self._ticks()
            self._limiter.finish(permit.key, now)
            answered = None if permit.failed else now
            self._bulkhead(permit.places[0]).release(permit.key, answered)
            for place in permit.places:
                self._learn(place, permit, now)
            if isinstance(error, Throttled):
                scope = permit.names[0] if error.scope == "app" else permit.names[1]
                if wait := error.wait:
                    self._cooldowns.start(scope, wait, now)

    def _learn(self, place: Place, permit: "Permit", now: float) -> None:
        circuit = self._circuits.get(place)
        if permit.failed:
            circuit = circuit or self._new_circuit(place)
            self._circuits.move_to_end(place)
            before = circuit.state(now)
            circuit.record_failure(permit.key, permit.chat, now)
            if before == "closed" != circuit.state(now):
                log.warning("%s: no answer several times; held back", place.shown)
        elif circuit:
            if circuit.state(now) != "closed":
                log.warning("%s: it answers again", place.shown)
            del self._circuits[place]

    def _new_circuit(self, place: Place) -> CircuitBreaker:
        # A host's circuit needs two chats: one that hangs must not hold the others.
        min_chats = 2 if place.chat is None else 1
        circuit = CircuitBreaker(min_chats=min_chats, threshold=self._threshold)
        self._circuits[place] = circuit
        while len(self._circuits) > MAX_CHATS:
            self._circuits.popitem(last=False)
        return circuit

    def close(self, permit: "Permit", result: ChannelResult | None) -> None:
        """A delivery is over: give back what it holds, keep its words, count it."""
        with self._lock:
            now = self._ticks()
            self._limiter.cancel(permit.key, reserved=not permit.held)
            self._leases.release(permit.lease, permit.key, _comes_again(result), now)
            self._bulkhead(permit.places[0]).release(permit.key, None)
            for place in permit.places:
                if circuit := self._circuits.get(place):
                    circuit.release(permit.key)
            if result:
                self._keep_words(permit, result.reason)
                told = (permit.platform, result, self._wall())
                self._counters.count_result(*told, held=permit.untried)

    def _keep_words(self, permit: "Permit", reason: str) -> None:
        """Keep why a circuit opened and what the platform asked to wait for, in shown words."""
        for place in permit.places:
            if permit.failed and (circuit := self._circuits.get(place)):
                circuit.why = reason
        for name in permit.names if permit.throttled else ():
            self._cooldowns.explain(name, reason)


def _comes_again(result: ChannelResult | None) -> float | None:
    """Return after how many seconds a text comes again that is begun, None if it does not."""
    if result is None or not result.again or not (result.done or result.result == "uncertain"):
        return None
    return result.retry_after or 0.0


class Permit:
    """
    What one delivery may do, in one thread (context.Admission); at the end of its `with` block,
    what was granted and not used is given back.

    Its chat stays the one that the message names, whatever the platform calls it; and all parts of
    a message are one after the other in the row. held: it was held back, and has a place to come
    again to. result: what became of the delivery, where that is known.
    """

    def __init__(
        self,
        control: AdmissionControl,
        target: Target,
        key: str,
        rules: list[RateRule],
        host: str = "",
    ) -> None:
        self._control, self.key = control, key
        self.platform, self.chat, self.lease = target.platform, target.chat_id, str(target)
        self.names: tuple[ScopeKey, ScopeKey] = ((self.platform,), (self.platform, self.chat))
        place = Place(self.platform, host)
        self.places = place, place._replace(chat=self.chat)
        self.rules = rules
        self.held = self.failed = self.throttled = False
        self.result: ChannelResult | None = None
        # The words of the request before; redacted by whoever shows them.
        self._last: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close(self, self.result)

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
        """Why one waits who keeps to the limits."""
        return f"kept to the pace of {self.platform} ({'; '.join(map(str, self.rules))})"

    def enter(self, left: int = 0) -> None:
        """Return when the next request may go out now, with so many parts left; else raise Held."""
        try:
            self.held = False
            self._control.enter(self, left)
        except Held as exc:
            self.held = True
            raise Held(self._last or exc.text, retry_after=exc.retry_after) from None

    def begin(self) -> None:
        """What was let pass goes out only now."""
        self._control.begin(self.key)

    def report(self, error: DeliveryError | None) -> None:
        """Learn how the request ended."""
        self._last = error.text if error else None
        self.failed = isinstance(error, Unavailable | Uncertain)
        self.throttled = isinstance(error, Throttled)
        self._control.report(self, error)

    def defer(self, why: str, wait: float) -> NoReturn:
        """Hold it back for another reason; a place that it has stays its own. Raises Held."""
        self.held = True
        raise Held(why, retry_after=wait)
