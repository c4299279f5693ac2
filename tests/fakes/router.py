"""
A broker's socket without a broker: a ROUTER that says what a test tells it to, and nothing else.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq

from wakebus.broker.protocol import wire

Payload = dict[str, Any]


class Router:
    """Bound at `path`; remembers the connection that spoke last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.bind(f"ipc://{path}")
        self.conn = b""

    def close(self) -> None:
        """End the socket, and with it every connection."""
        self.socket.close(0)
        self._context.term()

    def next(
        self, *, without: tuple[str, ...] = ("beat", "got"), timeout: float = 10
    ) -> wire.Frame:
        """Return the next frame whose verb is not in `without`."""
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            assert self.socket.poll(int(left * 1000)), "the client says nothing"
            self.conn, data = self.socket.recv_multipart()
            if (frame := wire.decode(data)).verb not in without:
                return frame

    def expect(self, *verbs: str) -> list[wire.Frame]:
        """Return the next frames, which must have these verbs, in order."""
        frames = [self.next() for _ in verbs]
        assert [frame.verb for frame in frames] == list(verbs)
        return frames

    def quiet(self, seconds: float = 0.3) -> bool:
        """Whether nothing but `beat` and `got` comes for `seconds`."""
        deadline = time.monotonic() + seconds
        while self.socket.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            if wire.decode(self.socket.recv_multipart()[1]).verb not in ("beat", "got"):
                return False
        return True

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.send_multipart([self.conn, data])

    def say(self, verb: str, payload: Payload, sequence: int = 0) -> None:
        """Send a frame."""
        self.raw(json.dumps([wire.VERSION, verb, sequence, payload]).encode())

    def ok(self, frame: wire.Frame, payload: Payload | None = None) -> None:
        """Answer a request."""
        self.say("ok", payload or {}, frame.sequence)

    def err(self, frame: wire.Frame, code: str, **data: Any) -> None:
        """Answer a request with an error."""
        self.say("err", {"code": code, "text": f"{code}!", "retry": False, **data}, frame.sequence)

    def grant(self, epoch: int = 1, **answer: Any) -> Payload:
        """Take `hello` and `register`, grant the name; return what `register` said."""
        hello, register = self.expect("hello", "register")
        self.ok(hello, {"version": wire.VERSION})
        self.ok(register, {"name": register.payload["name"], "epoch": epoch, "ended": [], **answer})
        return register.payload

    def grant_all(self, go_on: Callable[[], bool]) -> None:
        """Grant every claim that comes while `go_on()`."""
        while go_on():
            if self.socket.poll(20):
                frame = self.next(without=())
                self.ok(frame, {"name": frame.payload.get("name"), "epoch": 1, "ended": []})

    def deliver(self, to: str, id: str, epoch: int = 1, **fields: Any) -> None:
        """Send a delivery."""
        message = {"id": id, "ts": 1.0, "from": "ci", "to": to, "body": {"text": id}}
        self.say("deliver", {"to": to, "epoch": epoch, "attempt": 1, **fields, "message": message})
