"""
The verb `cancel`: a message is taken back, also out of its holder's hands (PROTOCOL.md section 10).

Rule 1: whoever is on this bus may (one user, one trust); its steps tell who did. Rule 2: what waits
is dead at once; what is in hand once its holder has ended it, or says anything of its end.
"""

from functools import partial
from typing import Any

from wakebus.broker.core.dispatch import cancel_in_hand, end_cancelled
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import ClientRequest, Endpoint
from wakebus.broker.errors import Busy, Refused
from wakebus.broker.protocol.dead_letter import CANCELLED
from wakebus.broker.protocol.delivery_state import OPEN, DeliveryState, receipt_word
from wakebus.broker.protocol.receipt import is_failure
from wakebus.broker.store.rows import Row
from wakebus.broker.store.stored_json import outcome_of
from wakebus.broker.store.stored_receipt import receipt_of_row
from wakebus.broker.verbs.fields import found_or_fail, message_id, requester


def cancel(hub: Hub, request: ClientRequest) -> None:
    """Verb `cancel`: take back a message that has not ended; it ends as a dead letter."""
    id, by = message_id(request, "cancel"), requester(hub, request)
    if (found := _find(hub, id)) is not None:
        _take_back(hub, request, *found, by)
        return

    def looked(row: Row) -> None:
        if row["state"] not in OPEN:
            state = receipt_word(DeliveryState(row["state"]))
            failed = " (failed)" if is_failure(outcome_of(row["outcome"])) else ""
            hub.fail(request, Refused(f"{id} is {state}{failed} already; nothing to take back"))
        elif (now_found := _find(hub, id)) is not None:  # it was on its way into the mailbox
            _take_back(hub, request, *now_found, by)
        else:
            hub.fail(request, Busy(f"{id} is just changing; ask again"))

    hub.store.submit(lambda store: store.find(id), found_or_fail(hub, request, id, looked))


def _find(hub: Hub, id: str) -> tuple[Endpoint, MailboxEntry] | None:
    for endpoint in hub.endpoints.values():
        if (entry := endpoint.mailbox.entries.get(id)) is not None:
            return endpoint, entry
    return None


def _take_back(
    hub: Hub, request: ClientRequest, endpoint: Endpoint, entry: MailboxEntry, by: dict[str, Any]
) -> None:
    if entry.state not in OPEN:
        hub.when_stored(partial(cancel, hub, request))  # only the store knows how it ended
        return
    name = by.get("by") or (f"process {by['pid']}" if by["pid"] else "somebody without a name")
    entry.cancelled = entry.cancelled or CANCELLED.format(name)
    if entry.out and not entry.on_disk:
        facts: dict[str, Any] = {"id": entry.id, "state": "delivered", "to": endpoint.name}
        facts["reason"] = entry.cancelled
        answer = partial(hub.reply, request, facts)
        facts["told"] = cancel_in_hand(hub, endpoint, entry, answer, **by)
        return

    def told(row: Row) -> None:
        hub.reply(request, receipt_of_row(row))

    found = found_or_fail(hub, request, entry.id, told)
    look = partial(hub.store.submit, lambda store: store.find(entry.id), found)
    end_cancelled(hub, endpoint, entry, look, **by)
