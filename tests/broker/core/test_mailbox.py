"""Which message of one endpoint goes out next."""

from collections import defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from wakebus.broker.core.mailbox import LANE_MORE, Mailbox
from wakebus.broker.core.mailbox_entry import MailboxEntry
from wakebus.broker.protocol.delivery_state import DeliveryState

MIB = 1 << 20


def entry(seq: int, lane: str = "a", size: int = 10, deadline: float = 1e9) -> MailboxEntry:
    """Return an entry with id `m<seq>`."""
    return MailboxEntry(seq, f"m{seq}", lane, size, deadline)


def filled(*lanes: str, window: int = 64, size: int = 10) -> Mailbox:
    """Return a mailbox with one message per name in `lanes`, in this order."""
    box = Mailbox(window, 4 * MIB)
    for seq, lane in enumerate(lanes, 1):
        box.add(entry(seq, lane, size))
    return box


def take_all(box: Mailbox, now: float = 0.0) -> list[str]:
    """Take until nothing may go; return the ids."""
    return [e.id for e in iter(lambda: box.take_next(now), None)]


def test_one_of_a_lane_is_out() -> None:
    """PROTOCOL-7.1: the next one goes after the end of the one before."""
    box = filled("a", "a", "b")
    assert take_all(box) == ["m1", "m3"]
    box.remove("m1")
    assert take_all(box) == ["m2"]


def test_lanes_take_turns() -> None:
    """PROTOCOL-7.2: a full lane does not hold up another one."""
    box = filled(*"aaaaab", window=1)
    order = []
    while e := box.take_next(0):
        order.append(e.id)
        box.remove(e.id)
    assert order == ["m1", "m6", "m2", "m3", "m4", "m5"]


def test_the_window_counts_lanes() -> None:
    """PROTOCOL-7.3: no more lanes are out than the window has."""
    box = filled(*"abcd", window=3)
    assert take_all(box) == ["m1", "m2", "m3"]
    box.remove("m2")
    assert take_all(box) == ["m4"]


def test_the_window_counts_bytes() -> None:
    """PROTOCOL-7.3: 4 MiB are out at most; a single message always goes."""
    box = filled(*"abcdef", size=MIB)
    assert take_all(box) == ["m1", "m2", "m3", "m4"]
    box.remove("m1")
    assert take_all(box) == ["m5"]
    assert take_all(filled("a", "b", size=5 * MIB)) == ["m1"]


def test_more_lets_the_next_of_the_lane_come() -> None:
    """PROTOCOL-7.4: one further message for each that allows it."""
    box = filled("a", "a", "a")
    assert take_all(box) == ["m1"]
    box.allow_more("m1")
    assert take_all(box) == ["m2"]
    box.allow_more("m2")
    assert take_all(box) == ["m3"]
    box.remove("m2")
    assert take_all(box) == []


