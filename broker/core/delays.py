"""
Messages that do not go out before a time (PROTOCOL.md section 4).

Rule 1: it is counted in bus time; only at a start the wall clock is asked, because bus time tells
too little of a machine that was off for long. Rule 2: what is due is stored as that before it takes
its place, at the end of its lane.
"""

from functools import partial
from typing import Any

from wakebus.broker.core.dispatch import dispatch
from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.core.model import Endpoint
from wakebus.broker.core.wait_circles import refuse_circles
from wakebus.broker.errors import BadMessage, WakebusError
from wakebus.broker.protocol.message import MAX_DELAY_S, Message
from wakebus.broker.store.rows import Row, waits_until_due
from wakebus.broker.store.store import Store


def due_of(hub: Hub, message: Message) -> float:
    """Return the bus time before which `message` does not go out, 0.0 for none; may raise."""
    wait = (message.not_before or 0.0) - hub.clock.wall()
    if wait > MAX_DELAY_S:
        raise BadMessage(f"not_before: at most {MAX_DELAY_S / 86400:g} days from now")
    return hub.bus_time() + wait if wait > 0 else 0.0


def still_due(hub: Hub, due: float, message: Message | None) -> float:
    """Return `due`, or the earlier time that the wall clock gives at a start of the broker."""
    if message is None or message.not_before is None:
        return due
    wait = message.not_before - hub.clock.wall()
    return min(due, hub.bus_time() + max(0.0, wait))


def tell_due(hub: Hub, row: Row) -> dict[str, Any]:
    """Return `not_before` of a stored message that waits for its time (wall seconds)."""
    return {"not_before": round(hub.wall_time(row["due"]), 3)} if waits_until_due(row) else {}


def release_due(hub: Hub) -> None:
    """Let what is due go out."""
    now = hub.bus_time()
    for endpoint in list(hub.endpoints.values()):
        for entry in endpoint.mailbox.take_due(now):
            line = hub.log_line("due")
            release = partial(Store.release, id=entry.id, line=line)
            hub.store.submit(release, partial(_released, hub, endpoint, entry), entry.size)


def _released(hub: Hub, endpoint: Endpoint, entry: MailboxEntry, seq: int | WakebusError) -> None:
    endpoint.mailbox.release(entry, None if isinstance(seq, WakebusError) else seq)
    refuse_circles(hub, (endpoint.name, entry.id))
    dispatch(hub, endpoint)
