"""
The verb `wait`: somebody wants to know when a message is delivered, handled or answered
(PROTOCOL.md section 9).

Rule 1: the store is asked first, so a wait after the fact is answered at once. Rule 2: who waits
in vain is answered too, by `timeout`.
"""

from typing import Final

from wakebus.broker.core.delays import tell_due
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest, MessageKey, Waiter, digest
from wakebus.broker.core.wait_circles import refuse_circles
from wakebus.broker.core.waiters import (
    RowAndAnswer,
    add_waiter,
    answer_if_settled,
    forget_waiter,
    row_and_answer,
)
from wakebus.broker.duration import seconds_text, span_text
from wakebus.broker.errors import BadMessage, Busy, TimedOut, WakebusError
from wakebus.broker.protocol.delivery_state import DeliveryState, receipt_word
from wakebus.broker.protocol.outcome import awaits_reply
from wakebus.broker.store.rows import Row, waits_until_due
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import outcome_of
from wakebus.broker.store.stored_receipt import receipt_of_row
from wakebus.broker.verbs.fields import answering, fail_unknown, waits_behind
from wakebus.broker.verbs.held_reasons import held_text, receiver_text

WANTS: Final = {"delivered": "delivered", "handled": "handled", "answer": "answered"}
MAX_WAIT_S: Final = 86400.0
MAX_OPEN: Final = 1_000  # waits of one connection


def wait(hub: Hub, request: ClientRequest) -> None:
    """Verb `wait`: answer when the message is `state` (or has its answer), or in time."""
    id, want = request.payload.get("id"), request.payload.get("state")
    timeout = request.payload.get("timeout", 0)
    if not isinstance(want, str) or want not in WANTS or not isinstance(id, str):
        raise BadMessage(f"wait: `id` and a `state` of {', '.join(WANTS)}")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise BadMessage("wait: `timeout` is a number of seconds from 0")
    if not isinstance(request.payload.get("token", ""), str):
        raise BadMessage("wait: `token` is the token of a turn")
    if hub.waits[request.conn] >= MAX_OPEN:
        raise Busy(f"this connection waits for {MAX_OPEN} things already; let some end first")
    waiter = Waiter(request, id, want)
    if request.payload.get("token") is None:
        _note_delivery(hub, waiter)
    hub.waits[request.conn] += 1

    def looked(result: RowAndAnswer | WakebusError) -> None:
        if isinstance(result, WakebusError):
            forget_waiter(hub, waiter)
            hub.fail(request, result)
        elif result[0] is None:
            forget_waiter(hub, waiter)
            fail_unknown(hub, request, id)
        elif not answer_if_settled(hub, waiter, result[0], result[1]):
            waiter.endpoint = result[0]["endpoint"]
            waiter.turn = waiter.turn or _turn_of(hub, request, result[0])
            add_waiter(hub, waiter)
            after = min(timeout, MAX_WAIT_S)
            waiter.timer = hub.timers.later(after, lambda: _time_out(hub, waiter))
            if waiter.turn is not None:
                refuse_circles(hub, waiter.turn)

    # Not urgent: right after a send it would take `got` into a commit without `handled`.
    hub.store.submit(row_and_answer(id), answering(hub, request, looked), urgent=False)


def _note_delivery(hub: Hub, waiter: Waiter) -> None:
    """Note whose handler waits, if that connection has the delivery in hand now."""
    given = waiter.request.payload.get("delivery")
    if given is None:
        return
    if not isinstance(given, dict) or not all(isinstance(given.get(w), str) for w in ("to", "id")):
        raise BadMessage("wait: `delivery` is an object with `to` and `id`")
    name, entry = given["to"], hub.find_entry(given["to"], given["id"])
    holder = hub.endpoints[name].holder if entry else None
    if entry and holder and holder.conn == waiter.request.conn:
        waiter.turn, waiter.generation = (name, entry.id), entry.generation


