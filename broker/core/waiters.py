"""
Who waits until a message is delivered, handled or answered (PROTOCOL.md section 9).

Rule 1: a waiter is answered exactly once; the message itself is never touched.
"""

from collections.abc import Callable
from typing import TypeVar

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import Waiter
from wakebus.broker.errors import Refused, WakebusError
from wakebus.broker.protocol.message import Message
from wakebus.broker.store.rows import Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import message_of, outcome_of
from wakebus.broker.store.stored_receipt import receipt_of_row
from wakebus.broker.system.processes import has_ended, process_of

K = TypeVar("K")
RowAndAnswer = tuple[Row | None, Row | None]

_REACHED = {"delivered": ("delivered", "handled", "dead"), "handled": ("handled", "dead")}


def row_and_answer(id: str) -> Callable[[Store], RowAndAnswer]:
    """Return what looks up message `id` and the answer to it."""
    return lambda store: (store.find(id), store.answer_to(id))


def answer_if_settled(hub: Hub, waiter: Waiter, row: Row, answer: Row | None) -> bool:
    """Answer and forget a waiter if its time has come; return whether it had."""
    told = receipt_of_row(row)
    if waiter.want == "answer" and answer is not None:
        told["answer"] = message_of(answer["message"])
    elif told["state"] not in _REACHED.get(waiter.want, ("dead",)) and not _unanswered(row):
        return False
    forget_waiter(hub, waiter)
    if answer is not None and told.get("answer", answer) is None:
        text = f"{row['id']} was answered by {answer['id']}, which cannot be read any more"
        hub.fail(waiter.request, Refused(text))
    else:
        hub.reply(waiter.request, told)
    return True


def _unanswered(row: Row) -> bool:
    """Whether the message was handled and its receiver says that no answer will come."""
    return outcome_of(row["outcome"]).get("answered") is False


def add_waiter(hub: Hub, waiter: Waiter) -> None:
    """Have it answered when its time comes."""
    hub.waiters.setdefault(waiter.id, {})[waiter] = None
    if waiter.turn is not None:
        waiter.process = process_of(waiter.request.pid)
        hub.turn_waits.setdefault(waiter.turn, {})[waiter] = None


def count_waiters(hub: Hub, id: str, want: str) -> int:
    """Return how many wait for that of message `id`, without those whose process has ended."""
    found = (one for one in hub.waiters.get(id, ()) if one.want == want)
    return sum(not has_ended(process_of(one.request.pid)) for one in found)


def forget_waiter(hub: Hub, waiter: Waiter) -> None:
    """Remove a waiter, once: it gets its answer now."""
    _drop(hub.waiters, waiter.id, waiter)
    if waiter.turn is not None:
        _drop(hub.turn_waits, waiter.turn, waiter)
    if waiter.timer is not None:
        hub.timers.cancel(waiter.timer)  # it would live until its time
    hub.waits[waiter.request.conn] -= 1
    if not hub.waits[waiter.request.conn]:
        del hub.waits[waiter.request.conn]


def _drop(waiters: dict[K, dict[Waiter, None]], key: K, waiter: Waiter) -> None:
    found = waiters.get(key, {})
    found.pop(waiter, None)
    if not found:
        waiters.pop(key, None)


def answer_waiters(hub: Hub, id: str) -> None:
    """A message's state changed: answer those who waited for it."""
    if id not in hub.waiters:
        return

    def looked(result: RowAndAnswer | WakebusError) -> None:
        if isinstance(result, WakebusError) or result[0] is None:
            return
        for waiter in list(hub.waiters.get(id, ())):
            answer_if_settled(hub, waiter, result[0], result[1])

    hub.store.submit(row_and_answer(id), looked)


def answer_waiters_for(hub: Hub, message: Message) -> None:
    """A message was stored: if it is an answer, tell whoever waits for it."""
    if message.type == "answer" and message.reply_to is not None:
        answer_waiters(hub, message.reply_to)
