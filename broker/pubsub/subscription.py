"""
One subscription: which events it hands out, what it has missed, how its handler fails (EVENTS.md).

Rule 1: `on_frame` and what it calls run in the events thread alone. Rule 2: a handler that raises
is logged once for each kind of error; the next event comes all the same. Rule 3: what comes through
the filter of the socket is matched again, in full; `bus.**` is taken from the broker only.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from wakebus.broker.errors import BadFrame
from wakebus.broker.protocol.event import MAX_EVENT, Event, decode, open_envelope
from wakebus.broker.protocol.topics import matcher_of_any, shown_patterns
from wakebus.broker.pubsub.sequences import Gap, Stream, Streams

BUS_STREAMS: Final = 100  # kinds of `bus.**`, for the broker's last few starts
KINDS: Final = 50  # of errors that are logged for one subscription

log: Final = logging.getLogger("wakebus.events")

OnEvent = Callable[[Event], object]
OnGap = Callable[[Gap], object]
HasRoom = Callable[[], bool]  # whether the handler takes an event just now

_new: Final = tuple.__new__  # a NamedTuple's own constructor is four times as slow


class EventsThread(Protocol):
    """What a subscription needs of the thread that calls its handlers. `missed`: by all of them."""

    missed: int

    def wake(self) -> None:
        """Have the thread see what has changed."""

    def is_bus(self, pub: str) -> bool:
        """Return whether `pub` is the broker."""

    def exit_child(self, error: BaseException | None = None) -> None:
        """End the child of a fork in a handler, which has raised `error`; else do nothing."""


class Subscription:
    """
    `patterns`, and what came of them: `received` events, `missed` events.

    Made by `Client.subscribe`.
    """

    def __init__(
        self,
        thread: EventsThread,
        patterns: tuple[str, ...],
        on_event: OnEvent,
        on_gap: OnGap | None,
        has_room: HasRoom | None = None,
    ) -> None:
        self.patterns = patterns
        self.received = self.missed = 0
        self._thread, self._on_event, self._on_gap = thread, on_event, on_gap
        self._has_room = has_room
        self._matches = matcher_of_any(patterns)
        self._streams, self._bus_streams = Streams(), Streams(BUS_STREAMS)
        self._kinds: set[tuple[str, type[BaseException]]] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    def close(self) -> None:
        """
        End it; returns at once, from any thread.

        No event is handed out afterwards, but a handler that runs just now is not waited for.
        """
        self._closed = True
        self._thread.wake()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- events thread --------------------------------------------------------------------

    def on_frame(self, frame: bytes) -> None:
        """Hand one event out if it is wanted; tell of the gap before it."""
        if self._closed:
            return
        head, _, rest = frame.partition(b" ")
        stream = self._streams.get(head)
        digits, _, body = rest.partition(b"\0")
        # A number as `decode` takes it; what is not usual, that one decides.
        usual = digits.isdigit() and len(digits) < 16 and digits[0] != 48
        if stream is None or not usual or len(frame) > MAX_EVENT:
            self._on_unusual_frame(frame, head)
        elif stream.wanted:
            # Topic and publisher were checked when the stream began: half of the work on an event.
            try:
                envelope = open_envelope(body)
            except BadFrame as exc:
                self.log_error("an event", exc)
            else:
                self._hand_out(
                    stream, _new(Event, (stream.topic, stream.pub, int(digits), envelope))
                )

    def _on_unusual_frame(self, frame: bytes, head: bytes) -> None:
        try:
            event = decode(frame)
        except BadFrame as exc:
            self.log_error("an event", exc)
            return
        topic, pub, n, _ = event
        streams = self._streams
        if topic.startswith("bus."):
            if topic.startswith("bus.probe.") or not self._thread.is_bus(pub):
                return
            streams = self._bus_streams  # apart: whose word is taken is looked at for each event
        stream = streams.find(head)
        if stream is None:
            stream = Stream(topic, pub, n - 1, self._matches(topic))
            streams.put(head, stream)
        if stream.wanted:
            self._hand_out(stream, event)

    def _hand_out(self, stream: Stream, event: Event) -> None:
        if self._has_room is not None and not self._has_room():
            return  # missed: the stream stays where it is, so that its next event shows the gap
        if missed := stream.advance_to(event.n):
            if missed < 0:
                return
            self._report(Gap(event.topic, event.pub, missed, event.n))
        if not self._closed:
            self.received += 1
            try:
                self._on_event(event)
            except (Exception, SystemExit) as exc:
                self.log_error("a handler", exc)

    def _report(self, gap: Gap) -> None:
        self.missed += gap.missed
        self._thread.missed += gap.missed
        if self._on_gap is not None:
            try:
                self._on_gap(gap)
            except (Exception, SystemExit) as exc:
                self.log_error("on_gap", exc)

    def log_error(self, what: str, error: BaseException) -> None:
        """Log an error, once for each kind."""
        self._thread.exit_child(error)
        kind = (what, type(error))
        if kind in self._kinds or len(self._kinds) >= KINDS:
            return
        self._kinds.add(kind)
        if isinstance(error, BadFrame):  # a peer's fault, not one of this program
            log.warning("%s was dropped: %s; more of this kind are not told", what, error.text)
            return
        log.error(
            "%s of the subscription to %s raised %s; more of this kind are not logged",
            what,
            shown_patterns(self.patterns),
            type(error).__name__,
            exc_info=error,
        )
