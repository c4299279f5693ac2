"""
The part of a client that publishes and subscribes (EVENTS.md).

Rule 1: sockets and threads are made by the first use. Rule 2: every sender loads this file, so it
imports nothing by itself.
"""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wakebus.broker.client.calls import Ask, Steps, asks
from wakebus.broker.client.queries import Queries
from wakebus.broker.errors import CLOSED, BadTopic, NotRunning, TimedOut, Undecided

if TYPE_CHECKING:  # a sender does not load them
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from wakebus.broker.address import TopicAddresses
    from wakebus.broker.client.connection import Transport
    from wakebus.broker.client.pending_request import Pending
    from wakebus.broker.protocol.event import Event
    from wakebus.broker.pubsub.publisher import Publisher
    from wakebus.broker.pubsub.sequences import Gap
    from wakebus.broker.pubsub.subscriber import Subscriber
    from wakebus.broker.pubsub.subscription import Subscription


class Events(Queries):
    """The part of a client that publishes and subscribes."""

    timeout: float
    instance: str
    _socket: str | None
    _transport: "Transport"
    _lock: "threading.RLock"
    _closed: bool
    _publisher: "Publisher | None" = None
    _subscriber: "Subscriber | None" = None
    _told: "Pending | None" = None

    # --- publishing -----------------------------------------------------------------------

    def publish(
        self, topic: str, fields: "Mapping[str, Any] | None" = None, *, confirm: bool = False
    ) -> None:
        """
        Publish an event: `fields`, with `type`, `ts` and `src` where they are not given.

        Best effort, any thread, never waits; only a client's first publish waits, at most
        `timeout` seconds, for the broker and its subscriptions. While the broker is away events
        are dropped and counted in `dropped`; once it is back they go out again.
        `confirm`: return once the broker has handed the event on; for programs that end at once.

        Raises BadTopic, Refused (`bus.**`), BadMessage, TooBig (64 KiB); NotRunning until the
        broker has been there once. With `confirm` also NotNow, and Undecided: written, but the
        broker said nothing in time.
        """
        if confirm:
            self._confirmed(topic, fields)
            return
        publisher = self._publisher or self._open_publisher()
        publisher.publish(topic, fields, self.timeout)

    @property
    def dropped(self) -> int:
        """Events of this client that could not go out: the broker was away, or its pipe full."""
        return self._publisher.dropped if self._publisher else 0

    def _open_publisher(self) -> "Publisher":
        from wakebus.broker.pubsub.publisher import Publisher

        with self._lock:
            if self._closed:
                raise NotRunning(CLOSED)
            if self._publisher is None:
                self._publisher = Publisher(self._plane().events_in)
            return self._publisher

    @asks
    def _confirmed(self, topic: str, fields: "Mapping[str, Any] | None") -> Steps[None]:
        from wakebus.broker.pubsub.publisher import one_shot

        try:
            yield Ask("publish", one_shot(topic, fields))
        except TimedOut as exc:
            error = Undecided(f"{exc.text}; {topic} may have been published", id="")
            error.data["step"] = "Publish it again if it does no harm when it comes twice."
            raise error from exc

    # --- subscribing ----------------------------------------------------------------------

    def subscribe(
        self,
        pattern: "str | Iterable[str]",
        handler: "Callable[[Event], object]",
        *,
        on_gap: "Callable[[Gap], object] | None" = None,
    ) -> "Subscription":
        """
        Have `handler(event)` called for each event whose topic matches a pattern; once for each.

        Patterns: `*` is one segment, `**` zero or more. Returns when the subscription works;
        `close()` ends it. All handlers of a client run in one thread: a slow one makes its own
        subscription miss events (`on_gap` is told how many, just before the next event of the same
        publisher and topic), and lets the others of this client wait.
        After a restart of the broker it works again by itself. `bus.**` comes from the broker only.

        Raises BadTopic, NotRunning, TimedOut.
        """
        return self._subscribe(pattern, handler, on_gap)

    def _subscribe(
        self,
        pattern: "str | Iterable[str]",
        handler: "Callable[[Event], object]",
        on_gap: "Callable[[Gap], object] | None",
        room: "Callable[[], bool] | None" = None,
    ) -> "Subscription":
        """Subscribe; while `room()` is false events are missed."""
        from wakebus.broker.protocol.topics import check_pattern
        from wakebus.broker.pubsub.subscriber import Probe

        several = isinstance(pattern, Iterable) and not isinstance(pattern, str)
        given: Iterable[object] = pattern if several else [pattern]
        patterns = tuple(dict.fromkeys(check_pattern(one) for one in given))
        if not patterns:
            raise BadTopic("no pattern is given; `**` is all events")
        mark, asked = self._probing(_some(patterns))
        subscriber = self._subscriber or self._open_subscriber()
        probe = Probe(mark, asked, lambda: self._arrived(mark))
        return subscriber.subscribe(patterns, handler, on_gap, probe, room)

    @property
    def missed(self) -> int:
        """Events that the subscriptions of this client have missed, as far as they know."""
        return self._subscriber.missed if self._subscriber else 0

    def _open_subscriber(self) -> "Subscriber":
        from wakebus.broker.pubsub.subscriber import Subscriber

        with self._lock:
            if self._closed:
                raise NotRunning(CLOSED)
            if self._subscriber is None:
                self._subscriber = Subscriber(self._plane)
            return self._subscriber

    def _probing(self, what: str) -> "tuple[bytes, Callable[[], Iterator[int]]]":
        """Return the beginning of a probe's frame, and how it is asked for until it comes."""
        from wakebus.broker.pubsub.subscriber import ASK_AGAIN_MS, instance

        probe = instance()

        def asked() -> "Iterator[int]":
            deadline = time.monotonic() + self.timeout
            number = 0
            while time.monotonic() < deadline:
                pending = self._transport.request("probe", {"instance": probe}, fleeting=True)
                yield ASK_AGAIN_MS[min(number, len(ASK_AGAIN_MS) - 1)]
                self._transport.drop(pending)
                if pending.error is not None:
                    raise pending.error
                number += 1
            raise self._late_subscription(what)

        return f"bus.probe.{probe}\0".encode(), asked

    def _late_subscription(self, what: str) -> "NotRunning | TimedOut":
        where, seconds = self._transport.address, f"{self.timeout:g} s"
        if not self._transport.connected(0):
            return NotRunning(f"no broker answers at {where} ({seconds}); nothing was subscribed")
        return TimedOut(
            f"the broker at {where} did not take the subscription to {what} in {seconds}"
        )

    def _arrived(self, mark: bytes) -> None:
        # Another publisher may learn of it a millisecond later; this client's own must know.
        if self._publisher is not None:
            self._publisher.reached(mark, self.timeout)

    # --- the connection -------------------------------------------------------------------

    def _plane(self) -> "TopicAddresses":
        """Return where the events are, as the broker wrote it. Raises NotRunning."""
        from wakebus.broker.address import topic_addresses

        return topic_addresses(self._transport.address, explicit=self._socket is not None)

    def _greet_events(self) -> None:
        """After a reconnect the broker may be elsewhere, and another one (IO thread)."""
        if self._publisher is None and self._subscriber is None:
            return
        try:
            plane = self._plane()
        except NotRunning:
            return  # it is gone again; the next connect looks again
        if self._publisher is not None:
            self._publisher.move(plane.events_in)
        if self._subscriber is not None:
            self._subscriber.move(plane)

    def _beat_events(self) -> "dict[str, Any]":
        """Return what a beat says of events (IO thread)."""
        if self._publisher is not None:
            self._publisher.tend()
        return {"missed": self._subscriber.missed} if self._subscriber else {}

    def _tell_missed(self, facts: "dict[str, Any]") -> None:
        """Beat without a name: answered `not_registered`, and counted all the same."""
        if facts.get("missed"):
            if self._told is not None:
                self._transport.drop(self._told)  # a silent broker: they must not pile up
            told = {**facts, "instance": self.instance}
            self._told = self._transport.request("beat", told, fleeting=True)

    def _fork_events(self) -> None:
        """In the child of a fork: publish and subscribe anew, when it is asked for."""
        for part in (self._subscriber, self._publisher):
            if part is not None:
                part.after_fork()
        self._publisher = self._subscriber = self._told = None

    def _close_events(self, timeout: float) -> None:
        if self._subscriber is not None:
            self._subscriber.close(timeout)
        if self._publisher is not None:
            self._publisher.close()


def _some(patterns: "tuple[str, ...]") -> str:
    """Return patterns for an error's text."""
    more = f" and {len(patterns) - 3} more" if len(patterns) > 3 else ""
    return f"{' '.join(patterns[:3])}{more}"
