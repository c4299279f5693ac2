"""
A sender of the kill test: `sender.py NAME RECEIPTS SEED RECEIVER...` until its input closes.

It sends to every receiver in five sessions, numbered within each lane, and appends a line to
RECEIPTS for each receipt. What is undecided is sent again with its id until it is settled; what
was not accepted is sent again too, so that the numbers of a lane have no gaps.
"""

import json
import random
import sys
import threading
import time
from pathlib import Path

from wakebus.broker.client.client import Client
from wakebus.broker.errors import NotNow, NotRunning, Undecided
from wakebus.broker.protocol.message import new_id

SESSIONS = ("", "s1", "s2", "s3", "s4")


class Sender:
    """Counts what it met on the way."""

    def __init__(self, client: Client, name: str) -> None:
        self.client, self.name = client, name
        self.unknown = self.unsent = 0

    def send(self, to: str, session: str, number: int, timeout: float) -> str:
        """Send one message until there is a receipt; return its id."""
        id = new_id(time.time())
        while True:
            try:
                self.client.send(
                    to,
                    {"text": str(number), "number": number},
                    sender=self.name,
                    session=session or None,
                    id=id,
                    timeout=timeout,
                )
                return id
            except Undecided as exc:
                assert exc.id == id
                self.unknown += 1
            except (NotRunning, NotNow):
                self.unsent += 1
                time.sleep(0.02)
            timeout = 5.0


def wait_for_the_end(stop: threading.Event) -> None:
    """Set `stop` when this program's input closes."""
    sys.stdin.read()
    stop.set()


def main(name: str, receipts: str, seed: str, *receivers: str) -> None:
    stop = threading.Event()
    threading.Thread(target=wait_for_the_end, args=(stop,), daemon=True).start()
    chance = random.Random(int(seed))
    numbers = {(to, session): 0 for to in receivers for session in SESSIONS}
    with Path(receipts).open("w", buffering=1) as lines, Client() as client:
        sender = Sender(client, name)
        while not stop.is_set():
            lane = chance.choice(list(numbers))
            # Some callers have no patience: theirs become unknown, and must be settled.
            timeout = chance.uniform(0.001, 0.02) if chance.random() < 0.2 else 5.0
            id = sender.send(*lane, numbers[lane], timeout)
            record = {"id": id, "to": lane[0], "session": lane[1], "number": numbers[lane]}
            lines.write(json.dumps(record) + "\n")
            numbers[lane] += 1
            stop.wait(chance.uniform(0, 0.05))
        counts = {"unknown": sender.unknown, "unsent": sender.unsent}
        lines.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
