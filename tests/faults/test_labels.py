"""
A delivery that comes again says so, wherever the broker, its receiver or both are killed.

The receivers are processes (puppet.py) that stop at each step of a delivery; what they did is on
disk before they go on. A disk that takes nothing is one whose write lock another process has.
"""

import os
import random
import secrets
import signal
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.faulty import FaultyBroker
from fakes.peer import MakePeer, posting, reference
from fakes.program import Program, Run, lines
from wakebus.broker import Client, Delivery, Outcome, WakebusError

PUPPET = Path(__file__).with_name("puppet.py")
FULL = "the disk is full"
STEPS = {
    "the frame": ["take"],
    "got is said": ["take", FULL, "say got"],
    "got is stored": ["take", "ask got"],
    "the handler, nothing is stored": ["take", FULL, "say got", "effect"],
    "the handler": ["take", "ask got", "effect"],
    "started": ["take", "ask got", "ask started", "effect"],
    "handled is said": ["take", "ask got", "effect", FULL, "say handled"],
    "handled is said, nothing is stored": ["take", FULL, "say got", "effect", "say handled"],
}
Line = dict[str, Any]


class Stage:
    """A broker, and one receiver after another."""

    def __init__(self, broker: Broker, run: Run, record: Path) -> None:
        self.broker, self._run, self._record = broker, run, record
        self.receiver: Program | None = None
        self._seen = 0

    def begin(self) -> Program:
        """Start another receiver; return it when it has the name."""
        self.receiver = self._run(PUPPET.name, self.broker.address, "e", self._record)
        self._next("up")
        return self.receiver

    def do(self, step: str) -> Line:
        """Have the receiver take one step; return what it recorded."""
        assert self.receiver is not None and self.receiver.process.stdin is not None
        self.receiver.process.stdin.write(f"{step}\n".encode())
        self.receiver.process.stdin.flush()
        return self._next(step.split()[0])

    def _next(self, what: str) -> Line:
        line: Line = until(lambda: lines(self._record)[self._seen :], 60)[0]
        self._seen += 1
        assert line["what"] == what
        return line

    def kill_receiver(self) -> None:
        """SIGKILL."""
        assert self.receiver is not None
        self.receiver.process.kill()
        self.receiver.process.wait()


@pytest.fixture
def stage(broker: Broker, run: Run, record: Path) -> Stage:
    """A broker of the test's own, and nobody yet."""
    return Stage(broker, run, record)


@contextmanager
def full_disk(folder: Path) -> Iterator[Callable[[], object]]:
    """Inside, once it is called, nothing can be stored."""
    with closing(sqlite3.connect(folder / "bus.db", isolation_level=None, timeout=10)) as lock:
        yield lambda: lock.execute("BEGIN IMMEDIATE")
        if lock.in_transaction:
            lock.execute("ROLLBACK")


def end(stage: Stage, victims: str) -> None:
    """Kill who is to be killed, the receiver last: what it said was read."""
    if "broker" in victims:
        stage.broker.kill()
    elif "stop" in victims:
        assert stage.broker.stop() == 0
    if "receiver" in victims:
        stage.kill_receiver()


def begin_again(stage: Stage, peers: MakePeer) -> Line:
    """Start the broker if it has ended, then another receiver; return what that takes first."""
    if not stage.broker.alive:
        stage.broker.start()
    sender = peers(stage.broker)
    until(lambda: sender.ask("list")["endpoints"][0]["state"] == "away")
    stage.begin()
    return stage.do("take")


@pytest.mark.parametrize("victims", ["receiver", "broker, receiver", "stop, receiver"])
@pytest.mark.parametrize("step", STEPS)
def test_what_was_with_a_receiver_comes_again_labelled(
    stage: Stage, peers: MakePeer, step: str, victims: str
) -> None:
    """PROTOCOL-6.2, PROTOCOL-6.15: at each step; what was behind it in its lane never left."""
    sender = peers(stage.broker)
    stage.begin()
    first, second = (sender.send("e", text)["id"] for text in ("1", "2"))
    with full_disk(stage.broker.folder) as fill:
        for word in STEPS[step]:
            fill() if word == FULL else stage.do(word)
        end(stage, victims)
    again = begin_again(stage, peers)
    if again["id"] == first:
        assert (again["redelivered"], again["attempt"]) == (True, 2)
        assert again["started"] is (step == "started")
        stage.do("ask handled")
        again = stage.do("take")
    else:  # its end was stored all the same
        assert step.startswith("handled is said") and victims == "receiver"
    assert again["id"] == second
    assert (again["redelivered"], again["attempt"], again["started"]) == (False, 1, False)


