"""
The verb `wait`: somebody wants to know when a message is delivered, handled or answered
(PROTOCOL.md section 9).

Rule 1: the store is asked first, so a wait after the fact is answered at once. Rule 2: a waiter is
answered exactly once, if need be by `timeout`; the message itself is never touched.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from wakebus.broker.core.hub import Hub, Request, Waiter
from wakebus.broker.errors import BadMessage, Busy, TimedOut, UnknownId, WakebusError
from wakebus.broker.protocol.delivery_state import DeliveryState, receipt_word
from wakebus.broker.protocol.message import Message
from wakebus.broker.store.store import Row, Store

WANTS: Final = {"delivered": "delivered", "handled": "handled", "answer": "answered"}
MAX_WAIT_S: Final = 86400.0
MAX_OPEN: Final = 1_000  # waits of one connection


def receipt(row: Row) -> dict[str, Any]:
    """Return a receipt's fields for a stored message."""
    data = {"id": row["id"], "state": receipt_word(DeliveryState(row["state"]))}
    if row.get("outcome"):
        data["outcome"] = json.loads(row["outcome"])
    if row.get("reason"):
        data["reason"] = row["reason"]
    if row.get("fresh") is False:
        data["duplicate"] = True
    return data


def wait(hub: Hub, request: Request) -> None:
    """Verb `wait`: answer when the message is `state` (or has its answer), or in time."""
    id, want = request.payload.get("id"), request.payload.get("state")
    timeout = request.payload.get("timeout", 0)
    if not isinstance(want, str) or want not in WANTS or not isinstance(id, str):
        raise BadMessage(f"wait: `id` and a `state` of {', '.join(WANTS)}")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise BadMessage("wait: `timeout` is a number of seconds from 0")
    if hub.waits[request.conn] >= MAX_OPEN:
        raise Busy(f"this connection waits for {MAX_OPEN} things already; let some end first")
    hub.waits[request.conn] += 1
    waiter = Waiter(request, id, want)

    def looked(result: tuple[Row | None, Row | None] | WakebusError) -> None:
        if isinstance(result, WakebusError):
            _forget(hub, waiter)
            hub.fail(request, result)
        elif result[0] is None:
            _forget(hub, waiter)
            hub.fail(request, UnknownId(f"no message {id} is stored"))
        elif not _settled(hub, waiter, result[0], result[1]):
            hub.waiters.setdefault(id, {})[waiter] = None
            waiter.timer = hub.later(min(timeout, MAX_WAIT_S), lambda: _too_late(hub, waiter))

    # Not urgent: right after a send it would take `got` into a commit without `handled`.
    hub.store.submit(_look(id), looked, urgent=False)


def _look(id: str) -> Callable[[Store], tuple[Row | None, Row | None]]:
    return lambda store: (store.find(id), store.answer_to(id))


def _settled(hub: Hub, waiter: Waiter, row: Row, answer: Row | None) -> bool:
    """Answer and forget a waiter if its time has come; return whether it had."""
    state = receipt(row)["state"]
    if waiter.want == "answer" and answer is not None:
        _forget(hub, waiter)
        hub.reply(waiter.request, {**receipt(row), "answer": json.loads(answer["message"])})
        return True
    reached = {"delivered": ("delivered", "handled", "dead"), "handled": ("handled", "dead")}
    ended = state in reached.get(waiter.want, ("dead",)) or _unanswered(row)
    if ended:
        _forget(hub, waiter)
        hub.reply(waiter.request, receipt(row))
    return ended


def _unanswered(row: Row) -> bool:
    """Whether the message was handled and its receiver says that no answer will come."""
    return bool(row["outcome"]) and json.loads(row["outcome"]).get("answered") is False


def _too_late(hub: Hub, waiter: Waiter) -> None:
    _forget(hub, waiter)

    def looked(row: Row | None) -> None:
        state = receipt(row)["state"] if isinstance(row, dict) else "unknown"
        text = f"{waiter.id} is {state}, not yet {WANTS[waiter.want]}"
        hub.fail(waiter.request, TimedOut(text, id=waiter.id, state=state))

    hub.store.submit(lambda store: store.find(waiter.id), looked)


def _forget(hub: Hub, waiter: Waiter) -> None:
    """Remove a waiter, once: it gets its answer now."""
    waiters = hub.waiters.get(waiter.id, {})
    waiters.pop(waiter, None)
    if not waiters:
        hub.waiters.pop(waiter.id, None)
    if waiter.timer is not None:
        hub.cancel(waiter.timer)  # it would live until its time
    hub.waits[waiter.request.conn] -= 1
    if not hub.waits[waiter.request.conn]:
        del hub.waits[waiter.request.conn]


def tell_waiters(hub: Hub, id: str) -> None:
    """A message's state changed: answer those who waited for it."""
    if id not in hub.waiters:
        return

    def looked(result: tuple[Row | None, Row | None] | WakebusError) -> None:
        if isinstance(result, WakebusError) or result[0] is None:
            return
        for waiter in list(hub.waiters.get(id, ())):
            _settled(hub, waiter, result[0], result[1])

    hub.store.submit(_look(id), looked)


def tell_answer(hub: Hub, message: Message) -> None:
    """A message was stored: if it is an answer, tell whoever waits for it."""
    if message.type == "answer" and message.reply_to is not None:
        tell_waiters(hub, message.reply_to)