def test_more_has_limits_and_leaves_room_for_others() -> None:
    """PROTOCOL-7.4: 64 of a lane, a quarter of the bytes; it uses one place in the window."""
    box = filled(*"a" * 100, "b", window=2)
    seen = []
    while e := box.take_next(0):
        seen.append(e.id)
        box.allow_more(e.id)
    assert len(seen) == LANE_MORE + 1 and "m101" in seen
    big = filled("a", "a", "a", "b", size=MIB // 2 + 1)
    assert take_all(big) == ["m1", "m4"]
    big.allow_more("m1")
    assert take_all(big) == []


def test_later_holds_its_lane_only() -> None:
    """PROTOCOL-6.7: the lane opens at its time, with the same message first."""
    box = filled("a", "a", "b")
    assert take_all(box) == ["m1", "m3"]
    box.give_back("m1", held_until=5.0)
    box.remove("m3")
    box.add(entry(4, "b"))
    assert take_all(box, 4.9) == ["m4"]
    assert take_all(box, 5.0) == ["m1"]


def test_what_holds_a_lane_up_is_known() -> None:
    """PROTOCOL-6.10: by its message, also after that expired, until one gets through."""
    box = filled("a", "a", "a", "b")
    first, second, third, other = box.entries.values()
    box.take_next(0)
    box.defer("m1", "429", held_until=5.0)
    assert first.deferred == "429" and not second.deferred
    assert box.waits_behind(third) == ("m1", "429") and box.waits_behind(other) == ("", "")
    first.state = DeliveryState.DEAD
    box.remove("m1")
    assert box.waits_behind(third) == ("m1", "429")
    second.state = DeliveryState.HANDLED
    box.remove("m2")
    assert box.waits_behind(third) == ("", "")


def test_what_a_message_waits_behind() -> None:
    """PROTOCOL-10.13: what of its lane is in hand, was put off, or simply came before it."""
    box = filled("a", "a", "a", "b")
    first, second, third, other = box.entries.values()
    assert (box.blocker(first), box.blocker(third), box.blocker(other)) == (None, first, None)
    box.take_next(0)
    assert box.blocker(first) is None and box.blocker(second) is first
    assert box.held_up() == []
    box.defer("m1", "429", held_until=5.0)
    assert box.blocker(second) is box.blocker(third) is first
    assert box.held_up() == [(first, 2)]
    assert take_all(box, 5.0) == ["m4", "m1"]
    box.allow_more("m1")  # it is in nobody's way: the next one is
    assert box.blocker(second) is None and box.blocker(third) is second
    first.state = DeliveryState.HANDLED
    box.remove("m1")
    assert box.held_up() == [] and box.blocker(first) is None


def test_later_twice_counts_from_the_second() -> None:
    """PROTOCOL-6.7: an older release does not open the lane early."""
    box = filled("a")
    box.take_next(0)
    box.give_back("m1", held_until=5.0)
    assert take_all(box, 5.0) == ["m1"]
    box.give_back("m1", held_until=20.0)
    assert take_all(box, 19.0) == []
    assert take_all(box, 20.0) == ["m1"]


def test_a_returned_message_goes_before_the_rest_of_its_lane() -> None:
    """PROTOCOL-6.8: the order of a lane survives its holder."""
    box = filled("a", "a", "a")
    box.take_next(0)
    box.allow_more("m1")
    box.take_next(0)
    assert [e.id for e in box.return_all(died=False)] == ["m1", "m2"]
    assert take_all(box) == ["m1"]


def test_a_death_counts_all_that_was_out_once() -> None:
    """PROTOCOL-6.8, PROTOCOL-6.9: nobody knows yet which one it was."""
    box = filled("a", "b", "c", window=2)
    take_all(box)
    box.entries["m2"].state = DeliveryState.STARTED
    assert {e.id: e.deaths for e in box.return_all(died=True)} == {"m1": 1, "m2": 1}
    one, two, three = (box.entries[f"m{n}"] for n in (1, 2, 3))
    assert one.redelivered and not one.started_before and two.started_before
    assert two.state is DeliveryState.QUEUED and not three.redelivered


def test_leaving_is_no_death() -> None:
    """PROTOCOL-5.9, PROTOCOL-6.8: labelled, not counted, and not one at a time."""
    box = filled("a", "b")
    take_all(box)
    assert [e.deaths for e in box.return_all(died=False)] == [0, 0]
    assert take_all(box) == ["m1", "m2"]
    assert all(e.redelivered for e in box.entries.values())


def test_quarantined_ones_go_one_at_a_time() -> None:
    """PROTOCOL-6.9: the others go on; only the quarantined one in hand is counted."""
    box = filled("a", "b", "c", window=3)
    take_all(box)
    list(box.return_all(died=True))
    box.add(entry(4, "d"))
    assert take_all(box) == ["m1", "m4"]
    list(box.return_all(died=True))
    assert [box.entries[f"m{n}"].deaths for n in (1, 2, 3, 4)] == [2, 1, 1, 0]
    assert box.entries["m4"].quarantined
    (one,) = take_all(box)
    box.remove(one)
    assert len(take_all(box)) == 1


def test_what_has_ended_does_not_come_back() -> None:
    """PROTOCOL-8.3: an ack that waits for the disk survives its holder."""
    box = filled("a", "b")
    take_all(box)
    box.entries["m1"].state = DeliveryState.HANDLED
    assert [e.id for e in box.return_all(died=True)] == ["m2"]
    assert take_all(box) == ["m2"]
    box.remove("m1")
    assert list(box.entries) == ["m2"]


def test_adopting_takes_a_message_out_unsent() -> None:
    """PROTOCOL-5.10: it keeps its lane busy and is not sent."""
    box = filled("a", "a")
    box.adopt("m1")
    box.adopt("m1")
    assert take_all(box) == []
    assert [e.id for e in box.out] == ["m1"]


def test_expiry_is_for_what_waits() -> None:
    """PROTOCOL-6.10: never what is out."""
    box = Mailbox(64, MIB)
    for seq in (1, 2, 3):
        box.add(entry(seq, "a", deadline=10.0 if seq < 3 else 20.0))
    box.take_next(0)
    assert [e.id for e in box.expired(10.0)] == ["m2"]


def test_each_trip_has_its_number() -> None:
    """News of an earlier trip can be told from the present one."""
    box = filled("a")
    first = box.take_next(0)
    assert first is not None and first.generation == 1
    box.give_back("m1")
    box.give_back("m1")
    assert take_all(box) == ["m1"] and first.generation == 2


def test_empty_lanes_are_forgotten() -> None:
    """A mailbox costs nothing for chats that are over."""
    box = filled("a", "b", "a")
    take_all(box)
    box.give_back("m2")
    for id in ("m3", "m2", "m1"):
        box.remove(id)
    assert take_all(box) == []
    assert not box._lanes and not box.bytes and not len(box)


@settings(max_examples=150, deadline=None)
@given(
    lanes=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40),
    poisons=st.sets(st.integers(1, 40), max_size=2),
    window=st.integers(1, 8),
    luck=st.randoms(use_true_random=False),
)
def test_a_poison_condemns_no_innocent(
    lanes: list[str], poisons: set[int], window: int, luck: Random
) -> None:
    """PROTOCOL-6.9: a message that always kills is dead after 5 attempts, and alone."""
    box = filled(*lanes, window=window)
    dead: set[str] = set()
    bad = {f"m{n}" for n in poisons if n <= len(lanes)}
    for _ in range(2_000):
        while box.take_next(0):
            pass
        if not (out := [e.id for e in box.out]):
            break
        first = luck.choice(out)
        if first not in bad:
            box.remove(first)
            continue
        for back in box.return_all(died=True):
            if back.deaths >= 5:
                box.remove(back.id)
                dead.add(back.id)
    assert not box.entries
    assert dead == bad


