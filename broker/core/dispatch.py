"""
Messages on their way out, and what becomes of them (PROTOCOL.md sections 6 and 7).

Rule 1: an end (handled, refused, dead) counts once it is committed; until then its lane waits.
Rule 2: a peer that does not read costs its own window and nobody else's time. Rule 3: a frame
leaves after the commit that says so: what was killed with it comes again labelled. Where that is
foreseen it costs no commit of its own: it is written with the message, or with the end of the one
before.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from wakebus.broker.core.bounces import SAY, Bounce, bounces_for, store_death
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import Endpoint
from wakebus.broker.core.waiters import answer_waiters
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.dead_letter import FOR_IT, WITH_IT
from wakebus.broker.protocol.delivery_state import (
    DEATHS,
    NEXT,
    DeliveryEvent,
    DeliveryState,
    receipt_word,
)
from wakebus.broker.protocol.receipt import is_failure
from wakebus.broker.store.row_check import unusable, why_unreadable
from wakebus.broker.store.rows import Redelivery, Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import bytes_of, outcome_of

log = logging.getLogger("wakebus.dispatch")

EXPIRED: Final = "it expired before anybody took it"
EXPIRED_LATE: Final = "it expired; its receiver put it off until then: {}"
EXPIRED_BEHIND: Final = "it expired; it waited behind {}: {}"


def dispatch(hub: Hub, endpoint: Endpoint, fresh: Mapping[str, bytes] | None = None) -> None:
    """Send what may go out now; `fresh` holds bodies that need not be read from disk."""
    while hub.reads(endpoint):
        entry = endpoint.mailbox.take_next(hub.clock.mono())
        if entry is None:
            return
        if entry.cancelled:  # before the broker was started anew
            end_cancelled(hub, endpoint, entry)
        elif entry.session and entry.accepted < endpoint.ephemeral:
            orphan(hub, endpoint, entry)  # on its way when a successor came
        elif entry.sent and fresh and entry.id in fresh:
            _deliver(hub, endpoint, entry, fresh[entry.id])
        else:
            entry.on_disk = True
            past = None if entry.sent else entry.past
            fetched = partial(_fetched, hub, endpoint, entry, entry.generation)
            hub.store.submit(partial(_fetch, entry.id, past), fetched)


def unmark_unsent(hub: Hub) -> None:
    """What is stored as sent and did not leave after all is no redelivery; for an orderly end."""
    waiting: dict[str, Row] = {}
    for endpoint in hub.endpoints.values():
        for entry in endpoint.mailbox.entries.values():
            if not entry.out or entry.on_disk:
                entry.sent = False
                waiting[entry.id] = entry.past
    hub.store.submit(lambda store: store.unmark_sent(waiting), None)


def _fetch(id: str, past: Row | None, store: Store) -> Row | None:
    """Return a message that is about to leave; `past`: the store does not know that yet."""
    if past is not None:
        store.mark_sent(id, **past)
    return store.find(id)


def _fetched(hub: Hub, endpoint: Endpoint, entry: MailboxEntry, generation: int, row: Any) -> None:
    if entry.id not in endpoint.mailbox.entries or entry.generation != generation:
        return  # it has ended, or came back and went out again while the disk was asked
    if not entry.on_disk:
        return  # it came back, or its holder says that it has it
    entry.on_disk = False
    if isinstance(row, dict) and (bad := unusable(row)):
        why = why_unreadable(bad)
        log.error("message %s: %s", entry.id, why)
        if (entry.state, DeliveryEvent.UNREADABLE) in NEXT:
            give_up(hub, endpoint, entry, DeliveryEvent.UNREADABLE, why)
    elif _may_leave(hub, row) and endpoint.holder:
        entry.sent = True
        _deliver(hub, endpoint, entry, bytes_of(row["message"]), row)
    elif row is None:
        log.error("message %s has vanished from the store", entry.id)
        endpoint.mailbox.remove(entry.id)
    else:
        entry.sent = False
        endpoint.mailbox.give_back(entry.id, hub.clock.mono() + 1)  # the disk did not answer
        hub.timers.later(1.0, partial(dispatch, hub, endpoint))


def _may_leave(hub: Hub, row: Any) -> bool:
    """Whether the store knows, and no word that it did not take can make it forget that."""
    sent = isinstance(row, dict) and row["redelivered"] & Redelivery.SENT
    return bool(sent) and not hub.unstored


def _deliver(
    hub: Hub, endpoint: Endpoint, entry: MailboxEntry, blob: bytes, row: Row | None = None
) -> None:
    """Send it to the holder. `row`: its columns, of what was here before."""
    holder = endpoint.holder
    assert holder is not None
    head: dict[str, Any] = {
        "to": endpoint.name,
        "epoch": holder.epoch,
        "attempt": entry.deaths + 1,
        "redelivered": entry.redelivered,
        "started": entry.started_before,
        "asks": entry.asks,
        "claimed": entry.claimed,
        "sender_known": hub.known(entry.sender),
    }
    if row and row["retried"]:
        head["retried"] = row["retried"]
    if row and row["failures"]:
        head |= {"failures": row["failures"], "failed": row["failed"]}
    frame = wire.encode_around("deliver", head, blob)
    if holder.conn is None or not hub.offer(holder.conn, frame):
        # Its pipe is full or gone: `resume_deliveries` or the next registration asks again.
        holder.blocked = True
        endpoint.mailbox.give_back(entry.id)


def do_nothing() -> None:
    """What is done after what needs no answer."""


def cancel_in_hand(
    hub: Hub,
    endpoint: Endpoint,
    entry: MailboxEntry,
    done: Callable[[], None] = do_nothing,
    **by: Any,
) -> bool:
    """
    Have its holder end what is `cancelled`: from now on whatever that says of it is its death.

    Return whether it was told; call `done` once all of that is stored. `by`: who, for its steps.
    """
    told = tell_cancelled(hub, endpoint, entry)
    line = hub.log_line("cancelled", told=told, **by)
    hub.mark_surely(entry, line, done, reason=entry.cancelled)
    return told


def tell_cancelled(hub: Hub, endpoint: Endpoint, entry: MailboxEntry) -> bool:
    """Have its holder end what is cancelled; False where that cannot: it goes on to its end."""
    holder = endpoint.holder
    conn = hub.conns.get(holder.conn) if holder and holder.conn else None
    if not entry.cancelled or holder is None or holder.conn is None or not (conn and conn.cancels):
        return False
    told = {"to": endpoint.name, "id": entry.id, "epoch": holder.epoch, "reason": entry.cancelled}
    return hub.push(holder.conn, wire.encode("cancel", 0, told))


def resume_deliveries(hub: Hub, conn: bytes) -> None:
    """All that waited for a connection's pipe has left: what its names have may go out, too."""
    names = hub.conns[conn].names if conn in hub.conns else ()
    for endpoint in [hub.endpoints[name] for name in names if name in hub.endpoints]:
        if endpoint.holder and endpoint.holder.conn == conn and endpoint.holder.blocked:
            endpoint.holder.blocked = False
            dispatch(hub, endpoint)


