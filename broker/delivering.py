"""
Messages on their way out, and what becomes of them (PROTOCOL.md sections 6 and 7).

Rule 1: an end (handled, refused, dead) counts once it is committed; until then its lane waits.
Rule 2: a peer that does not read costs its own window and nobody else's time.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from wakebus.broker import wire
from wakebus.broker.hub import Endpoint, Hub
from wakebus.broker.mailbox import Entry
from wakebus.broker.state import NEXT, Event, State
from wakebus.broker.waiting import tell_waiters

log = logging.getLogger("wakebus.delivering")


def pump(hub: Hub, endpoint: Endpoint, fresh: Mapping[str, bytes] | None = None) -> None:
    """Send what may go out now; `fresh` holds bodies that need not be read from disk."""
    while hub.live(endpoint) and endpoint.holder and not endpoint.holder.blocked:
        entry = endpoint.mailbox.take(hub.clock.mono())
        if entry is None:
            return
        if fresh and entry.id in fresh:
            _deliver(hub, endpoint, entry, fresh[entry.id])
        else:
            fetched = partial(_fetched, hub, endpoint, entry, entry.trip)
            hub.store.submit(lambda store, id=entry.id: store.find(id), fetched)  # type: ignore[misc]


def _fetched(hub: Hub, endpoint: Endpoint, entry: Entry, trip: int, row: Any) -> None:
    if entry.id not in endpoint.mailbox.entries or not entry.out or entry.trip != trip:
        return  # it has ended, or came back while the disk was asked
    if isinstance(row, dict) and endpoint.holder:
        _deliver(hub, endpoint, entry, row["message"])
    elif row is None:
        log.error("message %s has vanished from the store", entry.id)
        endpoint.mailbox.end(entry.id)
    else:
        endpoint.mailbox.give_back(entry.id, hub.clock.mono() + 1)  # the disk did not answer
        hub.later(1.0, partial(pump, hub, endpoint))


def _deliver(hub: Hub, endpoint: Endpoint, entry: Entry, blob: bytes) -> None:
    holder = endpoint.holder
    assert holder is not None
    sender = entry.lane.partition("\n")[0]
    head = {
        "to": endpoint.name,
        "epoch": holder.epoch,
        "attempt": entry.deaths + 1,
        "redelivered": entry.redelivered,
        "started": entry.started_before,
        "asks": entry.asks,
        "claimed": entry.claimed,
        "sender_known": hub.known(sender),
    }
    frame = wire.encode_around("deliver", head, blob)
    if holder.conn is None or not hub.post(holder.conn, frame):
        # Its pipe is full or gone: the next beat or registration asks again.
        holder.blocked = True
        endpoint.mailbox.give_back(entry.id)


def end(hub: Hub, endpoint: Endpoint, entry: Entry, line: str, done: Any, **columns: Any) -> None:
    """Commit a message's end, forget it, tell who waits, and let its lane go on."""
    now = hub.clock.wall()

    def stored() -> None:
        hub.end_turn(entry)
        if entry.id in endpoint.mailbox.entries:
            endpoint.mailbox.end(entry.id)
        done()
        tell_waiters(hub, entry.id)
        pump(hub, endpoint)

    hub.store_surely(lambda store: store.mark(entry.id, line, done=now, **columns), stored)


def bring_back(hub: Hub, endpoint: Endpoint, *, died: bool, why: str) -> None:
    """The holder has gone: what it had goes back into the mailbox, or is given up."""
    limit = hub.settings.attempts
    for entry in endpoint.mailbox.holder_gone(died=died):
        if entry.deaths >= limit:
            reason = f"its receiver died {entry.deaths} times while it was in its hands"
            give_up(hub, endpoint, entry, Event.EXHAUSTED, reason)
            continue
        line = hub.line("returned", by=endpoint.name, why=why, deaths=entry.deaths)
        hub.store_surely(
            partial(_mark_returned, entry, line, entry.deaths, entry.started_before), _nothing
        )
    for token in [t for t, turn in hub.turns.items() if turn.endpoint == endpoint.name]:
        del hub.turns[token]


def _mark_returned(entry: Entry, line: str, deaths: int, started: bool, store: Any) -> None:
    store.mark(
        *(entry.id, line),
        state=State.QUEUED,
        deaths=deaths,
        redelivered=True,
        started_before=started,
        token=None,
    )


def _nothing() -> None:
    pass


def give_up(hub: Hub, endpoint: Endpoint, entry: Entry, event: Event, reason: str) -> None:
    """Make a waiting message a dead letter."""
    entry.state = NEXT[entry.state, event]
    endpoint.mailbox.end(entry.id)  # at once: nobody may take it while the store writes
    line = hub.line("dead", reason=reason)
    columns = {"state": entry.state, "reason": reason, "deaths": entry.deaths}
    end(hub, endpoint, entry, line, _nothing, **columns)


def expire(hub: Hub) -> None:
    """Give up what waited past its deadline."""
    for endpoint in hub.endpoints.values():
        for entry in endpoint.mailbox.expired(hub.clock.mono()):
            give_up(hub, endpoint, entry, Event.EXPIRED, "it expired before anybody took it")