class Life(RuleBasedStateMachine):
    """Any mixture of events: the rules of the mailbox hold after each."""

    LANES = "abcd"

    def __init__(self) -> None:
        super().__init__()
        self.box = Mailbox(3, 100)
        self.now = 0.0
        self.seq = 0
        self.held: dict[str, tuple[float, str]] = {}  # by lane: until when, for which message

    @rule(lane=st.sampled_from(LANES), size=st.integers(1, 60))
    def add(self, lane: str, size: int) -> None:
        self.seq += 1
        self.box.add(entry(self.seq, lane, size))

    @rule()
    def take(self) -> None:
        before = {e.lane for e in self.box.out}
        waiting = [e for e in self.box.entries.values() if not e.out]
        taken = self.box.take_next(self.now)
        if taken is not None:
            same = [e.seq for e in waiting if e.lane == taken.lane]
            assert taken.seq == min(same), "out of order"
            assert self.held.get(taken.lane, (0.0, ""))[0] <= self.now, "the lane is held"
            assert taken.lane in before or len(before) < 3, "the window is full"

    @rule(pick=st.randoms(use_true_random=False), after=st.floats(0.5, 5))
    @precondition(lambda self: self.box.out)
    def later(self, pick: Random, after: float) -> None:
        one = pick.choice(self.box.out)
        self.box.give_back(one.id, self.now + after)
        self.held[one.lane] = (self.now + after, one.id)

    @rule(pick=st.randoms(use_true_random=False))
    @precondition(lambda self: self.box.entries)
    def end(self, pick: Random) -> None:
        one = self.box.entries[pick.choice(sorted(self.box.entries))]
        self.box.remove(one.id)
        if self.held.get(one.lane, (0.0, ""))[1] == one.id:
            del self.held[one.lane]  # it waited for this one

    @rule(pick=st.randoms(use_true_random=False))
    @precondition(lambda self: self.box.entries)
    def adopt(self, pick: Random) -> None:
        self.box.adopt(pick.choice(sorted(self.box.entries)))

    @rule(pick=st.randoms(use_true_random=False))
    @precondition(lambda self: self.box.out)
    def more(self, pick: Random) -> None:
        self.box.allow_more(pick.choice(self.box.out).id)

    @rule(died=st.booleans())
    def gone(self, died: bool) -> None:
        back = list(self.box.return_all(died=died))
        assert [e.seq for e in back] == sorted(e.seq for e in back)
        assert not self.box.out

    @rule(seconds=st.floats(0.1, 10))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def nothing_starves(self) -> None:
        """Whatever happened before: if all ends well, everything goes out, in order."""
        order: dict[str, list[int]] = defaultdict(list)
        already = {e.id for e in self.box.out}  # adopted ones may be out of order
        self.now += 100
        for _ in range(10 * len(self.box.entries) + 1):
            while self.box.take_next(self.now):
                pass
            for one in sorted(self.box.out, key=lambda e: e.seq):
                if one.id not in already:
                    order[one.lane].append(one.seq)
                self.box.remove(one.id)
        assert not self.box.entries
        assert all(seqs == sorted(seqs) for seqs in order.values())
        self.held.clear()

    @invariant()
    def books_are_in_order(self) -> None:
        box = self.box
        assert box.bytes == sum(e.size for e in box.entries.values())
        assert box._out_bytes == sum(e.size for e in box.out)
        assert box._out_lanes == len({e.lane for e in box.out})
        assert all(e.out for e in box.out)
        assert len(box.out) == sum(e.out for e in box.entries.values())
        assert set(box._lanes) >= {e.lane for e in box.entries.values()}


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("lanes", [1, 10, 500])
def test_a_big_mailbox_is_emptied_in_steps(lanes: int) -> None:
    """Every message goes out once, whatever the number of lanes."""
    box = filled(*(f"l{n % lanes}" for n in range(2_000)))
    seen = 0
    while out := take_all(box):
        seen += len(out)
        for id in out:
            box.remove(id)
    assert seen == 2_000


