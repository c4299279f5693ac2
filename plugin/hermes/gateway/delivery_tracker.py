"""
What became of an answer that Hermes's core delivers itself.

Rule 1: the core says it of each event that it ends with (GatewayApi.listen). Rule 2: an event is
ours if it is the very one that was handed over; where Hermes made it (inject_message), by its whole
text in its own chat: what quotes us is not us. Rule 3: bounded: what was told is forgotten by who
waited for it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wakebus.plugin.hermes.gateway.conversations import channel_token


class TrackedDelivery:
    """
    `done` is set when the core has ended with the event; `result`: success, failure, ….

    `event`: what was handed over, None where Hermes makes it of `text` for the chat `where`.
    """

    def __init__(self, text: str, where: str) -> None:
        self.done, self.result = threading.Event(), ""
        self.text, self.where, self.event = text, where, None

    event: Any

    def handed_over(self, event: Any) -> None:
        """It is the delivery of this event."""
        self.event = event

    def is_of(self, event: Any) -> bool:
        """Return whether this is the delivery of `event`."""
        if self.event is not None:
            return event is self.event
        there = channel_token(getattr(event, "source", None)) == self.where
        return there and getattr(event, "text", None) == self.text


class DeliveryTracker:
    """The events of ours that the core works on. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracked: list[TrackedDelivery] = []

    @contextmanager
    def tracking(self, text: str, where: str) -> Iterator[TrackedDelivery]:
        """Inside, what becomes of the event with `text` in the chat `where` is noted."""
        delivery = TrackedDelivery(text, where)
        with self._lock:
            self._tracked.append(delivery)
        try:
            yield delivery
        finally:
            with self._lock:
                self._tracked.remove(delivery)

    def on_complete(self, event: Any, outcome: Any) -> None:
        """The core has ended with `event`."""
        with self._lock:
            found = [delivery for delivery in self._tracked if delivery.is_of(event)]
        for delivery in found:
            delivery.result = str(getattr(outcome, "value", outcome) or "")
            delivery.done.set()
