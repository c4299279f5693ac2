"""
The streams of events, one for each (pub, topic): which one came last, so how many are missing.

Rule 1: pure. Rule 2: bounded: of more streams than the limit the ones unused for longest are
forgotten, and an event of a forgotten stream is a first one again: it shows no gap. Rule 3: a
number that is made up (nobody signs an event) can make a wrong gap, never a lost event or a
fault.
"""

import os
from typing import Final, NamedTuple

from wakebus.broker.protocol.event import OwnStream

# About 3 MB in a subscriber to `**`; a fleet of 500 agents with 20 topics each fits.
MAX_STREAMS: Final = 10_000


class Gap(NamedTuple):
    """`missed` events of `topic` from publisher `pub` are missing just before its event `n`."""

    topic: str
    pub: str
    missed: int
    n: int


class Stream:
    """The events of one publisher on one topic. `wanted`: they match; `last`: the newest number."""

    __slots__ = ("last", "pub", "topic", "wanted")

    def __init__(self, topic: str, pub: str, last: int, wanted: bool) -> None:
        self.topic, self.pub, self.last, self.wanted = topic, pub, last, wanted

    def advance_to(self, n: int) -> int:
        """
        Count event `n`; return how many are missing before it, -1 when it came before.

        An older number than the last one is late, or of somebody who shares the name: it
        counts for nothing and changes nothing.
        """
        ahead = n - self.last
        if ahead > 0:
            self.last = n
            return ahead - 1
        return -1 if ahead == 0 else 0


class Streams:
    """Up to `limit` streams by key (the head of a frame)."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        # Two generations, not a list by age: a stream in use costs one look-up, no reordering.
        self._half = max(1, limit // 2)
        self._young: dict[bytes, Stream] = {}
        self._old: dict[bytes, Stream] = {}
        self.get = self._young.get  # what is used all the time is nearly always here

    def find(self, key: bytes) -> Stream | None:
        """Return the stream of `key`; it counts as used."""
        stream = self._young.get(key)
        if stream is None and (stream := self._old.pop(key, None)) is not None:
            self.put(key, stream)
        return stream

    def put(self, key: bytes, stream: Stream) -> None:
        """Keep a stream, and forget the half unused for longest when there is no room."""
        if len(self._young) >= self._half:
            self._old = self._young
            self._young = {}
            self.get = self._young.get
        self._young[key] = stream

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class Counters:
    """
    A publisher's sequence numbers: `pub`, and a counter for each topic.

    Over the limit all of it begins anew under another `pub`: a counter that began again under
    the same one would look like events from the past.
    """

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self._limit = limit
        self.pub = ""
        self.streams: dict[str, OwnStream] = {}
        self.renew()

    def renew(self) -> None:
        """Begin anew."""
        self.pub = os.urandom(8).hex()
        self.streams.clear()

    def add(self, topic: str) -> OwnStream:
        """Have a counter for `topic`, at 0."""
        if len(self.streams) >= self._limit:
            self.renew()
        stream = self.streams[topic] = OwnStream(topic, self.pub)
        return stream
