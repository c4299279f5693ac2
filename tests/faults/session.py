"""
A session of the fault tests: `session.py NAME RECORD` holds NAME, or NAME with a suffix.

Appends a line to RECORD for the name that it got, and for each message when its handler is called.
A text `stay` keeps its handler until this process ends; its input closes when it shall.
"""

import json
import os
import sys
import threading

from wakebus.broker import Client, Delivery


def main(name: str, path: str) -> None:
    """Hold the name until the input closes."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    end = threading.Event()

    def record(**fields: object) -> None:
        os.write(file, json.dumps({"pid": os.getpid(), **fields}).encode() + b"\n")

    def handle(delivery: Delivery) -> None:
        message = delivery.message
        record(name=delivery.name, id=message.id, redelivered=delivery.redelivered)
        if message.text == "stay":
            delivery.started()
            end.wait()

    with Client(timeout=60) as client:
        client.register(name, handle, suffix=True, on_lost=lambda why: os._exit(9))
        record(got=client.names[name])
        sys.stdin.read()
        end.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
