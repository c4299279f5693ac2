"""
The verb `send` (PROTOCOL.md section 4).

Rule 1: a receipt leaves only after the commit that holds it. Rule 2: a refusal says why and what
to do, and nothing of it is stored.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from wakebus.broker.core.bounces import check_not_reserved
from wakebus.broker.core.delays import due_of, tell_due
from wakebus.broker.core.dispatch import dispatch
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.loop_guard import PausedPair, ends_pauses, is_guarded
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import ClientRequest, Endpoint, TokenOwner, digest
from wakebus.broker.core.waiters import answer_waiters_for
from wakebus.broker.errors import (
    BadToken,
    Busy,
    Fenced,
    Loop,
    NotRegistered,
    UnknownTarget,
    WakebusError,
)
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.protocol.message import Message
from wakebus.broker.store.rows import Put, Row
from wakebus.broker.store.store import Operation
from wakebus.broker.store.stored_receipt import receipt_of_row
from wakebus.broker.verbs.fields import answering
from wakebus.broker.verbs.held_reasons import held_text, reason_for_new
from wakebus.broker.verbs.loops import describe_pause, loop_error

log = logging.getLogger("wakebus.send")


def send(hub: Hub, request: ClientRequest) -> None:
    """Verb `send`: check, store, then answer with the receipt."""
    payload = request.payload
    given = messages.from_wire(payload.get("message"), msgspec.json.encode)
    message, claimed = _origin(hub, request, given)
    by = {"by": message.sender, "pid": request.pid, "claimed": claimed}
    accept_message(hub, request, message, by, claimed=claimed)


def accept_message(
    hub: Hub,
    request: ClientRequest,
    message: Message,
    by: Mapping[str, Any],
    *,
    claimed: bool,
    store_by: Callable[[Put], Operation] = lambda put: put,
    more: Mapping[str, Any] = {},
) -> None:
    """
    Store `message`, answer with its receipt and `more`, send it on its way.

    `by`: who gave it, for its steps. `store_by`: what stores it, where more is to be looked at.
    """
    payload = request.payload
    for field, name in (("from", message.sender), ("to", message.to)):
        check_not_reserved(name, field)
    due = due_of(hub, message)
    if hub.store.full():
        raise Busy("the broker has more work waiting than it takes; try again in a second")
    guarded = is_guarded(message)
    met = hub.loops.admit(message, hub.clock.mono()) if guarded else None
    queue, asks = payload.get("queue") is True, payload.get("asks") is True
    known = queue or hub.known(message.to)
    blob = msgspec.json.encode(message.to_wire())
    endpoint = hub.endpoint(message.to) if known else Endpoint(message.to, hub.settings)
    now = hub.bus_time()
    ahead = endpoint.mailbox.ahead + endpoint.arriving
    sent = not due and hub.reads(endpoint) and endpoint.mailbox.book(message.lane, len(blob))
    put = Put(
        message,
        blob,
        now,
        (due or now) + message.ttl_s,
        due=due,
        log=_first_lines(hub, by, hub.live(endpoint), ahead, message.not_before if due else None),
        known=known,
        full=endpoint.full(hub.settings, len(blob)),
        asks=asks,
        claimed=claimed,
        refusal=loop_error(hub, met) if met else None,
        sent=sent,
    )
    endpoint.arriving += 1
    endpoint.arriving_bytes += len(blob)

    def done(result: Row | WakebusError) -> None:
        endpoint.arriving -= 1
        endpoint.arriving_bytes -= len(blob)
        if sent:
            endpoint.mailbox.unbook(message.lane)
        stored = isinstance(result, dict) and result["fresh"]
        if isinstance(result, Loop) and met:
            _pause(hub, met, message.id)
        elif guarded and not met and not stored:
            hub.loops.discount(message)
        _stored(hub, request, endpoint, put, result, {**more, "ahead": ahead})

    hub.store.submit(store_by(put), answering(hub, request, done), len(blob))


def _origin(hub: Hub, request: ClientRequest, message: Message) -> tuple[Message, bool]:
    """Return the message as its true sender's, and whether the sender is only claimed."""
    token = request.payload.get("token")
    if token is not None:
        owner = hub.token_owners.get(digest(token)) if isinstance(token, str) else None
        if owner is None:
            raise BadToken("this token's turn is over; send under your own name")
        return _caused_by(owner, message), False
    conn = hub.conns.get(request.conn)
    names = conn.names if conn else set()
    if conn and message.sender in conn.lost:
        raise Fenced(f"{message.sender} was taken over by another client", to=message.sender)
    if names and message.sender not in names:
        raise NotRegistered(
            f"this connection is registered as {', '.join(sorted(names))} "
            f"and cannot send as {message.sender}"
        )
    endpoint = hub.endpoints.get(message.sender) if names else None
    turn = endpoint.mailbox.only_turn() if endpoint else None
    inside = message.cause is None and request.payload.get("outside_turn") is not True
    if turn is not None and inside:
        message = _caused_by(TokenOwner(message.sender, turn.id, turn.hops, turn.path), message)
    return message, not names


