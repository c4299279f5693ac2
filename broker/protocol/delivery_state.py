"""
The states of a delivery and every step between them (PROTOCOL.md section 6).

Rule 1: everything that affects the life of a delivery stands in this table. Rule 2: an absent
pair changes nothing: it is an event that came late, twice, or from a holder that lost the name.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a delivery is; the last three are ends."""

    QUEUED = "queued"
    HELD = "held"
    STARTED = "started"
    HANDLED = "handled"
    REFUSED = "refused"
    DEAD = "dead"


class Event(StrEnum):
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
    RETRIED = "retried"  # a dead letter gets another life


ENDS: Final = frozenset({State.HANDLED, State.REFUSED, State.DEAD})
OPEN: Final = frozenset(State) - ENDS
DEATHS: Final = frozenset({State.REFUSED, State.DEAD})

NEXT: Final[dict[tuple[State, Event], State]] = {
    (State.QUEUED, Event.GOT): State.HELD,
    (State.QUEUED, Event.STARTED): State.STARTED,
    (State.HELD, Event.STARTED): State.STARTED,
    # A lost `got` must not turn a finished piece of work into a redelivery.
    **{(state, Event.HANDLED): State.HANDLED for state in OPEN},
    **{(state, Event.REFUSED): State.REFUSED for state in OPEN},
    **{(state, Event.LATER): State.QUEUED for state in OPEN},
    **{(state, Event.RETURNED): State.QUEUED for state in OPEN},
    (State.QUEUED, Event.EXPIRED): State.DEAD,
    (State.QUEUED, Event.EXHAUSTED): State.DEAD,
    (State.QUEUED, Event.CANCELLED): State.DEAD,
    (State.QUEUED, Event.ORPHANED): State.DEAD,
    **{(state, Event.RETRIED): State.QUEUED for state in (State.DEAD, State.REFUSED)},
}


def receipt_word(state: State) -> str:
    """Return what the sender is told: `queued`, `delivered`, `handled` or `dead`."""
    if state in (State.HELD, State.STARTED):
        return "delivered"
    return "dead" if state in (State.REFUSED, State.DEAD) else str(state)
