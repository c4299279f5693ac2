"""
Until when platforms asked to wait: a chat, or all of an app.

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

Name = tuple[str, ...]  # (platform,) or (platform, chat)


class Shut(NamedTuple):
    """Until when, and in which words."""

    until: float
    why: str


class Shuts:
    """Those of a host. Not thread-safe. `changed`: some long ones came since they were kept."""

    def __init__(self) -> None:
        self._shut: OrderedDict[Name, Shut] = OrderedDict()
        self.changed = False

    def of(self, names: Sequence[Name], now: float) -> Shut:
        """Return the last of these to end, one that is over (0.0) where all are."""
        found = Shut(0.0, "")
        for name in names:
            shut = self._shut.get(name, found)
            if shut.until <= now:
                self._shut.pop(name, None)
            elif shut.until > found.until:
                found = shut
        return found

    def ask(self, name: Name, wait: float, now: float, why: str = TOO_FAST) -> None:
        """It asked to wait for so many seconds from now on."""
        asked = Shut(now + min(wait, MAX_WAIT_S), why)
        self._shut[name] = max(asked, self._shut.pop(name, asked))
        self.changed |= wait >= LONG_S
        while len(self._shut) > MOST:
            self._shut.popitem(last=False)

    def say(self, name: Name, why: str) -> None:
        """Keep in which words it asked, if it did."""
        if shut := self._shut.get(name):
            self._shut[name] = shut._replace(why=why)

    def long(self, now: float) -> dict[Name, float]:
        """Return for how many seconds the long ones hold, the newest of very many."""
        self.changed = False
        found = {name: shut.until - now for name, shut in self._shut.items()}
        long = [(name, wait) for name, wait in found.items() if wait >= LONG_S]
        return dict(long[-MOST_LONG:])

    def restore(self, waits: Mapping[Name, float], now: float) -> None:
        """Take over what `long` returned, as much of it as is left."""
        for name, wait in waits.items():
            if wait > 0:
                self.ask(name, wait, now)
        self.changed = False
