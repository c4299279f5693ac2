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
from wakebus.broker.core.waiters import answer_waiters
from wakebus.broker.errors import Busy, Refused
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.dead_letter import CANCELLED
from wakebus.broker.protocol.delivery_state import OPEN, DeliveryState, receipt_word
from wakebus.broker.protocol.outcome import awaits_reply
from wakebus.broker.protocol.receipt import is_failure
from wakebus.broker.store.rows import Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import outcome_of
from wakebus.broker.store.stored_receipt import receipt_of_row
from wakebus.broker.verbs.fields import found_or_fail, message_id, requester, unless_error


def cancel(hub: Hub, request: ClientRequest) -> None:
    """Verb `cancel`: take back a message that has not ended; it ends as a dead letter."""
    id, by = message_id(request, "cancel"), requester(hub, request)
    if (found := _find(hub, id)) is not None:
        _take_back(hub, request, *found, by)
        return

    def looked(row: Row) -> None:
        if row["silent"] and awaits_reply(outcome_of(row["outcome"])):
            _end_question(hub, request, id, by)
        elif row["state"] not in OPEN:
            state = receipt_word(DeliveryState(row["state"]))
            failed = " (failed)" if is_failure(outcome_of(row["outcome"])) else ""
            hub.fail(request, Refused(f"{id} is {state}{failed} already; nothing to take back"))
        elif (now_found := _find(hub, id)) is not None:  # it was on its way into the mailbox
            _take_back(hub, request, *now_found, by)
        else:
            hub.fail(request, Busy(f"{id} is just changing; ask again"))

    hub.store.submit(lambda store: store.find(id), found_or_fail(hub, request, id, looked))


def _end_question(hub: Hub, request: ClientRequest, id: str, by: dict[str, Any]) -> None:
    """Have no person answer a question that was shown (9.10): who waits for that waits no more."""
    line = hub.log_line("cancelled", **by)

    def write(store: Store) -> Row | None:
        row = store.find(id)
        if row is None or not row["silent"]:
            return None  # somebody was quicker: it is answered
        kept = {k: v for k, v in outcome_of(row["outcome"]).items() if k != "awaits"}
        outcome = {**kept, "answered": False, "note": CANCELLED.format(_name(by))}
        store.take_from_inbox(id, outcome=wire.dumps(outcome).decode(), line=line)
        return store.find(id)

    def written(row: Row | None) -> None:
        if row is None:
            hub.fail(request, Refused(f"{id} is answered already; nothing to take back"))
            return
        hub.reply(request, {**receipt_of_row(row), "reason": outcome_of(row["outcome"])["note"]})
        answer_waiters(hub, id)

    hub.store.submit(write, unless_error(hub, request, written))


def _name(by: dict[str, Any]) -> str:
    unnamed = f"process {by['pid']}" if by["pid"] else "somebody without a name"
    return str(by.get("by") or unnamed)


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
    entry.cancelled = entry.cancelled or CANCELLED.format(_name(by))
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
