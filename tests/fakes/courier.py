"""A courier without a broker: deliveries that keep what was said of them; scripted answers."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wakebus.adapters.base import Request, Response, Transport
from wakebus.adapters.courier.delivery_log import DeliveryLog
from wakebus.adapters.courier.handler import Courier
from wakebus.adapters.pacing.admission import AdmissionControl
from wakebus.broker import Delivery, Outcome
from wakebus.broker.errors import WakebusError

NOW = 1_795_824_843.0
NEVER = 1 << 30  # failures before a circuit opens


class FakeDelivery(Delivery):
    """A delivery that keeps what was said of it instead of telling a broker."""

    def __init__(self, body: dict[str, Any], error: WakebusError | None = None, **head: Any):
        message: dict[str, Any] = {"id": head.pop("id", "m1"), "ts": head.pop("ts", NOW - 5)}
        message |= {"from": head.pop("sender", "lead-agent"), "to": "courier", "body": body}
        super().__init__({"message": message, "epoch": 1} | head, "courier", None)  # type: ignore[arg-type]
        self.error, self.starts = error, 0

    def started(self, token: str | None = None) -> None:
        """Count, or raise."""
        self.starts += 1
        if self.error:
            raise self.error


class FakeTransport:
    """Answers one after the other: an error, or None for success; keeps the requests."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers, self.seen = list(answers), list[Request]()

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        if self.answers and (error := self.answers.pop(0)):
            raise error
        return Response(200, b'{"id": "k"}')


class Halt(threading.Event):
    """What a handler waits by: no time passes, unless it is set."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        return self.is_set()


class Desk:
    """`handle` hands the courier a delivery; `at` is its time, `trips` failures open a circuit."""

    def __init__(
        self,
        delivery_log: DeliveryLog,
        wire: Transport,
        *,
        trips: int = NEVER,
        folder: Path | None = None,
        **env: str,
    ) -> None:
        self.at, self.halt, self.env = NOW, Halt(), env
        self.admission = AdmissionControl(
            lambda: self.env, ticks=lambda: self.at, failure_threshold=trips
        )
        self.one = Courier(
            {"console": wire},
            delivery_log,
            env=lambda: self.env,
            folder=folder,
            admission=self.admission,
            now=lambda: self.at,
            jitter=lambda: 1.0,
        )

    def handle(self, delivery: Delivery) -> Outcome:
        """Return what the broker would be told."""
        return self.one.handle(delivery, self.halt)


MakeDesk = Callable[..., Desk]


def say(text: str = "build done", channel: str = "console:alice", **head: Any) -> FakeDelivery:
    """Return a delivery of this text."""
    return FakeDelivery({"type": "say", "text": text, "channel": channel}, **head)
