"""
A client's topic plane: what it publishes and subscribes to (EVENTS.md).

Rule 1: a socket and its thread are made by the first use. Rule 2: nothing is known here of messages
and names; the broker is asked for one thing only, to publish a subscription's probe.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from wakebus.broker.address import TopicAddresses
from wakebus.broker.denial import not_running
from wakebus.broker.errors import CLOSED, BadTopic, NotRunning, TimedOut
from wakebus.broker.protocol.topics import check_pattern, shown_patterns

if TYPE_CHECKING:  # who publishes does not load what subscribes
    from wakebus.broker.pubsub.publisher import Publisher
    from wakebus.broker.pubsub.subscriber import Subscriber
    from wakebus.broker.pubsub.subscription import HasRoom, OnEvent, OnGap, Subscription

MAX_PATTERNS: Final = 20_000  # of one subscription: a second or so until they are all known


class AsksBroker(Protocol):
    """What a topic plane needs of its client's connection."""

    @property
    def address(self) -> str:
        """Where the broker is looked for."""

    def connected(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a broker to be there; return whether one is."""

    def asking(self, verb: str, payload: dict[str, Any]) -> AbstractContextManager[None]:
        """Ask for as long as this lasts; raise the error that the broker has answered."""


class TopicPlane:
    """`locate()`: where the events are, as the broker wrote it, or NotRunning."""

    def __init__(self, broker: AsksBroker, locate: Callable[[], TopicAddresses]) -> None:
        self._broker, self._locate = broker, locate
        self._publisher: Publisher | None = None
        self._subscriber: Subscriber | None = None
        self._closed = False
        self._lock = threading.RLock()  # a signal handler may close

    # --- publishing -----------------------------------------------------------------------

    def publish(self, topic: str, fields: Mapping[str, Any] | None, timeout: float) -> None:
        """Publish an event; `timeout`: seconds that the very first one waits for the broker."""
        (self._publisher or self._open_publisher()).publish(topic, fields, timeout)

    @property
    def dropped(self) -> int:
        """Events that could not go out."""
        return self._publisher.dropped if self._publisher else 0

    def _open_publisher(self) -> "Publisher":
        from wakebus.broker.pubsub.publisher import Publisher

        with self._lock:
            self._check_open()
            if self._publisher is None:
                self._publisher = Publisher(self._locate().events_in)
            return self._publisher

    # --- subscribing ----------------------------------------------------------------------

    def subscribe(
        self,
        pattern: str | Iterable[str],
        on_event: "OnEvent",
        on_gap: "OnGap | None",
        timeout: float,
        has_room: "HasRoom | None" = None,
    ) -> "Subscription":
        """
        Subscribe, and return within `timeout` seconds, when it works; missed while not `has_room`.

        Raises BadTopic, NotRunning, TimedOut.
        """
        from wakebus.broker.pubsub.subscriber import Probe, new_probe_id

        several = isinstance(pattern, Iterable) and not isinstance(pattern, str)
        given: Iterable[object] = pattern if several else [pattern]
        patterns = tuple(dict.fromkeys(check_pattern(one) for one in given))
        if not patterns:
            raise BadTopic("no pattern is given; `**` is all events")
        if len(patterns) > MAX_PATTERNS:
            raise BadTopic(
                f"{len(patterns)} patterns; one subscription has at most {MAX_PATTERNS}. Subscribe "
                "to what they have in common (`ci.**`), or several times"
            )
        subscriber = self._subscriber or self._open_subscriber()
        id = new_probe_id()
        mark = f"bus.probe.{id}\0".encode()

        def arrived() -> None:
            # Another publisher may learn of it a millisecond later; this client's own must know.
            if self._publisher is not None:
                self._publisher.wait_for_probe(mark, timeout)

        probe = Probe(mark, lambda: self._ask_for_probe(id, patterns, timeout), arrived)
        return subscriber.subscribe(patterns, on_event, on_gap, probe, has_room)

    @property
    def missed(self) -> int:
        """Events that all subscriptions together have missed, as far as they know."""
        return self._subscriber.missed if self._subscriber else 0

    def _open_subscriber(self) -> "Subscriber":
        from wakebus.broker.pubsub.subscriber import Subscriber

        with self._lock:
            self._check_open()
            if self._subscriber is None:
                self._subscriber = Subscriber(self._locate)
            return self._subscriber

    def _ask_for_probe(self, id: str, patterns: tuple[str, ...], timeout: float) -> Iterator[int]:
        """Ask for the probe again and again; yield how long to look out for it, in ms."""
        from wakebus.broker.pubsub.subscriber import ASK_AGAIN_MS

        deadline = time.monotonic() + timeout
        number = 0
        while time.monotonic() < deadline:
            with self._broker.asking("probe", {"instance": id}):
                yield ASK_AGAIN_MS[min(number, len(ASK_AGAIN_MS) - 1)]
            number += 1
        where, seconds = self._broker.address, f"{timeout:g} s"
        if not self._broker.connected(0):
            text = f"no broker answers at {where} ({seconds})"
            raise not_running(where, text, "nothing was subscribed")
        raise TimedOut(
            f"the broker at {where} did not take the subscription to {shown_patterns(patterns)} "
            f"in {seconds}"
        )

    # --- the connection (IO thread) -------------------------------------------------------

    def greet(self) -> None:
        """After a reconnect the broker may be elsewhere, and another one."""
        if self._publisher is None and self._subscriber is None:
            return
        try:
            addresses = self._locate()
        except NotRunning:
            return  # it is gone again; the next connect looks again
        if self._publisher is not None:
            self._publisher.move_to(addresses.events_in)
        if self._subscriber is not None:
            self._subscriber.move_to(addresses)

    def heartbeat(self) -> dict[str, Any]:
        """Return what a heartbeat tells of events."""
        if self._publisher is not None:
            self._publisher.read_news()
        return {"missed": self._subscriber.missed} if self._subscriber else {}

    # --- the end --------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise NotRunning(CLOSED)

    def after_fork(self) -> None:
        """In the child of a fork: be over; what is subscribed is the parent's."""
        for part in (self._subscriber, self._publisher):
            if part is not None:
                part.after_fork()
        self._closed = True
        self._lock = threading.RLock()

    def close(self, timeout: float) -> None:
        """End all subscriptions; what was published has a moment to get out."""
        with self._lock:
            self._closed = True
        if self._subscriber is not None:
            self._subscriber.close(timeout)
        if self._publisher is not None:
            self._publisher.close()
