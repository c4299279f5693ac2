"""
What the broker knows when it starts: the hub is filled from the store (PROTOCOL.md section 8).

Rule 1: before any other thread has the store. Rule 2: no bodies are read, but those of open turns
and, by SQLite, of what waits for ephemeral names.
"""

import logging
from functools import partial
from typing import Final

from wakebus.broker.core.delays import still_due
from wakebus.broker.core.dispatch import commit_end, dispatch, do_nothing
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import Endpoint, Holder, TokenOwner
from wakebus.broker.protocol.delivery_state import DeliveryState, receipt_word
from wakebus.broker.protocol.message import Message, from_wire
from wakebus.broker.store.row_check import unusable, why_unreadable
from wakebus.broker.store.rows import Redelivery, Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import message_of
from wakebus.broker.system.processes import Process

log = logging.getLogger("wakebus.store")

AT_ONCE: Final[Row] = {"failures": 0, "due": 0.0, "unreadable": []}


def restore_hub(hub: Hub, store: Store) -> None:
    """Fill the hub from the store: names, holders that may come back, open messages."""
    now, bus = hub.clock.mono(), hub.bus_time()
    for row in store.endpoints():
        if bad := row["unreadable"]:
            log.error("endpoint %s: %s", row["name"], why_unreadable(bad))
        if "name" not in bad:
            hub.endpoints[row["name"]] = _endpoint(hub, row, now)
    lost: list[Row] = []
    for_sessions, not_yet_due = {*store.for_sessions()}, store.not_yet_due()
    for row in store.open_messages():
        waits = not_yet_due.get(row["id"], AT_ONCE)
        if unusable(row) or waits["unreadable"]:
            bad = dict.fromkeys(row["unreadable"] + waits["unreadable"])
            lost.append({**row, "unreadable": [*bad]})
            continue
        endpoint = hub.endpoint(row["endpoint"])
        deadline = now + max(0.0, row["deadline"] - bus)
        entry = MailboxEntry.of_row(row | {"session": row["id"] in for_sessions}, deadline)
        entry.cancelled = row["reason"] or ""  # an open one has no other
        entry.announced = receipt_word(DeliveryState(row["state"]))
        entry.failures, left = waits["failures"], waits["due"] - bus
        here = row["state"] == DeliveryState.QUEUED and not row["redelivered"] & Redelivery.SENT
        if here and not entry.failures and waits["due"]:
            entry.due = still_due(hub, waits["due"], _stored_message(store, entry.id))
        endpoint.mailbox.add(entry)
        if not here:
            _restore_delivery(hub, endpoint, entry, row, store)
        elif entry.failures and left > 0:
            endpoint.mailbox.hold_lane(entry, now + left)
            hub.timers.later(left, partial(dispatch, hub, endpoint))
    for row in lost:
        _give_up(hub, row, now)


def _stored_message(store: Store, id: str) -> Message | None:
    stored = store.find(id)
    found = message_of(stored["message"]) if stored else None
    return None if found is None else from_wire(found)


def _give_up(hub: Hub, row: Row, now: float) -> None:
    """Make an open message whose columns cannot be read a dead letter, in doubt."""
    why = why_unreadable(unusable(row))
    log.error("message %s: %s; look at it: wakebus dead show %s", row["id"], why, row["id"])
    endpoint = hub.endpoints.get(row["endpoint"]) or Endpoint(row["endpoint"], hub.settings)
    entry = MailboxEntry.of_row(row | {"session": False}, now)
    entry.state = DeliveryState.DEAD
    line = hub.log_line("dead", reason=why, work="maybe")
    columns: Row = {"state": entry.state, "reason": why, "started_before": True, "token": None}
    commit_end(hub, endpoint, entry, line, do_nothing, **columns)


def _restore_delivery(
    hub: Hub, endpoint: Endpoint, entry: MailboxEntry, row: Row, store: Store
) -> None:
    """Take up a delivery that was with a holder when the broker ended, or may have been."""
    if endpoint.holder is None:  # killed between two commits: it had left
        entry.redelivered = True
        entry.started_before |= row["state"] == DeliveryState.STARTED
        return
    entry.state, entry.token = DeliveryState(row["state"]), row["token"]
    endpoint.mailbox.adopt(entry.id)  # its holder has it, until that one is gone
    if entry.token and (stored := store.find(entry.id)):
        message = message_of(stored["message"]) or {}
        entry.hops, entry.path = message.get("hops", 0), tuple(message.get("path", ()))
        hub.token_owners[entry.token] = TokenOwner(endpoint.name, entry.id, entry.hops, entry.path)


def _endpoint(hub: Hub, row: Row, now: float) -> Endpoint:
    bad = row["unreadable"]
    if "seen" in bad:
        row["seen"] = hub.bus_time()  # not long ago: it is not forgotten
    if "epoch" in bad:
        row["epoch"] = int(hub.bus_time())  # above all that were counted
    endpoint = Endpoint(row["name"], hub.settings, row["seen"])
    endpoint.declared, endpoint.epoch = bool(row["declared"]), row["epoch"]
    endpoint.ephemeral = row["ephemeral"]
    endpoint.instance = row["instance"]
    if row["instance"]:
        # After a reboot the pid means nothing: the holder is gone (pid 0 would only be silent).
        here = row["boot"].partition("/")[0] == hub.boot.partition("/")[0]
        process = Process(row["pid"], row["start"]) if here else Process(2**31 - 1)
        endpoint.holder = Holder(row["instance"], process, row["epoch"], None)
        endpoint.holder.beat = now + hub.settings.reclaim_s - hub.settings.stale_s
        endpoint.holder.since = row["seen"]
        endpoint.up = True
    return endpoint
