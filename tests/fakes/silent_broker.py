"""A stand-in for a broker: it takes every connection and says nothing, or always the same."""

import threading
from pathlib import Path
from typing import Any

import zmq

from wakebus.broker.protocol import wire


class SilentBroker:
    """A ROUTER at `path`. `error`: the payload of an `err` answer to every request."""

    def __init__(self, path: Path, error: dict[str, Any] | None = None) -> None:
        self.address = f"ipc://{path}"
        self.heard: list[wire.Frame] = []
        self._error = error
        self._end = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def _run(self) -> None:
        context = zmq.Context()
        socket = context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(self.address)
        self._ready.set()
        while not self._end.is_set():
            if socket.poll(50):
                peer, data = socket.recv_multipart()
                self.heard.append(wire.decode(data))
                if self._error is not None:
                    sequence = self.heard[-1].sequence
                    socket.send_multipart([peer, wire.encode("err", sequence, self._error)])
        socket.close(0)
        context.term()

    def close(self) -> None:
        """Unbind."""
        self._end.set()
        self._thread.join(10)
