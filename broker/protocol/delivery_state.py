"""
The states of a delivery and every step between them (PROTOCOL.md section 6).

Rule 1: everything that affects the life of a delivery stands in this table. Rule 2: an absent
pair changes nothing: it is an event that came late, twice, or from a holder that lost the name.
"""

from enum import StrEnum
from typing import Final


class DeliveryState(StrEnum):
    """Where a delivery is; the last three are ends."""

    QUEUED = "queued"
    HELD = "held"
    STARTED = "started"
    HANDLED = "handled"
    REFUSED = "refused"
    DEAD = "dead"


class DeliveryEvent(StrEnum):
    """What happens to a delivery."""

    GOT = "got"
    STARTED = "started"
    HANDLED = "handled"
    REFUSED = "refused"
    LATER = "later"
    RETURNED = "returned"  # its holder died, left, or was fenced
    EXPIRED = "expired"
    EXHAUSTED = "exhausted"
    CANCELLED = "cancelled"  # taken back
    ORPHANED = "orphaned"  # the session that held the name has ended
    UNREADABLE = "unreadable"  # what is stored of it cannot be read
    RETRIED = "retried"  # a dead letter gets another life


ENDS: Final = frozenset({DeliveryState.HANDLED, DeliveryState.REFUSED, DeliveryState.DEAD})
OPEN: Final = frozenset(DeliveryState) - ENDS
DEATHS: Final = frozenset({DeliveryState.REFUSED, DeliveryState.DEAD})

NEXT: Final[dict[tuple[DeliveryState, DeliveryEvent], DeliveryState]] = {
    (DeliveryState.QUEUED, DeliveryEvent.GOT): DeliveryState.HELD,
    (DeliveryState.QUEUED, DeliveryEvent.STARTED): DeliveryState.STARTED,
    (DeliveryState.HELD, DeliveryEvent.STARTED): DeliveryState.STARTED,
    # A lost `got` must not turn a finished piece of work into a redelivery.
    **{(state, DeliveryEvent.HANDLED): DeliveryState.HANDLED for state in OPEN},
    **{(state, DeliveryEvent.REFUSED): DeliveryState.REFUSED for state in OPEN},
    **{(state, DeliveryEvent.LATER): DeliveryState.QUEUED for state in OPEN},
    **{(state, DeliveryEvent.RETURNED): DeliveryState.QUEUED for state in OPEN},
    (DeliveryState.QUEUED, DeliveryEvent.EXPIRED): DeliveryState.DEAD,
    (DeliveryState.QUEUED, DeliveryEvent.EXHAUSTED): DeliveryState.DEAD,
    **{(state, DeliveryEvent.CANCELLED): DeliveryState.DEAD for state in OPEN},
    (DeliveryState.QUEUED, DeliveryEvent.ORPHANED): DeliveryState.DEAD,
    (DeliveryState.QUEUED, DeliveryEvent.UNREADABLE): DeliveryState.DEAD,
    **{(state, DeliveryEvent.RETRIED): DeliveryState.QUEUED for state in DEATHS},
}


def receipt_word(state: DeliveryState) -> str:
    """Return what the sender is told: `queued`, `delivered`, `handled` or `dead`."""
    if state in (DeliveryState.HELD, DeliveryState.STARTED):
        return "delivered"
    return "dead" if state in DEATHS else str(state)
