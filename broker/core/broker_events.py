"""
The broker's own events: `bus.endpoint.*`, `bus.message.*`, `bus.loop.*`, `bus.probe.*` (EVENTS.md
section 6).

Rule 1: nothing here waits, and no fault of it reaches the step that announces. Rule 2: nothing
rests on an event; who must know asks the message plane. Rule 3: no bodies. Rule 4: while nobody
subscribes, an announcement costs a look at a number.
"""

import logging
import os
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.event import encode, stamp

log = logging.getLogger("wakebus.events")

ROOT: Final = "bus"  # the first segment of what only the broker may publish
ENDPOINT: Final = "bus.endpoint."
MESSAGE: Final = "bus.message."
LOOP: Final = "bus.loop."
PROBE: Final = "bus.probe."
REPORTERS: Final = 10_000  # clients whose last report of missed events is remembered

_CHANGE: Final = {b"\x01": 1, b"\x00": -1}  # a subscription came, or went (zmq_socket(3), XPUB)


def is_ours(topic: str) -> bool:
    """Whether only the broker publishes on `topic`."""
    return topic.partition(".")[0] == ROOT


class BrokerEvents:
    """
    The broker's publisher, owned by the router thread. `pub`: 16 hex; `dropped`: did not go out.

    `wall` tells the time. `send` hands a frame to the proxy; False: its pipe is full.
    """

    def __init__(self, wall: Callable[[], float], send: Callable[[bytes], bool]) -> None:
        self.pub = os.urandom(8).hex()
        self.dropped = 0
        self._wall, self._send = wall, send
        self._numbers: dict[str, int] = {}
        self._listeners = {
            ENDPOINT: 0,
            MESSAGE: 0,
            LOOP: 0,
        }  # subscriptions that reach some of them

    def on_subscription(self, news: bytes) -> None:
        """Count a subscription that came or went, as an XPUB tells it."""
        change = _CHANGE.get(news[:1], 0)
        for stem in self._listeners:
            if _meet(news[1:], stem.encode()):
                self._listeners[stem] = max(0, self._listeners[stem] + change)

    def publish(self, frame: bytes) -> bool:
        """Hand an event to the proxy; False: its pipe is full."""
        taken = self._send(frame)
        self.dropped += not taken
        return taken

    def probe(self, instance: str) -> None:
        """Publish the event that shows a subscriber that its subscriptions work."""
        topic = PROBE + instance
        self.publish(encode(topic, self.pub, 1, stamp(topic, None, self._wall())))

    def announce_endpoint(self, name: str, pid: int, *, up: bool) -> None:
        """Tell that a name is held now, or no longer."""
        if self._listeners[ENDPOINT]:
            self._announce(ENDPOINT + ("up" if up else "down"), {"name": name, "pid": pid})

    def announce_message(self, state: str, to: str, entry: MailboxEntry, **more: Any) -> None:
        """Tell a message's new state, a receipt's word; `more`: `reason` of a dead one."""
        if entry.announced == state:
            return
        entry.announced = state
        if self._listeners[MESSAGE]:
            facts = {"id": entry.id, "from": entry.sender, "to": to}
            facts |= {"type": entry.type, "state": state}
            if entry.claimed:
                more["claimed"] = True
            self._announce(MESSAGE + state, {**facts, **more})

    def announce_loop(self, facts: dict[str, Any]) -> None:
        """Tell that a pair of endpoints is paused."""
        if self._listeners[LOOP]:
            self._announce(f"{LOOP}paused", facts)

    def _announce(self, topic: str, fields: dict[str, Any]) -> None:
        number = self._numbers[topic] = self._numbers.get(topic, 0) + 1
        try:
            self.publish(encode(topic, self.pub, number, stamp(topic, fields, self._wall())))
        except WakebusError as exc:
            self.dropped += 1
            log.error("an event on %s was not published: %s", topic, exc)


def _meet(prefix: bytes, stem: bytes) -> bool:
    """Whether a subscription to `prefix` gets some of what begins with `stem`."""
    return stem.startswith(prefix) or prefix.startswith(stem)


class MissedEvents:
    """How many events all clients together have missed, as they report it. `total` never falls."""

    def __init__(self) -> None:
        self.total = 0
        self._told: dict[str | bytes, int] = {}

    def report(self, who: str | bytes, missed: int) -> None:
        """Client `who` has missed that many since it began."""
        self.total += max(0, missed - self._told.pop(who, 0))
        self._told[who] = missed
        if len(self._told) > REPORTERS:
            del self._told[next(iter(self._told))]  # the one that reported longest ago
