"""
A receiver that is SIGSTOPped slows nobody and costs bounded memory (PROTOCOL.md sections 4 and 7).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from fakes.broker import Broker, until
from fakes.program import Program, frozen, lines
from wakebus.broker import Client, Delivery, Outcome
from wakebus.broker.errors import MailboxFull

MAILBOX = 3_000
BODY = "x" * (16 << 10)
# What 3,000 messages may cost: their places in the queue, not their 48 MB of bodies.
BOUND = 24 << 20


def test_a_frozen_receiver_slows_nobody_and_costs_bounded_memory(
    make_broker: Callable[..., Broker], record: Path
) -> None:
    """Its mailbox fills to the limit, then refuses; bodies lie on disk; others are served."""
    broker = make_broker(mailbox_messages=MAILBOX)
    script = Path(__file__).with_name("receiver.py")
    stopped = Program(broker, script, "stopped", record, 1, 0)
    served: list[str] = []

    def handle(delivery: Delivery) -> Outcome:
        served.append(delivery.message.id)
        return None

    with Client(timeout=30) as client, Client() as receiver:
        receiver.register("awake", handle)
        until(lambda: any(one["name"] == "stopped" for one in client.list()))
        process = psutil.Process(broker.pid)
        before = process.memory_info().rss
        with frozen(stopped.pid), ThreadPoolExecutor(16) as pool:

            def flood(number: int) -> str:
                try:
                    return client.send("stopped", BODY, session=f"s{number % 300}").state
                except MailboxFull:
                    return "full"

            states = list(pool.map(flood, range(MAILBOX + 50)))
            grown = process.memory_info().rss - before
            answered = [client.send("awake", "hello", wait=30).state for _ in range(50)]
            queued = next(one for one in client.list() if one["name"] == "stopped")
        print(f"\n{MAILBOX} messages of 16 KiB for a frozen receiver: {grown >> 10} KiB more")
        assert states.count("queued") == MAILBOX
        assert states.count("full") == 50
        assert queued["queued"] + queued["in_hand"] == MAILBOX
        assert answered == ["handled"] * 50
        assert grown < BOUND
        # And once it moves again, it gets on with its work.
        until(lambda: len(lines(record)) > 200, timeout=60)
    stopped.close()
