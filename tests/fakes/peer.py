"""A raw peer of the broker: a DEALER that speaks frames, well or badly."""

import itertools
import json
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq

from wakebus.broker.errors import WakebusError, from_wire
from wakebus.broker.protocol import wire

Answer = dict[str, Any]


class Peer:
    """
    One connection. Answers and what the broker says by itself are kept apart.

    `first`: the number of its first request.
    """

    def __init__(self, address: str, instance: str | None = None, first: int = 1) -> None:
        self.instance = instance or secrets.token_hex(8)
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(address)
        self._numbers = itertools.count(first)
        self._answers: dict[int, tuple[str, Answer]] = {}
        self.said: deque[tuple[str, Answer]] = deque()

    def close(self) -> None:
        """Close the socket without a word."""
        self.socket.close(0)

    # --- frames ---------------------------------------------------------------------------

    def raw(self, *frames: bytes) -> None:
        """Send bytes as they are."""
        self.socket.send_multipart(frames)

    def raw_answer(self, timeout: float = 15.0) -> list[Any]:
        """Return the next frame of any kind, as JSON."""
        assert self.socket.poll(int(timeout * 1000)), "the broker said nothing"
        found: list[Any] = json.loads(self.socket.recv())
        return found

    def request(self, verb: str, payload: Answer | None = None) -> int:
        """Send a request; return its sequence."""
        number = next(self._numbers)
        self.socket.send(wire.encode(verb, number, payload or {}))
        return number

    def _read(self, deadline: float) -> None:
        left = max(0, int((deadline - time.monotonic()) * 1000))
        assert self.socket.poll(left), "the broker said nothing"
        verb, number, payload = wire.decode(self.socket.recv())
        if number:
            assert number not in self._answers, "answered twice"
            self._answers[number] = (verb, payload)
        else:
            self.said.append((verb, payload))

    def answer(self, number: int, timeout: float = 15.0) -> Answer:
        """Return the `ok` payload of request `number`, or raise what its `err` says."""
        deadline = time.monotonic() + timeout
        while number not in self._answers:
            self._read(deadline)
        verb, payload = self._answers.pop(number)
        if verb == "err":
            raise from_wire(payload)
        return payload

    def ask(self, verb: str, **payload: Any) -> Answer:
        """Send a request and return its answer."""
        return self.answer(self.request(verb, payload))

    def error(self, verb: str, **payload: Any) -> WakebusError:
        """Send a request that must fail; return the error."""
        try:
            found = self.ask(verb, **payload)
        except WakebusError as exc:
            return exc
        raise AssertionError(f"{verb} was answered with {found}")

    def code(self, number: int) -> str:
        """Return the code of the error that request `number` is answered with, "" for none."""
        try:
            self.answer(number)
        except WakebusError as exc:
            return exc.code
        return ""

    def next(self, verb: str, timeout: float = 15.0) -> Answer:
        """Return the next word of this kind that the broker says by itself."""
        deadline = time.monotonic() + timeout
        while True:
            for said in self.said:
                if said[0] == verb:
                    self.said.remove(said)
                    return said[1]
            self._read(deadline)

    def silence(self) -> list[str]:
        """Return the verbs of all that the broker has said until now (asks it once)."""
        self.ask("list")
        return [verb for verb, _ in self.said]

    def unanswered(self, *numbers: int) -> list[int]:
        """Return which of these requests have no answer yet (asks once, what is in memory)."""
        self.ask("list")
        return [number for number in numbers if number not in self._answers]

    # --- the usual words ------------------------------------------------------------------

    def hello(self, **fields: Any) -> Answer:
        """Say hello."""
        return self.ask("hello", **{"min": 1, "max": 1, "instance": self.instance, **fields})

    def register(self, name: str, **fields: Any) -> int:
        """Say hello and register; return the epoch."""
        self.hello()
        return int(self.ask("register", name=name, **fields)["epoch"])

    def send(self, to: str, text: str = "hi", **fields: Any) -> Answer:
        """Send a message; `queue`, `asks` and `token` go beside it, the rest into it."""
        return self.ask("send", **posting(to, text, **fields))

    def take(self, timeout: float = 15.0) -> Answer:
        """Return the next delivery."""
        return self.next("deliver", timeout)

    def say(self, verb: str, delivery: Answer, **fields: Any) -> Answer:
        """Say `verb` of a delivery."""
        return self.ask(verb, **reference(delivery), **fields)

    def finish(self, count: int = 1) -> list[str]:
        """Take `count` deliveries, handle each; return their texts."""
        texts = []
        for _ in range(count):
            delivery = self.take()
            texts.append(delivery["message"]["body"]["text"])
            self.say("handled", delivery)
        return texts


MakePeer = Callable[..., Peer]


def reference(delivery: Answer) -> Answer:
    """Return how the protocol names a delivery."""
    return {
        "to": delivery["to"],
        "id": delivery["message"]["id"],
        "epoch": delivery["epoch"],
    }


def traced(peer: Peer, id: str) -> Answer:
    """Return what `trace` says of one message."""
    return next(m for m in peer.ask("trace", id=id)["messages"] if m["id"] == id)


def posting(to: str, text: str = "hi", **fields: Any) -> Answer:
    """Return the payload of a `send`."""
    flags = ("queue", "asks", "token", "outside_turn")
    beside: dict[str, Any] = {k: fields.pop(k) for k in flags if k in fields}
    body = {"text": text, **fields.pop("body", {})}
    message = {"id": secrets.token_hex(10), "ts": 1764288000.5, "from": "tester", "to": to}
    if "sender" in fields:
        fields["from"] = fields.pop("sender")
    return {"message": {**message, "body": body, **fields}, **beside}
