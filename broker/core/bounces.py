"""
Bounces: the messages of type `notice` that tell a sender with an endpoint of a dead letter
(PROTOCOL.md section 6).

Rule 1: a bounce is stored in the transaction that holds the death, so there is exactly one. Rule 2:
there is none for a bounce or an answer, so nothing goes round in circles. Rule 3: a sender's full
mailbox takes none; that is counted, and stands among the dead letter's steps.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox import MailboxEntry
from wakebus.broker.errors import BadName, WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.message import Message
from wakebus.broker.store.rows import Put, Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import message_of

BUS: Final = "bus"  # the broker's own name
TYPE: Final = "notice"
NONE_FOR: Final = frozenset({TYPE, "answer"})
REASON: Final = 300  # characters; the dead letter has the rest
RESERVED: Final = 4 << 10  # bytes, before it is known how long it gets

# Why a message died with an ephemeral name: for its session, or for whoever held the name.
FOR_IT: Final = "its session ended: the client that held {} is gone"
WITH_IT: Final = "the session that held {} has ended"
ORPHANED: Final = tuple(reason.partition("{")[0] for reason in (FOR_IT, WITH_IT))


def check_not_reserved(name: str, field: str) -> str:
    """Return `name`, or raise BadName if it is the broker's own."""
    if name == BUS:
        raise BadName(f"{field} {BUS!r}: the name of the broker itself; take another one")
    return name


def compose(row: Row, reason: str, now: float) -> Message | None:
    """Return what the sender of the message in `row` is told, None where nothing is."""
    if row["type"] in NONE_FOR:
        return None
    dead = _message(row)
    why = " ".join(reason.split())[:REASON]
    about = {"id": dead.id, "to": dead.to, "type": dead.type, "reason": why}
    body: dict[str, Any] = {"type": TYPE, "text": _text(dead, why), "about": about}
    if dead.channel:
        body["channel"] = dead.channel
    return Message(
        messages.new_id(now),
        now,
        BUS,
        dead.sender,
        body,
        session=dead.session,
        wake="next_turn",
        reply_to=dead.id,
        cause=dead.id,
        # An agent that sends again because of it goes on counting.
        hops=min(dead.hops + 1, messages.MAX_HOPS),
        path=(*dead.path, dead.to)[-messages.MAX_PATH :],
    )


def _message(row: Row) -> Message:
    """Return the dead message; where it cannot be read, what the columns hold of it."""
    try:
        return messages.from_wire(message_of(row["message"]))
    except WakebusError:
        body = {"type": row["type"]} if row["type"] else {}
        return Message(row["id"], row["accepted"], row["sender"], row["endpoint"], body)


def _text(dead: Message, why: str) -> str:
    what = f"{dead.type} {dead.id}" if dead.type else dead.id
    look = f"Look at it: wakebus dead show {dead.id}. "
    again = f"Send it again: wakebus dead retry {dead.id}"
    if dead.session and why.startswith(ORPHANED):
        again = "It is for nobody else; whom you can reach now: wakebus endpoints"
    return f"Not delivered: your message {what} to {dead.to} is a dead letter: {why}. {look}{again}"


class Bounce:
    """One on its way: made by the router thread, stored by the writer thread, then entered."""

    def __init__(self, hub: Hub, sender: str, id: str, reason: str) -> None:
        self.endpoint = hub.endpoint(sender)
        self._hub, self._id, self._reason = hub, id, reason
        self._full = self.endpoint.full(hub.settings, RESERVED)
        self._live, self._ahead = hub.live(self.endpoint), len(self.endpoint.mailbox)
        self._stored: tuple[Put, Row] | None = None
        self._lost = False
        self.endpoint.arriving += 1
        self.endpoint.arriving_bytes += RESERVED

    def store(self, store: Store, line: str, columns: Mapping[str, Any]) -> None:
        """Store the death and its bounce, both or neither (writer thread)."""
        self._stored, self._lost = None, False
        row = store.find(self._id)
        if row is None or row["done"] is not None:
            return
        message = compose(row, self._reason, self._hub.clock.wall())
        stored = None
        if message is not None:
            try:
                stored = self._put(store, message)
                line += self._hub.log_line("noticed", to=message.to, notice=message.id)
            except WakebusError as exc:
                self._lost = True
                line += self._hub.log_line("not noticed", to=message.to, why=exc.text)
        store.mark(self._id, line, **columns)
        self._stored = stored

    def _put(self, store: Store, message: Message) -> tuple[Put, Row]:
        now, blob = self._hub.bus_time(), msgspec.json.encode(message.to_wire())
        log = self._hub.log_line("accepted", by=BUS, claimed=False)
        log += self._hub.log_line("queued", live=self._live, ahead=self._ahead)
        put = Put(
            message,
            blob,
            now,
            now + message.ttl_s,
            log,
            known=True,
            full=self._full,
            asks=False,
            claimed=False,
            bounded=False,  # the death makes room for more than this
        )
        return put, store.put(put)

    def arrive(self) -> None:
        """The commit is done: put it into the sender's mailbox (router thread)."""
        self.endpoint.arriving -= 1
        self.endpoint.arriving_bytes -= RESERVED
        self._hub.bounces_lost += self._lost
        if self._stored is not None:
            put, row = self._stored
            entry = MailboxEntry.of_put(put, row["seq"], self._hub.clock.mono())
            self._hub.enter(self.endpoint, entry)


def bounce_for(hub: Hub, entry: MailboxEntry, to: str, reason: str) -> Bounce | None:
    """
    Return the bounce of a death if the sender, proven or claimed, is a known endpoint.

    None to the endpoint `to` itself: who does not read its mail would not read this.
    """
    told = entry.sender != to and hub.known(entry.sender)
    return Bounce(hub, entry.sender, entry.id, reason) if told else None