def commit_end(
    hub: Hub,
    endpoint: Endpoint,
    entry: MailboxEntry,
    line: str,
    done: Callable[[], None],
    *,
    quiet: bool = False,
    **columns: Any,
) -> None:
    """
    Commit a message's end, forget it, tell who waits, and let its lane go on.

    A death is told to its sender, in the same commit, unless `quiet`: it knows, or need not.
    That of a text for a chat also to whose message it was sent because of.
    """
    columns["done"] = hub.bus_time()
    told = columns["state"] in DEATHS and not quiet
    asked: list[Row] = []

    def commit() -> None:
        _commit(hub, endpoint, entry, line, done, columns, asked if told else None)

    if told and (entry.type == SAY or endpoint.name in hub.services):
        hub.store_surely(lambda store: asked.extend(store.asked_for(entry.id)), commit)
    else:
        commit()


def _commit(
    hub: Hub,
    endpoint: Endpoint,
    entry: MailboxEntry,
    line: str,
    done: Callable[[], None],
    columns: Mapping[str, Any],
    asked: Sequence[Row] | None,
) -> None:
    """Commit an end; `asked`: of a death that is told, the message because of which it was sent."""
    bounces: list[Bounce] = []
    died = columns["state"] in DEATHS
    failed = died and is_failure(outcome_of(columns.get("outcome")))
    if asked is not None:
        reason, cause = columns["reason"], next(iter(asked), None)
        bounces = bounces_for(hub, entry, endpoint.name, reason, cause, failed=failed)
    goes_on = entry.out and hub.reads(endpoint)
    next_one = endpoint.mailbox.successor(entry) if goes_on else None
    generation = next_one.generation if next_one else 0

    def write(store: Store) -> None:
        if bounces:
            store_death(store, bounces, entry.id, line, columns)
        else:
            store.mark(entry.id, line, **columns)
        if next_one is not None:
            store.mark_sent(next_one.id, 0, False)

    def stored() -> None:
        if next_one is not None:
            next_one.foreseen = False
            next_one.sent |= next_one.generation == generation  # it has not been out since
        hub.revoke_token(entry)
        if entry.id in endpoint.mailbox.entries:
            endpoint.mailbox.remove(entry.id)
        done()
        facts = {"reason": columns["reason"]} if died else {}
        facts |= {"failed": True} if failed else {}
        hub.events.announce_message(receipt_word(columns["state"]), endpoint.name, entry, **facts)
        answer_waiters(hub, entry.id)
        dispatch(hub, endpoint)
        for bounce in bounces:
            bounce.arrive()
            dispatch(hub, bounce.endpoint)

    hub.store_surely(write, stored, entry.size)


