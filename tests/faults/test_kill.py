"""
The kill test: what a receipt is worth when the broker is killed fifty times under load.

Four sender processes (sender.py) and three receiver processes (receiver.py) work while the broker
is SIGKILLed fifty times and started again after 0 to 150 ms (which takes some 300 ms), and while
receivers are SIGSTOPped for 3 s. Handlers take 0 to 600 ms; one in ten takes 1.2 s, longer than an
outage and the way back to the broker; one in ten answers `later`. It proves:

    * what has a receipt is handled, and nothing else is;
    * no living receiver handles a message twice, nor two of one lane at a time;
    * each lane keeps its order, and a message that was put off keeps its place;
    * a send whose fate was unknown is settled by sending it again: one message, no conflict.

`pytest -s` prints the figures.
"""

import random
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fakes.broker import Broker, until
from fakes.program import Program, frozen, lines
from wakebus.broker import Client

HERE = Path(__file__).parent
KILLS = 50
SENDERS = ("sender-0", "sender-1", "sender-2", "sender-3")
RECEIVERS = ("receiver-0", "receiver-1", "receiver-2")

Record = dict[str, Any]


class Story(NamedTuple):
    """What happened: receipts of the senders, calls of the handlers, and the broker's word."""

    receipts: list[Record]
    calls: dict[str, list[Record]]  # by receiver
    outages: list[tuple[float, float]]  # from a kill until a new broker was ready, monotonic
    states: Counter[str]
    unknown: int
    unsent: int
    log: str


@pytest.fixture
def story() -> Iterator[Story]:
    """The kill test itself, played once."""
    # A folder with a short path: pytest's own is too long for a socket's.
    broker = Broker(Path(tempfile.mkdtemp(prefix="wb")), stale_s=10).start()
    programs: list[Program] = []
    try:
        yield _play(broker, programs)
    finally:
        for program in programs:
            program.close()
        broker.kill()
        shutil.rmtree(broker.root)


def _play(broker: Broker, programs: list[Program]) -> Story:
    chance = random.Random(7)
    records = {name: broker.root / name for name in (*RECEIVERS, *SENDERS)}
    receivers = [
        Program(broker, HERE / "receiver.py", name, records[name], i, 600, 1200)
        for i, name in enumerate(RECEIVERS)
    ]
    programs += receivers
    with Client(broker.address, timeout=30) as client:
        until(lambda: len(client.list()) == len(RECEIVERS))
        senders = [
            Program(broker, HERE / "sender.py", name, records[name], i, *RECEIVERS)
            for i, name in enumerate(SENDERS)
        ]
        programs += senders
        stop = threading.Event()
        freezer = threading.Thread(target=_freeze_now_and_then, args=(receivers, chance, stop))
        freezer.start()
        outages = [_kill_once(broker, chance) for _ in range(KILLS)]
        stop.set()
        freezer.join()
        assert [sender.finish() for sender in senders] == [0] * len(SENDERS)
        until(lambda: not _waiting(client), timeout=60)
        receipts = [line for name in SENDERS for line in lines(records[name])]
        counts = [
            receipts.pop(i) for i in reversed(range(len(receipts))) if "id" not in receipts[i]
        ]
        states = Counter(client.wait(line["id"], 0).state for line in receipts)
    assert [receiver.finish() for receiver in receivers] == [0] * len(RECEIVERS)
    return Story(
        receipts,
        {name: lines(records[name]) for name in RECEIVERS},
        outages,
        states,
        sum(line["unknown"] for line in counts),
        sum(line["unsent"] for line in counts),
        broker.log,
    )


def _kill_once(broker: Broker, chance: random.Random) -> tuple[float, float]:
    time.sleep(chance.uniform(0.15, 0.6))
    killed = time.monotonic()
    broker.kill()
    time.sleep(chance.uniform(0, 0.15))
    assert broker.start().word == "ready"
    return killed, time.monotonic()


def _freeze_now_and_then(
    receivers: list[Program], chance: random.Random, stop: threading.Event
) -> None:
    while not stop.wait(chance.uniform(1, 3)):
        with frozen(chance.choice(receivers).pid):
            stop.wait(3)


