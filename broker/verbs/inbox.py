"""
The verb `inbox`: what a name has (PROTOCOL.md section 10).

Rule 1: every page fits into a frame; where more is left, it says so. Rule 2: no body is shown, and
of an inbox first lines only.
"""

from functools import partial

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.model import ClientRequest
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.protocol.message import check_name
from wakebus.broker.store import dead_letters
from wakebus.broker.store.rows import Row
from wakebus.broker.verbs.fields import page_limit, page_start, reply_page, waits_behind
from wakebus.broker.verbs.held_reasons import held_text


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
    """What has gone out and is not confirmed yet is held, too; what waits says for what."""
    entry = hub.find_entry(name, row["id"])
    if entry is None:
        return row
    out = entry.out and row["state"] == DeliveryState.QUEUED
    put_off = {"put_off": entry.deferred} if entry.deferred and not entry.out else {}
    why = held_text(hub, hub.endpoints[name], entry)
    why_field = {"why": why} if why else {}
    row = {**row, **put_off, **why_field, **waits_behind(hub, name, entry.id)}
    return {**row, "state": "held"} if out else row
