"""
What is known of each (pub, topic): which event came last, and so how many are missing.

Rule 1: pure. Rule 2: bounded: of more lines than the limit the ones unused for longest are
forgotten, and an event of a forgotten line is a first one again: it shows no gap. Rule 3: a number
that is made up (nobody signs an event) can make a wrong gap, never a lost event or a fault.
"""

import os
from typing import Final, NamedTuple

from wakebus.broker.protocol.event import Own

# About 3 MB in a subscriber to `**`; a fleet of 500 agents with 20 topics each fits.
LINES: Final = 10_000


class Gap(NamedTuple):
    """`missed` events of `topic` from publisher `pub` are missing just before its event `n`."""

    topic: str
    pub: str
    missed: int
    n: int


class Line:
    """The events of one publisher on one topic. `wanted`: they match; `last`: the newest number."""

    __slots__ = ("last", "pub", "topic", "wanted")

    def __init__(self, topic: str, pub: str, last: int, wanted: bool) -> None:
        self.topic, self.pub, self.last, self.wanted = topic, pub, last, wanted

    def step(self, n: int) -> int:
        """
        Take event `n`; return how many are missing before it, -1 when it came before.

        An older number than the last one is late, or of somebody who shares the name: it
        counts for nothing and changes nothing.
        """
        ahead = n - self.last
        if ahead > 0:
            self.last = n
            return ahead - 1
        return -1 if ahead == 0 else 0


class Lines:
    """Up to `limit` lines by key (the head of a frame)."""

    def __init__(self, limit: int = LINES) -> None:
        # Two generations instead of a list by age: a line in use costs one look-up, no reordering.
        self._half = max(1, limit // 2)
        self._young: dict[bytes, Line] = {}
        self._old: dict[bytes, Line] = {}
        self.get = self._young.get  # what is used all the time is nearly always here

    def find(self, key: bytes) -> Line | None:
        """Return the line of `key`; it counts as used."""
        line = self._young.get(key)
        if line is None and (line := self._old.pop(key, None)) is not None:
            self.put(key, line)
        return line

    def put(self, key: bytes, line: Line) -> None:
        """Keep a line, and forget the half unused for longest when there is no room."""
        if len(self._young) >= self._half:
            self._old = self._young
            self._young = {}
            self.get = self._young.get
        self._young[key] = line

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class Numbers:
    """
    A publisher's own numbers: `pub`, and a counter for each topic.

    Over the limit all of it begins anew under another `pub`: a counter that began again under
    the same one would look like events from the past.
    """

    def __init__(self, limit: int = LINES) -> None:
        self._limit = limit
        self.pub = ""
        self.own: dict[str, Own] = {}
        self.renew()

    def renew(self) -> None:
        """Begin anew."""
        self.pub = os.urandom(8).hex()
        self.own.clear()

    def add(self, topic: str) -> Own:
        """Have a counter for `topic`, at 0."""
        if len(self.own) >= self._limit:
            self.renew()
        own = self.own[topic] = Own(topic, self.pub)
        return own