def bring_back(hub: Hub, endpoint: Endpoint, *, died: bool, why: str) -> None:
    """The holder has gone: what it had goes back into the mailbox, or is given up."""
    limit = hub.settings.attempts
    for entry in endpoint.mailbox.return_all(died=died):
        if entry.cancelled:
            end_cancelled(hub, endpoint, entry)
            continue
        if entry.deaths >= limit:
            reason = f"its receiver died {entry.deaths} times while it was in its hands"
            give_up(hub, endpoint, entry, DeliveryEvent.EXHAUSTED, reason)
            continue
        line = hub.log_line("returned", by=endpoint.name, why=why, deaths=entry.deaths)
        hub.mark_surely(
            entry,
            line,
            partial(hub.events.announce_message, "queued", endpoint.name, entry),
            state=DeliveryState.QUEUED,
            deaths=entry.deaths,
            token=None,
            **entry.past,
        )
    for token in [t for t, one in hub.token_owners.items() if one.endpoint == endpoint.name]:
        del hub.token_owners[token]


def give_up(
    hub: Hub,
    endpoint: Endpoint,
    entry: MailboxEntry,
    event: DeliveryEvent,
    reason: str,
    done: Callable[[], None] = do_nothing,
    *,
    quiet: bool = False,
    **by: Any,
) -> None:
    """Make a waiting message a dead letter. `by`: who did it, for its steps."""
    entry.state = NEXT[entry.state, event]
    endpoint.mailbox.remove(entry.id)  # at once: nobody may take it while the store writes
    said = {"work": entry.work} if entry.work else {}  # for this life: dead_letter_history.py
    line = hub.log_line("dead", reason=reason, **said, **by)
    columns = {"state": entry.state, "reason": reason, "deaths": entry.deaths, **entry.past}
    commit_end(hub, endpoint, entry, line, done, quiet=quiet, **columns)


def end_cancelled(
    hub: Hub,
    endpoint: Endpoint,
    entry: MailboxEntry,
    done: Callable[[], None] = do_nothing,
    **by: Any,
) -> None:
    """Give up what is `cancelled` and in nobody's hands. `by`: who did it, for its steps."""
    event, reason = DeliveryEvent.CANCELLED, entry.cancelled
    give_up(hub, endpoint, entry, event, reason, done, quiet=entry.quiet, **by)


def orphan(hub: Hub, endpoint: Endpoint, entry: MailboxEntry) -> None:
    """Give up what waits for a session that has ended, or with the name of one."""
    reason = (FOR_IT if entry.session else WITH_IT).format(endpoint.name)
    give_up(hub, endpoint, entry, DeliveryEvent.ORPHANED, reason)


def expire(hub: Hub) -> None:
    """Give up what waited past its deadline."""
    for endpoint in hub.endpoints.values():
        for entry in endpoint.mailbox.expired(hub.clock.mono()):
            give_up(hub, endpoint, entry, DeliveryEvent.EXPIRED, _expired(endpoint, entry))


def _expired(endpoint: Endpoint, entry: MailboxEntry) -> str:
    """Return why it expired, in the words of the receiver that put it or its lane's head off."""
    if entry.deferred:
        return EXPIRED_LATE.format(entry.deferred)
    head, why = endpoint.mailbox.waits_behind(entry)
    return EXPIRED_BEHIND.format(head, why) if why and head != entry.id else EXPIRED
