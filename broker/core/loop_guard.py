"""
Whether turns that send to each other may go on (PROTOCOL.md section 4): not for ever.

Rule 1: pure; `now` is an argument, monotonic seconds. Rule 2: only what a turn caused is looked at;
what starts no turn, or ends one, is not. Of that, only what comes back to an endpoint is counted by
its number: work that is passed on is no loop. Rule 3: bounded, and in memory alone: a new broker
counts anew.
"""

from collections import deque
from typing import Final, NamedTuple

from wakebus.broker.protocol.message import Message

EXEMPT: Final = frozenset({"ack", "progress", "answer", "say"})  # `say` is a text for a chat
MAX_PAIRS: Final = 10_000
SHOWN: Final = 6  # names of a chain

Pair = tuple[str, str]  # sender and target


class LoopLimits(NamedTuple):
    """
    Turns in a chain; messages in `window_s` that come back to another one, and those to oneself; a
    pause's length.
    """

    hops: int
    messages: int
    alone: int
    window_s: float
    pause_s: float


class PausedPair(NamedTuple):
    """Messages from `sender` to `to` that turns cause are refused until then (monotonic)."""

    sender: str
    to: str
    reason: str
    until: float


def is_guarded(message: Message) -> bool:
    """
    Whether a turn caused this message and it may start another.

    What an endpoint sends itself for an event that others' turns caused is no loop of its own yet.
    """
    others = message.sender == message.to and message.path and message.to not in message.path
    return message.hops > 0 and message.type not in EXEMPT and not others


def comes_back(message: Message) -> bool:
    """Whether a turn of its target led to it, for all that its path tells."""
    return not message.path or message.to == message.sender or message.to in message.path


def ends_pauses(message: Message) -> bool:
    """Whether no turn caused it: a person wants something of its target, whatever went on there."""
    return not message.hops and message.type not in EXEMPT and message.sender != message.to


class LoopGuard:
    """What came back of late, by sender and target, and which of these pairs are paused."""

    def __init__(self, limits: LoopLimits) -> None:
        self._limits = limits
        self._sent: dict[Pair, deque[float]] = {}
        self._paused: dict[Pair, PausedPair] = {}

    def admit(self, message: Message, now: float) -> PausedPair | None:
        """Admit a guarded message and return None, or return the pause that it meets or makes."""
        pair = (message.sender, message.to)
        if (paused := self._paused.get(pair)) is not None:
            if paused.until > now:
                return paused
            self._forget(pair)
        counted = comes_back(message)
        if reason := self._too_far(message) or (counted and self._too_many(message, now)):
            return PausedPair(*pair, reason, now + self._limits.pause_s)
        if counted:
            self._sent.setdefault(pair, deque()).append(now)
            self._make_room(now)
        return None

    def discount(self, message: Message) -> None:
        """A message that was admitted was not stored after all."""
        sent = self._sent.get((message.sender, message.to))
        if sent and comes_back(message):
            sent.pop()

    def pause(self, pair: PausedPair) -> bool:
        """Refuse what comes from now on; return whether that is new."""
        key = (pair.sender, pair.to)
        if key in self._paused:
            return False
        self._paused[key] = pair
        if len(self._paused) > MAX_PAIRS:
            self._forget(next(iter(self._paused)))
        return True

    def paused(self, now: float) -> list[PausedPair]:
        """Return what is paused now, the oldest pause first."""
        for pair, paused in list(self._paused.items()):
            if paused.until <= now:
                self._forget(pair)
        return list(self._paused.values())

    def resume(self, now: float, *, name: str = "", pair: Pair | None = None) -> list[PausedPair]:
        """Lift the pauses of this pair, else of all that `name` is in, else all; return them."""
        lifted = [
            one
            for one in self.paused(now)
            if (pair is None or pair == (one.sender, one.to)) and name in ("", one.sender, one.to)
        ]
        for one in lifted:
            self._forget((one.sender, one.to))
        return lifted

    def _too_far(self, message: Message) -> str:
        if message.hops <= self._limits.hops:
            return ""
        names = [*message.path, message.to]
        chain = " → ".join(names[-SHOWN:])
        shown = f"… → {chain}" if len(names) > SHOWN else chain
        return f"more than {self._limits.hops} turns caused each other ({shown})"

    def _too_many(self, message: Message, now: float) -> str:
        limits, sent = self._limits, self._sent.get((message.sender, message.to), deque())
        while sent and sent[0] <= now - limits.window_s:
            sent.popleft()
        alone = message.sender == message.to
        if len(sent) < (limits.alone if alone else limits.messages):
            return ""
        whom = "itself" if alone else message.to
        return f"its turns sent {len(sent)} messages to {whom} within {limits.window_s:g} s"

    def _forget(self, pair: Pair) -> None:
        self._paused.pop(pair, None)
        self._sent.pop(pair, None)

    def _make_room(self, now: float) -> None:
        if len(self._sent) > MAX_PAIRS:
            old = now - self._limits.window_s
            self._sent = {
                pair: sent for pair, sent in self._sent.items() if sent and sent[-1] > old
            }
        if len(self._sent) > MAX_PAIRS:
            del self._sent[next(iter(self._sent))]