def _turn_of(hub: Hub, request: ClientRequest, row: Row) -> MessageKey | None:
    """Return from inside of which turn this is: by its token, else what the holder itself sent."""
    token = request.payload.get("token")
    if isinstance(token, str):
        owner = hub.token_owners.get(digest(token))
        return (owner.endpoint, owner.id) if owner else None
    conn = hub.conns.get(request.conn)
    own = conn is not None and row["sender"] in conn.names
    return (row["sender"], row["cause"]) if own and row["cause"] else None


def _time_out(hub: Hub, waiter: Waiter) -> None:
    forget_waiter(hub, waiter)

    def looked(result: RowAndAnswer | WakebusError) -> None:
        row, claimed = (None, None) if isinstance(result, WakebusError) else result
        state = receipt_of_row(row)["state"] if row else "unknown"
        text = f"{waiter.id} is {state}, not yet {WANTS[waiter.want]}"
        behind = waits_behind(hub, row["endpoint"], row["id"]) if row else {}
        why = _why(hub, row)
        text += _due(hub, row) + f"; {why}" * bool(why)
        text += f"{_failed(hub, row)}{_behind(behind)}{_unread(waiter.want, row)}"
        data = {"id": waiter.id, "state": state, **({"why": why} if why else {}), **behind}
        data |= tell_due(hub, row) if row else {}
        if row and row["failures"]:
            data |= {"failures": row["failures"], "failed": row["failed"]}
        if waiter.want == "answer" and claimed:
            data["claimed"] = claimed["id"]
            text += f"; {claimed['id']} says it is from {claimed['sender']}, which is not proven"
        hub.fail(waiter.request, TimedOut(text, **data))

    def find_claimed(store: Store) -> RowAndAnswer:
        return store.find(waiter.id), store.answer_to(waiter.id, claimed=True)

    hub.store.submit(find_claimed, answering(hub, waiter.request, looked))


def _due(hub: Hub, row: Row | None) -> str:
    """Return that a message does not go out yet, "" where it may."""
    if row is None or not waits_until_due(row):
        return ""
    return f"; it goes out in {span_text(max(0.0, row['due'] - hub.bus_time()))}"


def _why(hub: Hub, row: Row | None) -> str:
    """Return why nobody works on a message yet, "" where that is not known, or somebody does."""
    endpoint = hub.endpoints.get(row["endpoint"]) if row else None
    if row is None or endpoint is None:
        return ""
    entry = hub.find_entry(row["endpoint"], row["id"])
    if entry is not None and not row["failures"]:
        return held_text(hub, endpoint, entry)
    queued = receipt_word(DeliveryState(row["state"])) == "queued"
    return receiver_text(hub, endpoint) if queued else ""


def _behind(behind: Row) -> str:
    """Return for which message it waits, and why, "" where there is none."""
    if not behind:
        return ""
    why = f", put off by its receiver: {behind['behind_why']}" if "behind_why" in behind else ""
    return f"; it waits behind {behind['behind']}{why}"


def _unread(want: str, row: Row | None) -> str:
    """Return that a person was shown it and has not replied, "" where nobody is to."""
    if want != "answer" or row is None or not awaits_reply(outcome_of(row["outcome"])):
        return ""
    return f"; it was shown at {row['endpoint']}, where no person has replied yet"


def _failed(hub: Hub, row: Row | None) -> str:
    """Return what to tell of work that failed and is tried again, "" where none did."""
    if not row or not row["failures"]:
        return ""
    left = row["due"] - hub.bus_time()
    again = " and is under way again"
    if row["state"] == DeliveryState.QUEUED:
        again = f", again in {seconds_text(left)}" if left > 0 else " and waits to be tried again"
    elif row["state"] == DeliveryState.STARTED:
        again = " and is worked on again"
    times = "once" if row["failures"] == 1 else f"{row['failures']} times"
    return f"; it failed {times}{again}: {row['failed']}"
