"""
What bus_read shows: an endpoint's inbox, and one message whole.

Rule 1: nothing is taken and nothing acknowledged. Rule 2: what peers wrote stands in a random
fence, labelled as theirs (prompt/label.py). Rule 3: bounded in rows, bytes and time. Rule 4: only
what was sent to or by this endpoint, and nothing that is for another conversation of it: a gateway
has many persons.
"""

import heapq
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import UnknownId, UnknownTarget
from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.label import PromptItem, label, label_inbox

if TYPE_CHECKING:
    from wakebus.broker import Client

WALK_S: Final = 3.0  # through a long inbox
EMPTY: Final = "the inbox is empty: nothing waits, and nothing came silently"
MayShow = Callable[[str, str], bool]
"""Whether a message with this channel and session ("" for none) may be shown here."""

NOBODY: Final = "this process has no endpoint on the bus, so it has no inbox"


def show_all(channel: str, session: str) -> bool:
    """Say that any message may be shown: where an endpoint is one conversation."""
    return True


def read_inbox(
    client: "Client", name: str, limit: int, may_show: MayShow = show_all
) -> dict[str, Any]:
    """Return the newest `limit` messages of endpoint `name`: `messages`, and their `text`."""
    try:
        rows = client.inbox(name)
    except UnknownTarget:
        return {"endpoint": name, "messages": [], "note": NOBODY}
    shown = (
        row
        for row in _within(rows, WALK_S)
        if may_show(row.get("channel", ""), row.get("session", ""))
    )
    newest = heapq.nlargest(limit, shown, key=lambda row: row["accepted"])
    told: dict[str, Any] = {"endpoint": name, "messages": [_facts(row) for row in newest]}
    if not newest:
        return told | {"note": EMPTY}
    items = [_item(row, name).at(time.time()) for row in newest]
    return told | {"text": label_inbox(items, secrets.token_hex(8))}


def _within(rows: Iterator[dict[str, Any]], seconds: float) -> Iterator[dict[str, Any]]:
    until = time.monotonic() + seconds
    for row in rows:
        yield row
        if time.monotonic() > until:
            return


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    """Return what the bus itself says of a message; nothing that a sender could make up."""
    state = "silent" if row.get("silent") else row["state"]
    told = {"id": row["id"], "from": row["from"], "state": state, "age_s": row["age_s"]}
    return told | {name: row[name] for name in ("unreadable",) if name in row}


def _item(row: dict[str, Any], name: str) -> PromptItem:
    body = {"type": row["type"], "text": row["text"]}
    message = Message(row["id"], row["accepted"], row["from"], name, body)
    return PromptItem(message, row["text"], claimed=row["claimed"])


def read_message(
    client: "Client", name: str, id: str, may_show: MayShow = show_all
) -> dict[str, Any]:
    """Return message `id`, whole. Raises UnknownId, also for one between others."""
    message = client.read(id)
    if not may_show(message.channel, message.session or ""):
        raise UnknownId(
            f"{id} belongs to another conversation", step="bus_read shows this one's ids."
        )
    if name not in (message.to, message.sender):
        raise UnknownId(
            f"{id} was neither sent to {name} nor by it", step="bus_read shows this inbox's ids."
        )
    claimed = next((one["claimed"] for one in client.trace(id) if one["id"] == id), True)
    item = PromptItem(message, message.text, claimed=claimed)
    return {"id": id, "text": label(item, secrets.token_hex(8))}
