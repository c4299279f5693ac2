"""
What the broker knows when it starts: the hub is filled from the store (PROTOCOL.md section 8).

Rule 1: before any other thread has the store. Rule 2: no bodies are read, but those of open turns
and, by SQLite, of what waits for ephemeral names.
"""

import json

from wakebus.broker.core.hub import Endpoint, Hub, Turn
from wakebus.broker.core.mailbox import Entry
from wakebus.broker.protocol.delivery_state import DeliveryState, receipt_word
from wakebus.broker.store.store import Row, Store
from wakebus.broker.system.processes import Holder, Process


def load(hub: Hub, store: Store) -> None:
    """Fill the hub from the store: names, holders that may come back, open messages."""
    now, bus = hub.clock.mono(), hub.steady_wall()
    for row in store.endpoints():
        hub.endpoints[row["name"]] = _endpoint(hub, row, now)
    for_sessions = {*store.for_sessions()}
    for row in store.open_messages():
        endpoint = hub.endpoint(row["endpoint"])
        entry = Entry(row["seq"], row["id"], row["lane"], row["size"], 0.0)
        entry.deadline = now + max(0.0, row["deadline"] - bus)
        entry.deaths = row["deaths"]
        entry.redelivered = bool(row["redelivered"])
        entry.suspect = entry.deaths > 0  # what merely came back is none
        entry.started_before = bool(row["started_before"])
        entry.asks, entry.claimed = bool(row["asks"]), bool(row["claimed"])
        entry.session, entry.accepted = row["id"] in for_sessions, row["accepted"]
        entry.type, entry.told = row["type"], receipt_word(DeliveryState(row["state"]))
        endpoint.mailbox.add(entry)
        if DeliveryState(row["state"]) is not DeliveryState.QUEUED:
            _in_hand(hub, endpoint, entry, row, store)


def _in_hand(hub: Hub, endpoint: Endpoint, entry: Entry, row: Row, store: Store) -> None:
    """Take up a delivery that was with a holder when the broker ended."""
    if endpoint.holder is None:  # killed between two commits: it had left
        entry.redelivered = True
        entry.started_before |= row["state"] == DeliveryState.STARTED
        return
    entry.state, entry.token = DeliveryState(row["state"]), row["token"]
    endpoint.mailbox.adopt(entry.id)  # in its holder's hands, until that one is gone
    if entry.token and (stored := store.find(entry.id)):
        message = json.loads(stored["message"])
        path = tuple(message.get("path", ()))
        hub.turns[entry.token] = Turn(endpoint.name, entry.id, message.get("hops", 0), path)


def _endpoint(hub: Hub, row: Row, now: float) -> Endpoint:
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
