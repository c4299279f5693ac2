"""
Bounces: the messages of type `notice` that tell a sender with an endpoint of a dead letter
(PROTOCOL.md section 6).

Rule 1: a bounce is stored in the transaction that holds the death, so there is exactly one. Rule 2:
there is none for a bounce or an answer, so nothing goes round in circles. Rule 3: a sender's full
mailbox takes none; that is counted, and stands among the dead letter's steps. Rule 4: of a text for
a chat that was sent because of a message, the sender of that message is told as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.errors import BadName, WakebusError
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.dead_letter import MAY_BE_DONE, next_steps
from wakebus.broker.protocol.message import Message
from wakebus.broker.store.dead_letter_history import in_doubt
from wakebus.broker.store.rows import Put, Row
from wakebus.broker.store.store import Store
from wakebus.broker.store.stored_json import bytes_of, message_of

BUS: Final = "bus"  # the broker's own name
TYPE: Final = "notice"
NONE_FOR: Final = frozenset({TYPE, "answer"})
SAY: Final = "say"  # the type of what an endpoint has to say in a chat
REASON: Final = 300  # characters; the dead letter has the rest
RESERVED: Final = 4 << 10  # bytes, before it is known how long it gets


def check_not_reserved(name: str, field: str) -> str:
    """Return `name`, or raise BadName if it is the broker's own."""
    if name == BUS:
        raise BadName(f"{field} {BUS!r}: the name of the broker itself; take another one")
    return name


def compose(
    row: Row, reason: str, now: float, *, failed: bool = False, doubt: bool = False
) -> Message | None:
    """
    Return what the sender of the message in `row` is told, None where nothing is.

    failed: it was delivered and worked on, and that failed. doubt: work on it may have been done.
    """
    if row["type"] in NONE_FOR:
        return None
    dead = _message(row)
    why = _line(reason)
    about: dict[str, Any] = {"id": dead.id, "to": dead.to, "type": dead.type, "reason": why}
    about |= {name: True for name, is_so in (("failed", failed), ("in_doubt", doubt)) if is_so}
    return _notice(dead, {"text": _text(dead, why, failed, doubt), "about": about}, dead.id, now)


def compose_for_asker(
    row: Row, asked: Row, reason: str, now: float, *, doubt: bool = False
) -> Message | None:
    """
    Return what the sender of the message in `asked` is told: what was sent to a chat because of it
    (`row`) is dead. None where nothing is. doubt: the chat may have it.
    """
    if {row["type"], asked["type"]} & NONE_FOR:
        return None
    dead, cause, why = _message(row), _message(asked), _line(reason)
    where, mine = dead.channel or dead.to, _name(cause)
    shown = "Perhaps not shown" if doubt else "Not shown"
    text = (
        f"{shown}: what {dead.sender} sent to {where} because of your message {mine} is a dead"
        f" letter, {dead.id}: {why}. {next_steps(dead.id, why, in_doubt=doubt)}"
    )
    about: dict[str, Any] = {"id": dead.id, "to": dead.to, "type": dead.type, "reason": why}
    about |= {"from": dead.sender, "channel": where, "because_of": cause.id}
    about |= {"in_doubt": True} if doubt else {}
    return _notice(cause, {"text": text, "about": about}, dead.id, now)


def _notice(about: Message, body: dict[str, Any], cause: str, now: float) -> Message:
    """Return a notice to the sender of `about`, in the same conversation."""
    where = {"channel": about.channel} if about.channel else {}
    return Message(
        messages.new_id(now),
        now,
        BUS,
        about.sender,
        {"type": TYPE, **body, **where},
        session=about.session,
        wake="next_turn",
        reply_to=about.id,
        cause=cause,
        # An agent that sends again because of it goes on counting.
        hops=min(about.hops + 1, messages.MAX_HOPS),
        path=(*about.path, about.to)[-messages.MAX_PATH :],
    )


def _line(reason: str) -> str:
    return " ".join(reason.split())[:REASON]