def _caused_by(turn: TokenOwner, message: Message) -> Message:
    hops = min(turn.hops + 1, messages.MAX_HOPS)
    return message._replace(sender=turn.endpoint, cause=turn.id, hops=hops, path=turn.path_on)


def _pause(hub: Hub, pair: PausedPair, id: str) -> None:
    """Message `id` was one too many."""
    if hub.loops.pause(pair):
        log.warning("%s", loop_error(hub, pair).text)
        hub.events.announce_loop({"id": id, **describe_pause(hub, pair)})


def _first_lines(
    hub: Hub, by: Mapping[str, Any], live: bool, ahead: int, not_before: float | None
) -> str:
    until = {} if not_before is None else {"not_before": not_before}
    return hub.log_line("accepted", **by) + hub.log_line("queued", live=live, ahead=ahead, **until)


def _stored(
    hub: Hub,
    request: ClientRequest,
    endpoint: Endpoint,
    put: Put,
    result: Row | WakebusError,
    more: Mapping[str, Any],
) -> None:
    if isinstance(result, UnknownTarget):
        hub.fail(request, hub.unknown_target(put.message.to, **result.data))
        return
    if isinstance(result, WakebusError):
        hub.fail(request, result)
        return
    hub.accepted += result["fresh"]
    live = hub.live(endpoint)
    if result["fresh"] and result["state"] == DeliveryState.QUEUED:
        hub.enter(endpoint, MailboxEntry.of_put(put, result["seq"], hub.clock.mono()))
    told = {**receipt_of_row(result), "to": put.message.to, "live": live, **more}
    told |= tell_due(hub, {"failures": 0, "due": put.due, **result})
    if why := _why(hub, endpoint, put, fresh=result["fresh"]):
        told["why"] = why
    if put.claimed and put.message.type == "answer" and put.message.reply_to is not None:
        told["claimed"] = True  # it ends no wait
    # The receipt goes first: on a burst the sender's next message waits for it.
    hub.reply(request, told)
    if result["fresh"] and ends_pauses(put.message):
        hub.loops.resume(hub.clock.mono(), name=put.message.to)
    if result["fresh"]:
        answer_waiters_for(hub, put.message)
        dispatch(hub, endpoint, {put.message.id: put.blob})


def _why(hub: Hub, endpoint: Endpoint, put: Put, *, fresh: bool) -> str:
    """Return why it waits, for its receipt, as far as that is known and `live` does not tell it."""
    if put.due or not hub.live(endpoint):
        return ""
    if not fresh:
        entry = endpoint.mailbox.entries.get(put.message.id)
        return held_text(hub, endpoint, entry) if entry else ""
    may_begin = put.asks and put.message.hops == 0  # who waits, and is no turn, need not rest
    return "" if may_begin else reason_for_new(endpoint, put.message, hub.clock.mono())
