"""
A subscriber of the fault tests: `subscriber.py TOPIC RECORD` until its input closes.

It appends a line to RECORD for every thousandth event and, while few come, for each.
"""

import json
import sys
import time
from pathlib import Path

from wakebus.broker import Client, Event


def main(topic: str, record: str) -> None:
    with Path(record).open("a", buffering=1) as lines, Client(timeout=60) as client:
        last = 0.0

        def handle(event: Event) -> None:
            nonlocal last
            if subscription.received % 1000 == 0 or time.monotonic() - last > 0.02:
                last = time.monotonic()
                counts = {"received": subscription.received, "missed": subscription.missed}
                lines.write(json.dumps({**counts, "n": event.n}) + "\n")

        subscription = client.subscribe(topic, handle)
        lines.write('{"ready": true}\n')
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