def _message(row: Row) -> Message:
    """Return the dead message; where it cannot be read, what the columns hold of it."""
    try:
        return messages.from_wire(message_of(row["message"]))
    except WakebusError:
        body = {"type": row["type"]} if row["type"] else {}
        return Message(row["id"], row["accepted"], row["sender"], row["endpoint"], body)


def _text(dead: Message, why: str, failed: bool, doubt: bool) -> str:
    word = "Not done" if failed or doubt else "Not delivered"
    became = "was worked on, and that failed" if failed else "is a dead letter"
    far = f"; {MAY_BE_DONE}" if doubt else ""
    steps = next_steps(dead.id, why, in_doubt=doubt)
    return f"{word}: your message {_name(dead)} to {dead.to} {became}: {why}{far}. {steps}"


def _name(message: Message) -> str:
    return f"{message.type} {message.id}" if message.type else message.id


class Bounce:
    """One on its way: made by the router thread, stored by the writer thread, then entered."""

    def __init__(self, hub: Hub, to: str, compose: Callable[[Row, float], Message | None]) -> None:
        self.endpoint = hub.endpoint(to)
        self._hub, self._compose = hub, compose
        self._full = self.endpoint.full(hub.settings, RESERVED)
        self._live, self._ahead = hub.live(self.endpoint), self.endpoint.mailbox.ahead
        self._stored: tuple[Put, Row] | None = None
        self._lost = False
        self.endpoint.arriving += 1
        self.endpoint.arriving_bytes += RESERVED

    def store(self, store: Store, row: Row) -> str:
        """Store it beside the death of the message in `row`; return the step that tells of it."""
        self._stored, self._lost = None, False
        message = self._compose(row, self._hub.clock.wall())
        if message is None:
            return ""
        try:
            self._stored = self._put(store, message)
        except WakebusError as exc:
            self._lost = True
            return self._hub.log_line("not noticed", to=message.to, why=exc.text)
        return self._hub.log_line("noticed", to=message.to, notice=message.id)

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

    def forget(self) -> None:
        """What was stored was undone."""
        self._stored, self._lost = None, False

    def arrive(self) -> None:
        """The commit is done: put it into the sender's mailbox (router thread)."""
        self.endpoint.arriving -= 1
        self.endpoint.arriving_bytes -= RESERVED
        self._hub.bounces_lost += self._lost
        if self._stored is not None:
            put, row = self._stored
            entry = MailboxEntry.of_put(put, row["seq"], self._hub.clock.mono())
            self._hub.enter(self.endpoint, entry)


def store_death(
    store: Store, bounces: Sequence[Bounce], id: str, line: str, columns: Mapping[str, Any]
) -> None:
    """Store a death and its bounces, all or none (writer thread)."""
    for bounce in bounces:
        bounce.forget()
    row = store.find(id)
    if row is None or row["done"] is not None:
        return
    try:
        dead = {**row, **columns, "log": bytes_of(row["log"]) + line.encode()}
        line += "".join([bounce.store(store, dead) for bounce in bounces])
        store.mark(id, line, **columns)
    except BaseException:
        for bounce in bounces:
            bounce.forget()
        raise


def bounces_for(
    hub: Hub, entry: MailboxEntry, to: str, reason: str, asked: Row | None, *, failed: bool
) -> list[Bounce]:
    """
    Return the bounces of a death: to the sender, proven or claimed, if it is a known endpoint, and
    to that of the message in `asked`, because of which it was sent.

    None to the endpoint `to` itself: who does not read its mail would not read this.
    """
    found: dict[str, Callable[[Row, float], Message | None]] = {}
    if asked is not None:
        found[asked["sender"]] = lambda row, now: compose_for_asker(
            row, asked, reason, now, doubt=in_doubt(row)
        )
    found[entry.sender] = lambda row, now: compose(
        row, reason, now, failed=failed, doubt=in_doubt(row)
    )
    return [
        Bounce(hub, name, written)
        for name, written in found.items()
        if name != to and hub.known(name)
    ]
