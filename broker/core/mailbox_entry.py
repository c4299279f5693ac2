"""
An open message as its mailbox knows it.

Rule 1: pure; no body: what waits, waits on disk.
"""

from typing import NamedTuple, Self

from wakebus.broker.protocol.dead_letter import is_known_to
from wakebus.broker.protocol.delivery_state import DeliveryState
from wakebus.broker.store.rows import Put, Redelivery, Row


class HeldReason(NamedTuple):
    """Why its holder does not work on a message yet. `until`: monotonic, 0.0 where unknown."""

    why: str
    until: float


class MailboxEntry:
    """One open message: what the broker must know of it without reading its body."""

    __slots__ = (
        "accepted",
        "announced",
        "asks",
        "behind",
        "cancelled",
        "claimed",
        "deadline",
        "deaths",
        "deferred",
        "due",
        "failures",
        "foreseen",
        "generation",
        "held_reason",
        "hops",
        "id",
        "lane",
        "more",
        "on_disk",
        "out",
        "path",
        "quarantined",
        "redelivered",
        "sent",
        "seq",
        "session",
        "size",
        "started_before",
        "state",
        "token",
        "type",
        "work",
    )

    def __init__(self, seq: int, id: str, lane: str, size: int, deadline: float) -> None:
        self.seq, self.id, self.lane, self.size = seq, id, lane, size
        self.deadline, self.accepted = deadline, 0.0  # monotonic seconds, bus time
        self.state = DeliveryState.QUEUED
        self.deaths = self.failures = 0
        self.redelivered = self.started_before = self.asks = self.claimed = False
        self.out = self.more = self.quarantined = False
        self.sent = self.foreseen = False  # the store knows that it may have left; is being told
        self.on_disk = False  # out, but its frame waits for the store
        self.behind = ""  # the message whose turn its holder ends first
        self.held_reason: HeldReason | None = None  # as its holder says, while it has it
        self.session = False  # it is for one session, and for no successor's
        self.generation = 0  # how often it went out: news of an older one is stale
        self.token: str | None = None
        self.hops = 0  # what `started` said of it, for what its turn sends
        self.path: tuple[str, ...] = ()
        self.type = self.announced = ""  # for the events that tell of it; the last one's state
        self.cancelled = ""  # why, as a dead letter's reason, while it is in its holder's hands
        self.due = 0.0  # bus time before which it does not go out: its sender said so
        self.deferred = ""  # why its receiver said `later` last
        self.work = ""  # what it said then of work on it: `none`, `maybe`; "": nothing since

    @classmethod
    def of_put(cls, put: Put, seq: int, now: float) -> Self:
        """Return the entry of a message that was just stored as `seq`; `now`: monotonic."""
        message = put.message
        deadline = now + put.deadline - put.accepted
        entry = cls(seq, message.id, message.lane, len(put.blob), deadline)
        entry.due = put.due
        entry.asks, entry.claimed, entry.type = put.asks, put.claimed, message.type
        entry.session, entry.accepted = message.session is not None, put.accepted
        entry.sent = put.sent
        return entry

    @classmethod
    def of_row(cls, row: Row, deadline: float) -> Self:
        """Return the entry of a stored message, queued; `session` beside its columns."""
        entry = cls(row["seq"], row["id"], row["lane"], row["size"], deadline)
        entry.deaths = row["deaths"]
        past = Redelivery(row["redelivered"])
        entry.quarantined = entry.deaths > 0 or Redelivery.DIED in past
        entry.redelivered = past & ~Redelivery.SENT != 0
        entry.started_before = bool(row["started_before"])
        entry.asks, entry.claimed = bool(row["asks"]), bool(row["claimed"])
        entry.session, entry.accepted, entry.type = row["session"], row["accepted"], row["type"]
        return entry

    @property
    def past(self) -> Row:
        """What the store keeps of its deliveries, as columns, while no holder has it."""
        came_back = Redelivery.RETURNED * self.redelivered | Redelivery.DIED * self.quarantined
        return {"redelivered": int(came_back), "started_before": self.started_before}

    @property
    def quiet(self) -> bool:
        """Whether its sender knows that it was cancelled, and gets no notice."""
        return is_known_to(self.sender, self.cancelled)

    @property
    def sender(self) -> str:
        """Who sent it, proven or claimed."""
        return self.lane.partition("\n")[0]