def _waiting(client: Client) -> int:
    return sum(int(one["queued"]) + int(one["in_hand"]) for one in client.list())


def _lanes(calls: list[Record]) -> dict[tuple[str, ...], list[Record]]:
    lanes: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for line in calls:
        lanes[tuple(line["lane"])].append(line)
    return lanes


def check_what_has_a_receipt_is_handled(story: Story) -> None:
    """Every message with a receipt was handled, by the handlers' word and by the broker's."""
    handled = [
        line["id"] for calls in story.calls.values() for line in calls if line["what"] == "handled"
    ]
    calls = [line for calls in story.calls.values() for line in calls if line["what"] == "called"]
    print(
        f"\n{len(story.receipts)} messages, {KILLS} kills, {story.unknown} unknown sends settled,"
        f" {story.unsent} not accepted at first, {len(calls)} calls,"
        f" {len(calls) - len(handled)} put off, {_outlived(story)} calls outlived an outage,"
        f" {sum(c['redelivered'] for c in calls)} redelivered"
    )
    assert Counter(handled) == Counter(line["id"] for line in story.receipts)
    assert story.states == {"handled": len(story.receipts)}


def _outlived(story: Story) -> int:
    """Return how many calls began before a kill and ended half a second after the return."""
    spans = [
        (called["t"], ended["t"])
        for calls in story.calls.values()
        for lane in _lanes(calls).values()
        for called, ended in pairwise(lane)
        if called["what"] == "called"
    ]
    return sum(
        any(begun < killed and ended > back + 0.5 for killed, back in story.outages)
        for begun, ended in spans
    )


def check_the_load_was_one(story: Story) -> None:
    """Hundreds of messages, unknown sends, messages put off, calls over an outage: it tests."""
    later = [line for calls in story.calls.values() for line in calls if line["what"] == "later"]
    assert len(story.receipts) > 300
    assert story.unknown > 0
    assert len(later) > 20
    assert _outlived(story) > 10


def check_no_living_receiver_handles_a_message_twice(story: Story) -> None:
    """A message is called once, and once more for each time that its handler put it off."""
    for calls in story.calls.values():
        called = Counter(line["id"] for line in calls if line["what"] == "called")
        ended = Counter(line["id"] for line in calls if line["what"] != "called")
        handled = Counter(line["id"] for line in calls if line["what"] == "handled")
        assert called == ended
        assert set(handled.values()) == {1}


def check_nobody_died_so_no_attempt_is_counted(story: Story) -> None:
    """The receivers lived: every call is the first attempt, whatever the broker went through."""
    attempts = {line["attempt"] for calls in story.calls.values() for line in calls}
    assert attempts == {1}


def check_each_lane_keeps_its_order(story: Story) -> None:
    """In a lane one handler runs at a time, and the numbers come in the order of their sending."""
    for calls in story.calls.values():
        for lane in _lanes(calls).values():
            assert [line["what"] == "called" for line in lane] == [True, False] * (len(lane) // 2)
            handled = [line["number"] for line in lane if line["what"] == "handled"]
            assert handled == list(range(len(handled)))


def check_a_message_put_off_keeps_its_place(story: Story) -> None:
    """After `later` the next call in that lane is the same message's, no other one's."""
    for calls in story.calls.values():
        for lane in _lanes(calls).values():
            for before, after in pairwise(lane):
                if before["what"] == "later":
                    assert after["id"] == before["id"]


def check_the_broker_met_no_fault(story: Story) -> None:
    """Its log tells of no failed request and no refused write."""
    assert "ERROR" not in story.log
    assert "CRITICAL" not in story.log


@pytest.mark.timeout(240)
def test_fifty_kills_lose_nothing_and_double_nothing(story: Story) -> None:
    """One test, so that it is played once: its parts are the functions above."""
    for check in (
        check_what_has_a_receipt_is_handled,
        check_the_load_was_one,
        check_no_living_receiver_handles_a_message_twice,
        check_nobody_died_so_no_attempt_is_counted,
        check_each_lane_keeps_its_order,
        check_a_message_put_off_keeps_its_place,
        check_the_broker_met_no_fault,
    ):
        check(story)