@pytest.mark.parametrize("victims", ["receiver", "broker, receiver", "stop, receiver"])
def test_what_lies_unread_at_a_frozen_receiver(stage: Stage, peers: MakePeer, victims: str) -> None:
    """PROTOCOL-6.2: it may have had it, for all that the broker can know."""
    os.kill(stage.begin().pid, signal.SIGSTOP)
    sender = peers(stage.broker)
    id = sender.send("e")["id"]
    until(lambda: sender.ask("inbox", name="e")["messages"][0]["state"] == "held")
    end(stage, victims)
    again = begin_again(stage, peers)
    assert (again["id"], again["redelivered"], again["attempt"]) == (id, True, 2)


def test_a_broker_that_is_killed_before_the_frame_leaves(
    bus_root: Path, record: Path, peers: MakePeer
) -> None:
    """PROTOCOL-6.2: the receiver was there, and had nothing."""
    broker = FaultyBroker(bus_root, stale_s=60)
    broker.start()
    peers(broker).send("e", queue=True)
    broker.fault(stall="")
    receiver = Program(broker, PUPPET, broker.address, "e", record)
    until(broker.stalled)
    broker.kill()
    receiver.close()
    assert lines(record) == []
    broker.mend("stall")
    broker.start()
    peer = peers(broker)
    peer.register("e")
    first = peer.take()
    assert (first["redelivered"], first["attempt"]) == (False, 1)
    broker.kill()


def test_nothing_leaves_that_would_not_be_labelled(stage: Stage, peers: MakePeer) -> None:
    """PROTOCOL-6.15, PROTOCOL-8.3: while the disk takes nothing, what waits for it waits here."""
    peer, sender = peers(stage.broker), peers(stage.broker)
    peer.register("e")
    for text in ("1", "2"):
        sender.send("e", text)
    delivery = peer.take()
    with full_disk(stage.broker.folder) as fill:
        fill()
        peer.request("got", {**reference(delivery), "more": True})
        assert peer.silence() == []
        stage.broker.kill()
    stage.broker.start()
    last = peers(stage.broker)
    last.register("e", takeover=True)
    assert [last.take()["redelivered"]] == [True]
    last.request("got", {**reference(delivery), "epoch": 2, "more": True})
    assert last.take()["redelivered"] is False


@pytest.mark.parametrize("victims", ["broker, receiver", "stop, receiver"])
def test_what_is_beyond_the_window_is_not_labelled(
    stage: Stage, peers: MakePeer, victims: str
) -> None:
    """PROTOCOL-6.2, PROTOCOL-7.3: of a hundred lanes 64 are out; the others never left."""
    sender = peers(stage.broker)
    stage.begin()
    ids = [sender.send("e", session=str(n))["id"] for n in range(100)]
    with full_disk(stage.broker.folder) as fill:
        had = {stage.do("take")["id"] for _ in range(64)}
        fill()
        end(stage, victims)
    stage.broker.start()
    stage.begin()
    labels = {}
    for _ in ids:
        line = stage.do("take")
        labels[line["id"]] = (line["redelivered"], line["attempt"])
        stage.do("ask handled")
    assert labels == {id: (True, 2) if id in had else (False, 1) for id in ids}


