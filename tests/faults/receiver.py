"""
A receiver of the fault tests: `receiver.py NAME RECORD SEED [MS [LONG_MS]]` until its input closes.

Appends a line to RECORD when a handler is called and when it ends; each line is in the file before
the next step, so that a SIGKILL takes none away. A text tells the handler what to do:

    poison          SIGKILL this process
    started poison  say `started`, then SIGKILL this process
    anything else   work for 0 to MS, one in ten for LONG_MS; one in ten answers `later` at first
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

from wakebus.broker import Client, Delivery, Later, Outcome

LATER = LONG = 0.1


def recorder(path: str) -> Callable[..., None]:
    """Return a function that appends its fields as one line, in one write."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def record(what: str, delivery: Delivery, **fields: object) -> None:
        message = delivery.message
        line = {
            "what": what,
            "t": time.monotonic(),
            "pid": os.getpid(),
            "id": message.id,
            "lane": [message.sender, message.session or ""],
            "number": message.body.get("number"),
            "attempt": delivery.attempt,
            "redelivered": delivery.redelivered,
            "started_before": delivery.started_before,
            **fields,
        }
        os.write(file, json.dumps(line).encode() + b"\n")

    return record


def wait_for_the_end(stop: threading.Event) -> None:
    """Set `stop` when this program's input closes."""
    sys.stdin.read()
    stop.set()


def main(name: str, path: str, seed: str, ms: str = "600", long_ms: str = "0") -> None:
    record, chance = recorder(path), random.Random(int(seed))
    put_off: set[str] = set()
    stop = threading.Event()
    threading.Thread(target=wait_for_the_end, args=(stop,), daemon=True).start()

    def handle(delivery: Delivery) -> Outcome:
        text, id = delivery.message.text, delivery.message.id
        record("called", delivery)
        if text.startswith("started"):
            delivery.started()
        if text.endswith("poison"):
            os.kill(os.getpid(), signal.SIGKILL)
        long = float(long_ms) and chance.random() < LONG
        time.sleep(float(long_ms) / 1000 if long else chance.uniform(0, float(ms) / 1000))
        if id not in put_off and chance.random() < LATER:
            put_off.add(id)
            record("later", delivery)
            return Later(chance.uniform(0, 0.5))
        record("handled", delivery)
        return {"by": name}

    with Client(timeout=60) as client:
        client.register(name, handle, on_lost=lambda why: os._exit(9))
        stop.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
