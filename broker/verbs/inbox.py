"""
Verbs that look into a mailbox and take back: `inbox`, `cancel` (PROTOCOL.md section 10).

Rule 1: every page fits into a frame; where more is left, it says so. Rule 2: no body is shown, and
of an inbox first lines only. Rule 3: whoever is on this bus may take a message back (one user, one
trust); its steps tell who did.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from wakebus.broker.core.dispatch import give_up
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox import MailboxEntry
from wakebus.broker.core.model import ClientRequest, Endpoint
from wakebus.broker.errors import Busy, Refused, WakebusError
from wakebus.broker.protocol.delivery_state import OPEN, DeliveryEvent, DeliveryState
from wakebus.broker.protocol.message import check_name
from wakebus.broker.store import dead_letters
from wakebus.broker.store.rows import Row
from wakebus.broker.verbs.fields import (
    found_or_fail,
    message_id,
    page_limit,
    page_start,
    reply_page,
    requester,
)


def inbox(hub: Hub, request: ClientRequest) -> None:
    """Verb `inbox`: what endpoint `name` has, without taking it; first lines only."""
    payload = request.payload
    name = check_name(payload.get("name"), "name")
    ended, after, limit = payload.get("all") is True, page_start(payload, 3), page_limit(payload)
    if name not in hub.endpoints:
        raise hub.unknown_target(name)
    hub.store.submit(
        lambda store: dead_letters.inbox(store.db, name, ended=ended, after=after, limit=limit),
        reply_page(hub, request, "messages", partial(_with_state, hub, name)),
    )


def _with_state(hub: Hub, name: str, row: Row) -> Row:
    """What has gone out and is not confirmed yet is held, too."""
    endpoint = hub.endpoints.get(name)
    entry = endpoint.mailbox.entries.get(row["id"]) if endpoint else None
    out = entry is not None and entry.out and row["state"] == DeliveryState.QUEUED
    return {**row, "state": "held"} if out else row


# --- cancel ---------------------------------------------------------------------------------


def cancel(hub: Hub, request: ClientRequest) -> None:
    """Verb `cancel`: take back a message that is still queued; it ends as a dead letter."""
    id, by = message_id(request, "cancel"), requester(hub, request)
    if (found := _find(hub, id)) is not None:
        _take_back(hub, request, *found, by)
        return

    def looked(row: Row) -> None:
        if row["state"] not in OPEN:
            hub.fail(request, Refused(f"{id} is {row['state']} already; nothing to take back"))
        elif (now_found := _find(hub, id)) is not None:  # it was on its way into the mailbox
            _guarded(hub, request, lambda: _take_back(hub, request, *now_found, by))
        else:
            hub.fail(request, Busy(f"{id} is just changing; ask again"))

    hub.store.submit(lambda store: store.find(id), found_or_fail(hub, request, id, looked))


def _find(hub: Hub, id: str) -> tuple[Endpoint, MailboxEntry] | None:
    for endpoint in hub.endpoints.values():
        if (entry := endpoint.mailbox.entries.get(id)) is not None:
            return endpoint, entry
    return None


def _guarded(hub: Hub, request: ClientRequest, act: Callable[[], None]) -> None:
    try:
        act()
    except WakebusError as exc:
        hub.fail(request, exc)


def _take_back(
    hub: Hub, request: ClientRequest, endpoint: Endpoint, entry: MailboxEntry, by: dict[str, Any]
) -> None:
    if entry.state not in OPEN:
        raise Refused(f"{entry.id} is {entry.state} already; nothing to take back")
    if entry.out or entry.state is not DeliveryState.QUEUED:
        state = "on its way" if entry.state is DeliveryState.QUEUED else entry.state
        raise Refused(
            f"{entry.id} is in the hands of {endpoint.name} ({state}) and cannot be taken back"
        )
    name = by.get("by") or (f"process {by['pid']}" if by["pid"] else "somebody without a name")
    reason = f"cancelled by {name}"
    give_up(
        hub,
        endpoint,
        entry,
        DeliveryEvent.CANCELLED,
        reason,
        lambda: hub.reply(request, {"id": entry.id, "state": "dead", "reason": reason}),
        quiet=name == entry.sender,  # it took its own message back
        **by,
    )
