"""
Cooldowns (Retry-After): until when platforms asked to wait, for a chat or all of an app.

Rule 1: pure; `now` is an argument: seconds of a clock that only goes forward. Rule 2: a shorter
wait never shortens a longer one; an hour at most. Rule 3: `long` are those that are worth keeping
over a restart: a courier that forgot them would ask at once, and some platforms punish that.
Rule 4: bounded.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wakebus.adapters.errors import MAX_WAIT_S

MOST: Final = 10_000
LONG_S: Final = 10.0
MOST_LONG: Final = 1_000
TOO_FAST: Final = "too many messages"

ScopeKey = tuple[str, ...]  # (platform,) or (platform, chat)


class Cooldown(NamedTuple):
    """Until when, and in which words."""

    until: float
    why: str


class Cooldowns:
    """Those of a host. Not thread-safe. `changed`: some long ones came since they were kept."""

    def __init__(self) -> None:
        self._cooldowns: OrderedDict[ScopeKey, Cooldown] = OrderedDict()
        self.changed = False

    def latest(self, names: Sequence[ScopeKey], now: float) -> Cooldown:
        """Return the last of these to end, one that is over (0.0) where all are."""
        found = Cooldown(0.0, "")
        for name in names:
            cooldown = self._cooldowns.get(name, found)
            if cooldown.until <= now:
                self._cooldowns.pop(name, None)
            elif cooldown.until > found.until:
                found = cooldown
        return found

    def start(self, name: ScopeKey, wait: float, now: float, why: str = TOO_FAST) -> None:
        """It asked to wait for so many seconds from now on."""
        asked = Cooldown(now + min(wait, MAX_WAIT_S), why)
        self._cooldowns[name] = max(asked, self._cooldowns.pop(name, asked))
        self.changed |= wait >= LONG_S
        while len(self._cooldowns) > MOST:
            self._cooldowns.popitem(last=False)

    def explain(self, name: ScopeKey, why: str) -> None:
        """Keep in which words it asked, if it did."""
        if cooldown := self._cooldowns.get(name):
            self._cooldowns[name] = cooldown._replace(why=why)

    def long(self, now: float) -> dict[ScopeKey, float]:
        """Return for how many seconds the long ones hold, the newest of very many."""
        self.changed = False
        found = {name: cooldown.until - now for name, cooldown in self._cooldowns.items()}
        long = [(name, wait) for name, wait in found.items() if wait >= LONG_S]
        return dict(long[-MOST_LONG:])

    def restore(self, waits: Mapping[ScopeKey, float], now: float) -> None:
        """Take over what `long` returned, as much of it as is left."""
        for name, wait in waits.items():
            if wait > 0:
                self.start(name, wait, now)
        self.changed = False
