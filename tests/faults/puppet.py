"""
A receiver of the fault tests that does what its input says: `puppet.py ADDRESS NAME RECORD`.

It speaks frames, so that each step of a delivery can be stopped at. A line of input is a step; when
it is done a line with its first word is in RECORD, on disk:

    take            read the next delivery
    effect          what a handler does: work whose trace stays
    say VERB        say it of the last delivery, and wait for nothing
    ask VERB        say it, and wait until it is stored
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.peer import Answer, Peer, reference


def main(address: str, name: str, path: str) -> None:
    """Register, then do what is said."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def record(what: str, delivery: Answer) -> None:
        line = {word: delivery.get(word) for word in ("attempt", "redelivered", "started")}
        line |= {"what": what, "pid": os.getpid(), "id": delivery.get("message", {}).get("id")}
        os.write(file, json.dumps(line).encode() + b"\n")
        os.fsync(file)

    peer, delivery = Peer(address), Answer()
    peer.register(name)
    record("up", delivery)
    for line in sys.stdin:
        what, _, verb = line.strip().partition(" ")
        if what == "take":
            delivery = peer.take(60)
        elif what == "say":
            peer.request(verb, reference(delivery))
        elif what == "ask":
            peer.say(verb, delivery)
        record(what, delivery)


if __name__ == "__main__":
    main(*sys.argv[1:])
