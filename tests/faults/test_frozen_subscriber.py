"""
A subscriber that is SIGSTOPped slows nobody, costs bounded memory, and counts its gap exactly
(EVENTS.md).
"""

from functools import partial
from pathlib import Path

import psutil

from fakes.broker import Broker, until
from fakes.program import Program, frozen, lines
from wakebus.broker import Client, Event

EVENTS = 20_000
BODY = {"x": "x" * 4_000}  # 80 MB in all
# 2,000 events of 4 KB wait in the broker for each of two subscribers, and what malloc makes of it.
BOUND = 48 << 20
AHEAD = 500  # what the publisher is ahead of the subscriber that lives


def reached(numbers: list[int], length: int) -> bool:
    """Whether so many have come."""
    return len(numbers) >= length


def test_a_frozen_subscriber_slows_nobody_and_tells_its_gap_exactly(
    broker: Broker, record: Path
) -> None:
    """EVENTS-4.1, 5.1: the other one gets every event; the broker stays small; the sum is exact."""
    script = Path(__file__).with_name("subscriber.py")
    stopped = Program(broker, script, "load.x", record)
    awake: list[int] = []
    until(lambda: lines(record), 30)
    with Client(timeout=60) as publisher, Client(timeout=60) as other:
        subscription = other.subscribe("load.x", lambda event: awake.append(event.n))
        process = psutil.Process(broker.pid)
        publisher.publish("load.x", BODY)
        until(lambda: len(lines(record)) > 1)
        before = process.memory_info().rss
        with frozen(stopped.pid):
            for number in range(2, EVENTS + 1):
                publisher.publish("load.x", BODY)
                if number % AHEAD == 0:
                    until(partial(reached, awake, number - AHEAD), 60)
            until(lambda: len(awake) == EVENTS, 60)
            grown = process.memory_info().rss - before
            answered = publisher.status()["pid"]
        print(f"\n{EVENTS} events of 4 KB, one subscriber frozen: {grown >> 20} MiB more")
        assert publisher.dropped == 0 and subscription.missed == 0
        assert awake == list(range(1, EVENTS + 1))
        assert answered == broker.pid and grown < BOUND
        published = EVENTS

        def told() -> bool:
            nonlocal published
            publisher.publish("load.x")
            published += 1
            return bool(lines(record)[-1]["n"] > EVENTS)

        until(told, 60)
        last = lines(record)[-1]
        assert last["missed"] > 0
        # The first one counts from the first event that it got, which was number 1.
        assert last["received"] + last["missed"] == last["n"]
        until(lambda: publisher.status()["events"]["missed"] == last["missed"], 30)
    assert stopped.finish() == 0


def test_a_frozen_broker_holds_up_no_publisher(broker: Broker) -> None:
    """Publishing goes on without waiting; what does not fit is dropped and counted."""
    got: list[Event] = []
    with Client(timeout=60) as publisher, Client(timeout=60) as other:
        subscription = other.subscribe("load.y", got.append)
        publisher.publish("load.y")
        until(lambda: got)
        with frozen(broker.pid):
            published = 1
            while not publisher.dropped:
                publisher.publish("load.y", BODY)
                published += 1
                assert published < 60_000

        def through() -> bool:
            # Dropped here, or by a full pipe once the broker moved: in the gap it is all the same,
            # and the gap shows with the first event behind it.
            publisher.publish("load.y")
            return got[-1].n > published and other.missed >= publisher.dropped >= 1

        until(through, 60)
    assert subscription.received + subscription.missed == got[-1].n
