"""What a peer does not take waits for it, in order and bounded."""

from collections.abc import Callable

import pytest
import zmq

from wakebus.broker.server.send_queues import MAX_BYTES, MAX_FRAMES, MAX_PAUSE_S, SendQueues

CONN = b"c"


class Pipe:
    """One peer: takes `room` frames; nobody is there when `gone`."""

    def __init__(self) -> None:
        self.room, self.gone = 0, False
        self.taken: list[bytes] = []
        self.tries = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.told: list[bytes] = []
        self.closed: list[bytes] = []
        self.queues = SendQueues(
            self.send, lambda *timer: self.timers.append(timer), self.told.append, self.close
        )

    def send(self, conn: bytes, frame: bytes) -> None:
        """As the socket does it."""
        self.tries += 1
        if self.gone:
            raise zmq.ZMQError(zmq.EHOSTUNREACH)
        if not self.room:
            raise zmq.Again
        self.room -= 1
        self.taken.append(frame)

    def close(self, conn: bytes) -> None:
        """What follows from it comes later."""
        self.closed.append(conn)

    def tick(self) -> float:
        """Run the timer that is set; return how long it waited."""
        ((pause, act),) = self.timers
        self.timers.clear()
        act()
        return pause

    def push(self, *frames: bytes) -> list[bool]:
        """Send them all."""
        return [self.queues.push_frame(CONN, frame) for frame in frames]


@pytest.fixture
def pipe() -> Pipe:
    """A peer that takes nothing yet."""
    return Pipe()


def test_a_pipe_with_room_takes_it_at_once(pipe: Pipe) -> None:
    """PROTOCOL-3.4: and nothing is left to do."""
    pipe.room = 2
    assert pipe.push(b"1", b"2") == [True, True]
    assert pipe.taken == [b"1", b"2"] and not pipe.timers and not len(pipe.queues)


def test_what_is_not_taken_waits_and_nothing_overtakes_it(pipe: Pipe) -> None:
    """PROTOCOL-3.4: in order, whatever room there is meanwhile."""
    pipe.room = 1
    assert pipe.push(b"1", b"2", b"3") == [True] * 3
    pipe.room = 9
    assert pipe.push(b"4") == [True] and pipe.taken == [b"1"]
    pipe.tick()
    assert pipe.taken == [b"1", b"2", b"3", b"4"]
    assert pipe.told == [CONN] and not pipe.timers and not len(pipe.queues)


def test_a_frozen_peer_is_looked_at_less_and_less(pipe: Pipe) -> None:
    """PROTOCOL-3.3: four times a second; each time one try, whatever waits."""
    pipe.push(*[b"x"] * 1_000)
    pauses = [pipe.tick() for _ in range(20)]
    assert pauses == sorted(pauses) and pauses[0] < 0.002 and pauses[-1] == MAX_PAUSE_S
    assert pipe.tries == 21
    pipe.room = 10
    pipe.tick()
    assert pipe.timers[0][0] == pauses[0], "it reads again"


def test_what_can_wait_elsewhere_is_not_queued_behind_others(pipe: Pipe) -> None:
    """PROTOCOL-7.5: one delivery waits for the pipe's room, the next ones in their mailbox."""
    offer = pipe.queues.offer_frame
    assert [offer(CONN, b"1"), offer(CONN, b"2")] == [True, False]
    pipe.room = 9
    pipe.tick()
    assert pipe.taken == [b"1"] and pipe.told == [CONN]
    assert offer(CONN, b"2")


def test_who_is_gone_leaves_nothing_behind(pipe: Pipe) -> None:
    """PROTOCOL-3.4: neither frames nor timers."""
    pipe.push(b"1")
    pipe.gone = True
    pipe.tick()
    assert not len(pipe.queues) and not pipe.timers and pipe.told == []
    assert pipe.push(b"2") == [False]


@pytest.mark.parametrize(
    ("frame", "most"),
    [pytest.param(b"x", MAX_FRAMES, id="frames"), (b"x" * (1 << 20), MAX_BYTES >> 20)],
)
def test_who_leaves_too_much_unread_is_closed(
    pipe: Pipe, frame: bytes, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    """PROTOCOL-3.4: told once, and what waited is let go."""
    assert all(pipe.push(*[frame] * most)) and not pipe.closed
    pipe.push(frame)
    assert pipe.closed == [CONN] and "its connection is closed" in caplog.text
    assert pipe.push(frame, frame) == [False, False] and pipe.closed == [CONN]
    pipe.gone = True
    pipe.tick()
    assert not len(pipe.queues) and not pipe.timers


def test_one_that_could_not_be_closed_is_served_again_when_it_reads(pipe: Pipe) -> None:
    """PROTOCOL-3.4: without what was let go."""
    pipe.push(b"first", *[b"x" * (1 << 20)] * 17)
    assert pipe.closed == [CONN]
    pipe.room = 9
    pipe.tick()
    assert pipe.taken == [b"first"] and pipe.push(b"next") == [True]
    assert pipe.taken == [b"first", b"next"]
