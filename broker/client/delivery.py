"""
What a handler is given: the message, and what the broker knows of its delivery.

Rule 1: knows no connection; how the broker is told is given.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.message import Message

# (delivery, verb, fields, wait): tells the broker; `wait`: returns once it is stored, or raises.
SendAck = Callable[["Delivery", str, dict[str, Any], bool], None]
# (delivery, verb, fields): the same for a handler in a loop, always until it is stored.
AwaitAck = Callable[["Delivery", str, dict[str, Any]], Awaitable[None]]


class Arrival:
    """
    A message that a handler is given, and what is known of its delivery.

    `attempt` counts from 1, one more for each holder that died with it, or while it was on its way
    there; `redelivered`: a receiver may have had it before, and handled it, for all that the broker
    can know (PROTOCOL-6.2); `started_before`: and said that work began. `asks`: the sender waits
    for an answer; `sender_known`: the sender is an endpoint; `claimed`: the sender is not proven;
    `retried`: how often it was a dead letter and brought back. `failures`: how often work on it
    failed since (`Later.failed`), the last time because of `failed`.
    """

    def __init__(self, payload: dict[str, Any], name: str) -> None:
        self.message: Message = messages.from_wire(payload["message"])
        self.name = name
        self.epoch = int(payload["epoch"])
        self.attempt = int(payload.get("attempt", 1))
        self.redelivered = payload.get("redelivered") is True
        self.started_before = payload.get("started") is True
        self.asks = payload.get("asks") is True
        self.sender_known = payload.get("sender_known") is True
        self.claimed = payload.get("claimed") is True
        self.retried = int(payload.get("retried", 0))
        self.failures = int(payload.get("failures", 0))
        self.failed = str(payload.get("failed", ""))
        self.takes_more = False
        self.lost = False  # `started` found that it is no longer ours

    def leads_to(self) -> tuple[str, int, tuple[str, ...]]:
        """Return `cause`, `hops` and `path` of what is sent because of it."""
        message = self.message
        path = (*message.path, self.name)[-messages.MAX_PATH :]
        return message.id, min(message.hops + 1, messages.MAX_HOPS), path

    def _start_fields(self, token: str | None) -> dict[str, Any]:
        fields: dict[str, Any] = {"hops": self.message.hops, "path": list(self.message.path)}
        return fields if token is None else {**fields, "token": token}


class Delivery(Arrival):
    """
    An Arrival for a handler in a thread.

    `cancelled`: why its work is not wanted any more, as `cancelled by ci`; "" while it is. Whatever
    the handler returns then, the message is dead by that reason.
    """

    def __init__(self, payload: dict[str, Any], name: str, send_ack: SendAck) -> None:
        super().__init__(payload, name)
        self._send_ack = send_ack
        self._lock = threading.Lock()
        self._on_cancel: list[Callable[[], object]] = []
        self.cancelled = ""

    def on_cancel(self, act: Callable[[], object]) -> None:
        """Call `act` once this is cancelled, at once if it is: in another thread, so quickly."""
        with self._lock:
            if not self.cancelled:
                self._on_cancel.append(act)
                return
        act()

    def cancel(self, reason: str) -> None:
        """Its work is not wanted any more; for the client, which was told."""
        with self._lock:
            acts, self._on_cancel = self._on_cancel, []
            self.cancelled = self.cancelled or reason
        for act in acts:
            act()

    def started(self, token: str | None = None) -> None:
        """
        Say that work begins; returns once that is stored, so a later redelivery is labelled.

        `token` (16 to 128 characters): sends that show it come provably from this turn. Raises
        Fenced, NotRegistered or NotRunning when the delivery is no longer ours: the work must
        not begin, and what the handler returns is not looked at.
        """
        self._send_ack(self, "started", self._start_fields(token), True)

    def take_more(self) -> None:
        """Take the lane's next message too while this one is in flight (for coalescing)."""
        self.takes_more = True
        self._send_ack(self, "got", {"more": True}, False)

    def wait_behind(self, id: str) -> None:
        """Say that work on this begins when that on message `id` of the same name has ended."""
        self._send_ack(self, "got", {"behind": id}, False)

    def wait_because(self, why: str, for_s: float = 0.0) -> None:
        """
        Say why work on this does not begin yet, for who asks; `for_s`: seconds that it rests.

        Said of one that begins, it is for what comes after. An empty `why` takes it back.
        """
        fields = {"why": why, "for_s": round(for_s, 1)} if for_s else {"why": why}
        self._send_ack(self, "got", fields, False)


class AsyncDelivery(Arrival):
    """An Arrival for a handler in a loop."""

    def __init__(self, delivery: Delivery, await_ack: AwaitAck) -> None:
        vars(self).update(vars(delivery))
        self._delivery, self._await_ack = delivery, await_ack

    @property
    def cancelled(self) -> str:
        """Why its work is not wanted any more, "" while it is; its handler's task is cancelled."""
        return self._delivery.cancelled

    async def started(self, token: str | None = None) -> None:
        """Say that work begins, as `Delivery.started` does; cancelled, it may have been said."""
        await self._await_ack(self._delivery, "started", self._start_fields(token))

    def take_more(self) -> None:
        """Take the lane's next message too while this one is in flight (for coalescing)."""
        self.takes_more = True
        self._delivery.take_more()