@pytest.mark.parametrize(
    ("deaths", "redelivered", "quarantined"),
    [(0, 0, False), (0, 1, False), (0, 2, True), (1, 1, True), (1, 2, True)],
)
def test_quarantine_outlives_the_broker(deaths: int, redelivered: int, quarantined: bool) -> None:
    """PROTOCOL-6.9: also of what came back uncounted, beside another: it may be what kills."""
    row = {
        "seq": 1,
        "id": "m1",
        "lane": "a\nb",
        "size": 1,
        "accepted": 0.0,
        "type": "",
        "session": "",
    }
    row |= {
        "deaths": deaths,
        "redelivered": redelivered,
        "started_before": 0,
        "asks": 0,
        "claimed": 0,
    }
    entry = MailboxEntry.of_row(row, 0.0)
    assert (entry.quarantined, entry.redelivered) == (quarantined, redelivered > 0)


def test_what_will_go_out_is_foreseen() -> None:
    """PROTOCOL-6.15: with a message in a free lane of the window; once, and not behind others."""
    box = filled("a", window=3)
    assert not box.book("a", 10), "one waits already"
    (first,) = box.entries.values()
    take_all(box)
    assert not box.book("a", 10), "one is out"
    first.state = DeliveryState.HANDLED
    assert box.book("a", 10), "that one has ended, all but its commit"
    assert not box.book("a", 10), "the second of two that come together"
    assert box.book("b", 10)
    assert not box.book("c", 10), "beyond the window"
    box.unbook("b")
    assert box.book("c", 10)
    assert not filled("a", size=4 * MIB).book("a", 10)


def test_the_next_one_is_foreseen_once() -> None:
    """PROTOCOL-6.15: of the lane that is next in turn, else of the same lane; none of a death."""
    box = filled(*"aabb", window=1)
    one, two, three, _ = box.entries.values()
    take_all(box)
    assert box.successor(one) is three, "the turn is the other lane's"
    assert box.successor(one) is two
    assert box.successor(one) is None
    lone = filled("a", "a", "a")
    first, second, _ = lone.entries.values()
    take_all(lone)
    second.quarantined = True
    assert lone.successor(first) is None


def test_what_waits_for_the_disk_has_not_left() -> None:
    """PROTOCOL-6.2, PROTOCOL-6.8: a death beside it neither labels nor counts it."""
    box = filled("a", "b")
    take_all(box)
    one, two = box.entries.values()
    two.on_disk = True
    assert [e.id for e in box.return_all(died=True)] == ["m1"]
    assert (one.deaths, one.redelivered) == (1, True)
    assert (two.deaths, two.redelivered, two.quarantined, two.on_disk) == (0, False, False, False)
    assert sorted(take_all(box)) == ["m1", "m2"]
