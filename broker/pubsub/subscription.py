"""
One subscription: which events it hands out, what it has missed, how its handler fails (EVENTS.md).

Rule 1: `take` and what it calls run in the events thread alone. Rule 2: a handler that raises is
logged once for each kind of error; the next event comes all the same. Rule 3: what comes through
the filter of the socket is matched again, in full; `bus.**` is taken from the broker only.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from wakebus.broker.errors import BadFrame
from wakebus.broker.protocol.event import MAX_EVENT, Event, decode, open_envelope
from wakebus.broker.protocol.topics import matcher
from wakebus.broker.pubsub.sequences import Gap, Line, Lines

if TYPE_CHECKING:
    from wakebus.broker.pubsub.subscriber import Subscriber

BUS_LINES: Final = 100  # kinds of `bus.**`, for the broker's last few starts
KINDS: Final = 50  # of errors that are logged for one subscription

log: Final = logging.getLogger("wakebus.events")

OnEvent = Callable[[Event], object]
OnGap = Callable[[Gap], object]
Room = Callable[[], bool]  # whether the handler takes an event just now

_new: Final = tuple.__new__  # a NamedTuple's own constructor is four times as slow


class Subscription:
    """
    `patterns`, and what came of them: `received` events, `missed` events.

    Made by `Client.subscribe`.
    """

    def __init__(
        self,
        subscriber: "Subscriber",
        patterns: tuple[str, ...],
        on_event: OnEvent,
        on_gap: OnGap | None,
        room: Room | None = None,
    ) -> None:
        self.patterns = patterns
        self.received = self.missed = 0
        self._subscriber, self._on_event, self._on_gap = subscriber, on_event, on_gap
        self._room = room
        self._matches = [matcher(pattern) for pattern in patterns]
        self._lines, self._bus = Lines(), Lines(BUS_LINES)
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
        self._subscriber.wake()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- events thread --------------------------------------------------------------------

    def take(self, frame: bytes) -> None:
        """Hand one event out if it is wanted; tell of the gap before it."""
        if self._closed:
            return
        head, _, rest = frame.partition(b" ")
        line = self._lines.get(head)
        digits, _, body = rest.partition(b"\0")
        # A number as `decode` takes it; what is not usual, that one decides.
        usual = digits.isdigit() and len(digits) < 16 and digits[0] != 48
        if line is None or not usual or len(frame) > MAX_EVENT:
            self._take_exactly(frame, head)
        elif line.wanted:
            # Topic and publisher were checked when the line began: half of the work on an event.
            try:
                envelope = open_envelope(body)
            except BadFrame as exc:
                self.complain("an event", exc)
            else:
                self._give(line, _new(Event, (line.topic, line.pub, int(digits), envelope)))

    def _take_exactly(self, frame: bytes, head: bytes) -> None:
        try:
            event = decode(frame)
        except BadFrame as exc:
            self.complain("an event", exc)
            return
        topic, pub, n, _ = event
        lines = self._lines
        if topic.startswith("bus."):
            if topic.startswith("bus.probe.") or not self._subscriber.is_bus(pub):
                return
            lines = self._bus  # apart: whose word is taken is looked at for each event
        line = lines.find(head)
        if line is None:
            wanted = any(matches(topic) for matches in self._matches)
            line = Line(topic, pub, n - 1, wanted)
            lines.put(head, line)
        if line.wanted:
            self._give(line, event)

    def _give(self, line: Line, event: Event) -> None:
        if self._room is not None and not self._room():
            return  # missed: the line stays where it is, so that its next event shows the gap
        if missed := line.step(event.n):
            if missed < 0:
                return
            self._tell(Gap(event.topic, event.pub, missed, event.n))
        if not self._closed:
            self.received += 1
            try:
                self._on_event(event)
            except (Exception, SystemExit) as exc:
                self.complain("a handler", exc)

    def _tell(self, gap: Gap) -> None:
        self.missed += gap.missed
        self._subscriber.missed += gap.missed
        if self._on_gap is not None:
            try:
                self._on_gap(gap)
            except (Exception, SystemExit) as exc:
                self.complain("on_gap", exc)

    def complain(self, what: str, error: BaseException) -> None:
        """Log an error, once for each kind."""
        self._subscriber.leave_child(error)
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
            ", ".join(self.patterns),
            type(error).__name__,
            exc_info=error,
        )
