"""
Which message of one endpoint goes out next (PROTOCOL.md section 7).

Rule 1: pure; `now` is an argument. Rule 2: order is kept per lane; one message per lane is out,
unless its receiver asked for the next (`more`). Rule 3: no bodies in here: what waits, waits on
disk. Rule 4: after a holder's death each that was out is quarantined; those go out one at a time,
and only the one that is out is counted at the next death. Rule 5: what the store does not know as
`sent` has not left.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Final

from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.protocol.delivery_state import ENDS, DeliveryState
from wakebus.broker.protocol.message import rank_of_lane

LANE_MORE: Final = 64  # messages of one lane in flight to one receiver, with `more`


class _Lane:
    __slots__ = ("deferred", "held_by", "held_until", "listed", "out", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[MailboxEntry] = deque()
        self.out: dict[str, MailboxEntry] = {}
        self.held_until, self.held_by = 0.0, ""  # for which message it waits until then
        self.listed = False  # stands in `_ready`
        self.deferred = ("", "")  # the message that held the lane up last, and why

    def open(self) -> bool:
        room = len(self.out) < LANE_MORE and all(entry.more for entry in self.out.values())
        return bool(self.waiting) and room


class Mailbox:
    """The open messages of one endpoint, in lanes."""

    def __init__(self, window_lanes: int, window_bytes: int) -> None:
        self._window_lanes, self._window_bytes = window_lanes, window_bytes
        self.entries: dict[str, MailboxEntry] = {}
        self._lanes: dict[str, _Lane] = {}
        # Lanes by priority, the highest first.
        self._ready: tuple[deque[str], ...] = (deque(), deque(), deque())
        self._ready_more: deque[str] = deque()  # lanes with a place in the window already
        self._held: list[tuple[float, str]] = []
        self._out: dict[str, MailboxEntry] = {}
        self._out_bytes = self._out_lanes = 0
        self._quarantined_out: str | None = None  # one at a time
        self._booked: set[str] = set()  # lanes
        self._delayed: dict[str, MailboxEntry] = {}  # what is not due yet, by id
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def ahead(self) -> int:
        """How many are before what arrives now: what is not due yet is before nothing."""
        return len(self.entries) - len(self._delayed)

    @property
    def out(self) -> list[MailboxEntry]:
        """What is with the holder now."""
        return list(self._out.values())

    def ahead_of(self, entry: MailboxEntry) -> list[str]:
        """Return the messages of its lane that must end before it goes out."""
        if entry.out:
            return []
        return [other.id for other in self._lanes[entry.lane].out.values() if not other.more]

    def blocker(self, entry: MailboxEntry) -> MailboxEntry | None:
        """Return what of its lane must end or come back before it goes out, None for nothing."""
        if entry.out or entry.id not in self.entries:
            return None
        lane = self._lanes[entry.lane]
        busy = (other for other in lane.out.values() if not other.more)
        first = next(busy, lane.waiting[0])
        return None if first is entry else first

    def first_in_hand(self, entry: MailboxEntry) -> MailboxEntry | None:
        """Return the first of its lane that the holder has, None for none."""
        return next(iter(self._lanes[entry.lane].out.values()), None)

    def held_up(self) -> list[tuple[MailboxEntry, int]]:
        """Return what was put off or is tried again, with how many wait behind it; most first."""
        waiting = (
            (next(iter(lane.out.values()), lane.waiting[0]), len(lane.waiting) - (not lane.out))
            for lane in self._lanes.values()
            if lane.waiting
        )
        found = [(first, behind) for first, behind in waiting if behind and first.deferred]
        return sorted(found, key=lambda one: -one[1])

    def only_turn(self) -> MailboxEntry | None:
        """
        Return what the holder's one open turn is on, None if it has none or several.

        Of what is done together one has the turn's token; who shows none has begun work all the
        same.
        """
        begun = [entry for entry in self._out.values() if entry.state is DeliveryState.STARTED]
        turns = [entry for entry in begun if entry.token] or begun
        return turns[0] if len(turns) == 1 else None

    def book(self, name: str, size: int) -> bool:
        """
        Whether a new message of this lane will go out once it is stored: the store is told with it.

        Then none after it does, until `unbook`.
        """
        if (lane := self._lanes.get(name)) is not None:
            goes = not lane.waiting and all(entry.state in ENDS for entry in lane.out.values())
        else:
            ready = sum(map(len, self._ready))
            goes = self._out_lanes + ready + len(self._booked) < self._window_lanes
        goes = goes and name not in self._booked and self._has_bytes(size)
        if goes:
            self._booked.add(name)
        return goes

    def unbook(self, name: str) -> None:
        """The message that was booked is stored, or never will be."""
        self._booked.discard(name)

    def successor(self, ending: MailboxEntry) -> MailboxEntry | None:
        """Return what will go out when this one's end is stored: the store is told with the end."""
        own = self._lanes[ending.lane]
        after = [] if any(e is not ending and not e.more for e in own.out.values()) else [own]
        names = islice(chain(*self._ready), self._window_lanes)
        ready = (self._lanes[name] for name in names)
        for lane in (*ready, *after):
            head = lane.waiting[0] if lane.waiting else None
            if head is not None and not (head.sent or head.foreseen or head.quarantined):
                head.foreseen = True
                return head
        return None

    def add(self, entry: MailboxEntry) -> None:
        """Put a new message at the end of its lane; one that is not due yet, outside of it."""
        self.entries[entry.id] = entry
        self.bytes += entry.size
        if entry.due:
            self._delayed[entry.id] = entry
            entry.lane += f"\n\n{entry.id}"  # its own: it holds nobody up, and nothing lists it
            self._lanes[entry.lane] = lane = _Lane()
            lane.waiting.append(entry)
        else:
            self._append(entry)

    def _append(self, entry: MailboxEntry) -> None:
        lane = self._lanes.setdefault(entry.lane, _Lane())
        lane.waiting.append(entry)
        self._list(entry.lane, lane)

    def take_due(self, now: float) -> list[MailboxEntry]:
        """Return once what waits for a time that has come (bus time), the earliest first."""
        found = [entry for entry in self._delayed.values() if entry.due <= now]
        for entry in found:
            del self._delayed[entry.id]
        return sorted(found, key=lambda entry: (entry.due, entry.seq))

    def release(self, entry: MailboxEntry, seq: int | None) -> None:
        """
        What is due goes to the end of its lane; `seq`: its place there, as it is stored now.

        None: it is not stored, and is due again.
        """
        if not entry.due or entry.id not in self.entries:
            return  # it has ended, or its holder said that it has it
        if seq is None:
            self._delayed[entry.id] = entry
            return
        del self._lanes[entry.lane]
        entry.lane = entry.lane.removesuffix(f"\n\n{entry.id}")
        entry.seq, entry.due = seq, 0.0
        self._append(entry)

    def _list(self, name: str, lane: _Lane) -> None:
        if not lane.listed and lane.open():
            lane.listed = True
            ready = self._ready[rank_of_lane(name)]
            (self._ready_more if lane.out else ready).append(name)

    def take_next(self, now: float) -> MailboxEntry | None:
        """Return the next message to send, marked as out; None when nothing may go now."""
        self._release(now)
        for ready in (self._ready_more, *self._ready):
            for _ in range(len(ready)):
                if ready is not self._ready_more and self._out_lanes >= self._window_lanes:
                    return None  # none of these lanes has a place in the window
                if entry := self._next_of(ready.popleft(), now):
                    return entry
        return None

    def _next_of(self, name: str, now: float) -> MailboxEntry | None:
        lane = self._lanes[name]
        lane.listed = False
        if not lane.open() or lane.held_until > now:
            self._drop_empty(name, lane)
            return None
        entry = lane.waiting[0]
        alone = entry.quarantined and self._quarantined_out is not None
        if alone or self._full(lane) or not self._fits(lane, entry):
            self._list(name, lane)  # its turn comes when something ends
            return None
        lane.waiting.popleft()
        self._put_out(lane, entry)
        self._list(name, lane)
        return entry

    def _full(self, lane: _Lane) -> bool:
        return not lane.out and self._out_lanes >= self._window_lanes

    def _fits(self, lane: _Lane, entry: MailboxEntry) -> bool:
        if lane.out:  # one lane's `more` must not use up what the others need
            used = sum(other.size for other in lane.out.values())
            if used + entry.size > self._window_bytes // 4:
                return False
        return self._has_bytes(entry.size)

    def _has_bytes(self, size: int) -> bool:
        return not self._out or self._out_bytes + size <= self._window_bytes

    def _drop_empty(self, name: str, lane: _Lane) -> None:
        if not lane.waiting and not lane.out and not lane.listed:
            del self._lanes[name]

    def _put_out(self, lane: _Lane, entry: MailboxEntry) -> None:
        entry.out, entry.more, entry.behind, entry.due = True, False, "", 0.0
        entry.held_reason = None
        self._delayed.pop(entry.id, None)  # its holder says that it has it
        entry.generation += 1
        self._out_lanes += not lane.out
        lane.out[entry.id] = self._out[entry.id] = entry
        self._out_bytes += entry.size
        if entry.quarantined and self._quarantined_out is None:
            self._quarantined_out = entry.id

    def _take_in(self, entry: MailboxEntry) -> _Lane:
        lane = self._lanes[entry.lane]
        if entry.out:
            entry.out = entry.on_disk = False
            del lane.out[entry.id], self._out[entry.id]
            self._out_lanes -= not lane.out
            self._out_bytes -= entry.size
            if self._quarantined_out == entry.id:
                self._quarantined_out = None
        return lane

    def _release(self, now: float) -> None:
        while self._held and self._held[0][0] <= now:
            _, name = heappop(self._held)
            if lane := self._lanes.get(name):
                self._list(name, lane)

    def adopt(self, id: str) -> None:
        """The holder has this message already: it is out, unsent."""
        entry = self.entries[id]
        if not entry.out:
            lane = self._lanes[entry.lane]
            lane.waiting.remove(entry)
            self._put_out(lane, entry)
        entry.on_disk = False

    def allow_more(self, id: str) -> None:
        """The receiver takes the next message of this lane too, and keeps the order itself."""
        entry = self.entries[id]
        entry.more = True
        self._list(entry.lane, self._lanes[entry.lane])

    def remove(self, id: str) -> MailboxEntry:
        """Forget a message that is handled, refused or dead; its lane goes on."""
        entry = self.entries.pop(id)
        self._delayed.pop(id, None)
        self.bytes -= entry.size
        lane = self._take_in(entry)
        if entry.state is not DeliveryState.DEAD:
            lane.deferred = ("", "")  # it got through: what waits now waits for another reason
        if entry in lane.waiting:
            lane.waiting.remove(entry)
        if lane.held_by == id:
            lane.held_until = 0.0
        self._list(entry.lane, lane)
        self._drop_empty(entry.lane, lane)
        return entry

    def give_back(self, id: str, held_until: float = 0.0) -> None:
        """A message comes back to the front of its lane, which opens at `held_until`."""
        entry = self.entries[id]
        if not entry.out:
            return
        lane = self._take_in(entry)
        place = next((i for i, e in enumerate(lane.waiting) if e.seq > entry.seq), None)
        lane.waiting.insert(len(lane.waiting) if place is None else place, entry)
        if held_until:
            self.hold_lane(entry, held_until)
        else:
            self._list(entry.lane, lane)

    def hold_lane(self, entry: MailboxEntry, until: float) -> None:
        """Let nothing of this message's lane go out before `until` (monotonic)."""
        lane = self._lanes[entry.lane]
        lane.held_until, lane.held_by = until, entry.id
        heappush(self._held, (until, entry.lane))

    def defer(self, id: str, why: str, held_until: float) -> None:
        """Its receiver wants it later, for this reason; so does all of its lane wait."""
        entry = self.entries[id]
        entry.deferred = why
        self._lanes[entry.lane].deferred = (id, why)
        self.give_back(id, held_until)

    def waits_behind(self, entry: MailboxEntry) -> tuple[str, str]:
        """Return the message that its lane waited for last, and why; "" each for none."""
        return self._lanes[entry.lane].deferred

    def held_for(self, entry: MailboxEntry, now: float) -> float:
        """Return for how many seconds its lane is held from now on; 0 where it is not."""
        return max(0.0, self._lanes[entry.lane].held_until - now)

    def return_all(self, *, died: bool) -> Iterator[MailboxEntry]:
        """
        Bring back all that was out, marked as redelivered; yield each that left, oldest first.

        `died`: count an attempt, of the quarantined one that was out if any was, else of all. What
        has ended and only waits for its commit stays where it is.
        """
        for entry in [entry for entry in self._out.values() if entry.on_disk]:
            self.give_back(entry.id)
        open_ = (entry for entry in self._out.values() if entry.state not in ENDS)
        back = sorted(open_, key=lambda entry: entry.seq)
        counted = [entry for entry in back if entry.id == self._quarantined_out] or back
        for entry in back:
            entry.deaths += died and entry in counted
            entry.quarantined |= died
            entry.redelivered = True
            entry.started_before |= entry.state is DeliveryState.STARTED
            entry.state = DeliveryState.QUEUED
            entry.token = None
            entry.sent = False
            self.give_back(entry.id)
        yield from back

    def expired(self, now: float) -> list[MailboxEntry]:
        """Return what waited past its deadline; what is out is never expired."""
        return [e for e in self.entries.values() if not e.out and e.deadline <= now]