def test_what_waits_for_nobody_is_not_labelled(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.2: also after a kill, for a name that was held before."""
    peer = peers(broker)
    peer.register("e")
    peer.ask("unregister", name="e")
    for n in range(3):
        peer.send("e", session=str(n))
    broker.restart()
    again = peers(broker)
    again.register("e")
    found = [again.take() for _ in range(3)]
    assert [(d["redelivered"], d["attempt"]) for d in found] == [(False, 1)] * 3


def test_a_holder_that_outlives_the_broker_says_what_it_has(
    broker: Broker, peers: MakePeer
) -> None:
    """PROTOCOL-5.10, PROTOCOL-6.2: what it lists stays with it; what it lacks never arrived."""
    peer = peers(broker, "a" * 16)
    peer.register("e")
    ids = [peer.send("e", sender="e", session=str(n))["id"] for n in range(2)]
    taken = [peer.take() for _ in ids]
    broker.restart()
    again = peers(broker, "a" * 16)
    again.hello()
    again.ask("register", name="e", holding=[{"id": ids[0]}])
    back = again.take()
    assert (back["message"]["id"], back["attempt"], back["redelivered"]) == (ids[1], 1, False)
    again.say("handled", taken[0])
    assert again.silence() == []


def test_what_was_said_to_be_held_and_is_held_no_more(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-5.10, PROTOCOL-6.2: `got` was said of it, so it is labelled, also after a kill."""
    peer = peers(broker, "a" * 16)
    peer.register("e")
    peer.send("e", sender="e")
    peer.say("got", peer.take())
    broker.restart()
    again = peers(broker, "a" * 16)
    again.register("e")
    assert again.take()["redelivered"] is True
    broker.restart()
    last = peers(broker, "a" * 16)
    last.register("e")
    assert last.take()["redelivered"] is True


def test_what_ended_while_its_name_was_given_up_and_the_broker_was_away(broker: Broker) -> None:
    """PROTOCOL-5.10: the client says what it finished when it registers again: not called twice."""
    calls: list[str] = []
    go, done = threading.Event(), threading.Event()

    def handle(delivery: Delivery) -> Outcome:
        calls.append(delivery.message.id)
        go.wait(60)
        done.set()
        return {}

    with Client(timeout=5) as client:
        client.register("e", handle)
        id = client.send("e", "work").id
        until(lambda: calls)
        broker.kill()
        with pytest.raises(WakebusError):
            client.unregister("e")
        go.set()
        done.wait(60)
        broker.start()
        client.register("e", handle)
        assert client.wait(id, 30).state == "handled"
    assert calls == [id]


AGAIN, ROUNDS = 12, 40


def _called_again(records: list[Path]) -> list[list[Line]]:
    """Return the stories of what was called once more, though it had not been put off."""
    stories: dict[str, list[Line]] = defaultdict(list)
    for line in (line for record in records for line in lines(record)):
        stories[line["id"]].append(line)
    return [
        story[: n + 2]
        for story in stories.values()
        for n, (before, line) in enumerate(pairwise(story))
        if line["what"] == "called" and before["what"] != "later"
    ]


def test_every_second_call_is_labelled(broker: Broker, run: Run, bus_root: Path) -> None:
    """PROTOCOL-6.2: the broker and both receivers are killed at any moment, under load."""
    chance = random.Random(11)
    records = {name: bus_root / name for name in ("one", "two")}
    with Client() as client:
        for name in records:
            client.declare(name)
    run("sender.py", "s", bus_root / "receipts", 1, *records)
    for number in range(ROUNDS):
        before = {name: len(lines(record)) for name, record in records.items()}
        receivers = [run("receiver.py", name, records[name], number, 100) for name in records]
        for name in records:
            _wait_for_lines(records[name], before[name] + 3)
        time.sleep(chance.uniform(0, 0.1))
        victims = [broker.pid, *(one.pid for one in receivers)]
        for pid in chance.sample(victims, len(victims)):
            os.kill(pid, signal.SIGKILL)
        for one in receivers:
            one.process.wait()
        broker.restart()
        again = _called_again([*records.values()])
        assert [story for story in again if not story[-1]["redelivered"]] == []
        if len(again) >= AGAIN:
            return
    raise AssertionError(f"{ROUNDS} rounds hit {len(again)} deliveries")


def _wait_for_lines(path: Path, count: int) -> None:
    until(lambda: len(lines(path)) >= count)


def test_what_its_holder_left_before_it_could_leave(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.15: it was stored as leaving, and did not: an orderly end takes that back."""
    sender = peers(broker)
    had: dict[str, bool] = {}
    for number in range(20):
        holder = peers(broker)
        holder.register(f"e{number}")
        for _ in range(5):
            id = secrets.token_hex(8)
            had[id] = False
            sender.request("send", posting(f"e{number}", id=id, session=id, queue=True))
        holder.ask("unregister", name=f"e{number}")
        holder.silence()
        had |= {word["message"]["id"]: True for verb, word in holder.said if verb == "deliver"}
    sender.ask("list")
    for _ in range(2):  # what may have left is still labelled after a second one
        assert broker.stop() == 0
        broker.start()
    labels: dict[str, bool] = {}
    for number in range(20):
        holder = peers(broker)
        holder.register(f"e{number}")
        for _ in range(5):
            delivery = holder.take()
            labels[delivery["message"]["id"]] = delivery["redelivered"]
    assert labels == had


def test_what_is_with_a_holder_at_an_orderly_end(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-6.15: it has left, though nothing was said of it: that is not taken back."""
    peer = peers(broker)
    peer.register("e")
    ids = [peer.send("e", sender="e", session=str(n))["id"] for n in range(2)]
    assert [peer.take()["message"]["id"] for _ in ids] == ids
    assert broker.stop() == 0
    broker.start()
    other = peers(broker)
    other.hello()
    other.ask("register", name="e", takeover=True)
    assert [other.take()["redelivered"] for _ in ids] == [True, True]
