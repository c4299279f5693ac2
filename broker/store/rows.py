"""
What goes into the store and what comes out of it: values that its files hand to each other.

Rule 1: no SQL in here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Final, Protocol

from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.protocol.message import Message

LOG_BYTES: Final = 16 << 10  # of one message's steps: `later` every second must not fill the disk
STARTED_LOG_BYTES: Final = LOG_BYTES * 3 // 2  # that work began is told after many `later`, too

Row = dict[str, Any]
Done = Callable[[Any], None]  # gets the result, or the WakebusError


class Redelivery(IntFlag):
    """
    What the store's `redelivered` says of an open message.

    SENT is committed before the frame leaves: whatever is killed then, the label stays true.
    """

    RETURNED = 1  # it came back from a holder
    DIED = 2  # and that one's process had ended: it is quarantined
    SENT = 4  # it may have left for a holder, which has said nothing of it yet


def waits_until_due(row: Row) -> bool:
    """Whether a stored message does not go out yet because its sender said so."""
    return bool(row["state"] == DeliveryState.QUEUED and row["due"] and not row["failures"])


class PutsMessages(Protocol):
    """What a Put needs of the store."""

    def put(self, put: "Put") -> Row:
        """Store a message; return its row."""


@dataclass(slots=True)
class Put:
    """A checked message with all that is stored beside it. Times in bus time."""

    message: Message
    blob: bytes
    accepted: float
    deadline: float
    log: str
    known: bool  # the target was seen before, or the sender said --queue
    full: str  # why the mailbox takes no new message, or ""
    asks: bool
    claimed: bool
    bounded: bool = True  # refused while the store is over its bound
    refusal: WakebusError | None = None  # why it is not stored, unless it is already
    sent: bool = False  # its frame leaves as soon as it is stored
    due: float = 0.0  # it does not go out before; 0: at once

    def __call__(self, store: PutsMessages) -> Row:
        """Store it: an operation as any other, but many that come together are stored at once."""
        return store.put(self)
