"""
Why a message is not worked on yet, for who asks: its receiver's words, or its receiver.

Rule 1: pure; `now` is an argument. Rule 2: a reason ends with what it is about; none is kept on
disk. Rule 3: what a receiver said of one message is said of a new one only for the same place
(session, else channel) and type, and only while it rests.
"""

from typing import Final

from wakebus.broker.core.hub import Hub
from wakebus.broker.core.mailbox_entry import HeldReason, MailboxEntry
from wakebus.broker.core.model import Endpoint
from wakebus.broker.duration import seconds_text
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.protocol.message import Message

MAX_RESTS: Final = 1_000  # of one endpoint, that are remembered at once

AWAY: Final = "{} is away and gets it when it comes"
SILENT: Final = (
    "{}, process {}, says nothing (stopped or frozen, if it is there); it gets it when it goes on"
)
IN_TURN: Final = "its session is in the turn on {} (wakebus cancel ends that)"


def note_reason(endpoint: Endpoint, entry: MailboxEntry, reason: HeldReason, now: float) -> None:
    """A receiver said why it does not work on `entry` yet; one that rests holds what comes, too."""
    entry.held_reason = reason if reason.why else None
    rests = endpoint.rests
    for key in [key for key, rest in rests.items() if rest.until <= now]:
        del rests[key]
    if reason.until > now and len(rests) < MAX_RESTS:
        rests[_place(entry.lane), entry.type] = reason


def reason_for_new(endpoint: Endpoint, message: Message, now: float) -> str:
    """Return why a message that comes now will wait, as far as that is known; "" for nothing."""
    rest = endpoint.rests.get((_place(message.lane), message.type))
    return _rest_text(rest, now) if rest else ""


def held_text(hub: Hub, endpoint: Endpoint, entry: MailboxEntry) -> str:
    """Return why nobody works on `entry` yet, "" where somebody does or nothing is known."""
    if entry.due or entry.state not in (DeliveryState.QUEUED, DeliveryState.HELD):
        return ""  # what is not due waits for its time, whoever is there
    if entry.out:
        return _text_in_hand(hub, endpoint, entry)
    return receiver_text(hub, endpoint) or _text_put_off(hub, endpoint, entry)


def receiver_text(hub: Hub, endpoint: Endpoint) -> str:
    """Return that its receiver is not there, or does not speak; "" where it is."""
    if hub.live(endpoint):
        return ""
    holder = endpoint.holder
    if holder is None or holder.conn is None:
        return AWAY.format(endpoint.name)
    return SILENT.format(endpoint.name, holder.process.pid)


def _text_in_hand(hub: Hub, endpoint: Endpoint, entry: MailboxEntry) -> str:
    reason = entry.held_reason
    if reason and (rest := _rest_text(reason, hub.clock.mono())):
        return rest
    before = endpoint.mailbox.entries.get(entry.behind)
    if before is not None and before.out and before.state is DeliveryState.STARTED:
        return IN_TURN.format(before.id)
    return reason.why if reason and not reason.until else ""


def _text_put_off(hub: Hub, endpoint: Endpoint, entry: MailboxEntry) -> str:
    """Return why its receiver put it off, and until when."""
    head, why = endpoint.mailbox.waits_behind(entry)
    left = endpoint.mailbox.held_for(entry, hub.clock.mono())
    return f"{why}; again in {seconds_text(left)}" if why and left and head == entry.id else ""


def _place(lane: str) -> str:
    """Return the session, else the channel, of a lane."""
    return lane.split("\n")[1]


def _rest_text(reason: HeldReason, now: float) -> str:
    left = reason.until - now
    return f"resting {seconds_text(left)}: {reason.why}" if left > 0 else ""
