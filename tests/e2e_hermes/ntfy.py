"""
A stand-in for an ntfy server, as far as Hermes's adapter uses one (a stream, and posts).

Source: plugins/platforms/ntfy/adapter.py of hermes-agent 0.19.0.
"""

import itertools
from collections import deque
from typing import Any

from e2e_hermes.server import Handler, Server

TOPIC = "hermes-in"


class _Handler(Handler):
    app: "Ntfy"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.app.listeners += 1
        while not self.app.closing.wait(0.05) and not self.gone():
            pass
        self.close_connection = True

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size).decode()
        with self.app.changed:
            fault = self.app.faults.popleft() if self.app.faults else 0
        if fault:
            return self.answer(fault, {"code": fault, "error": "not now"})
        topic = self.path.strip("/")
        self.app.posts.append((topic, text))
        return self.answer(200, {"id": f"n{next(self.app.count)}", "event": "message"})


class Ntfy(Server):
    """`posts`: topic and text of each; `faults`: statuses of the next posts."""

    handler = _Handler

    def __init__(self) -> None:
        self.posts: list[tuple[str, str]] = []
        self.faults: deque[int] = deque()
        self.count, self.listeners = itertools.count(1), 0
        super().__init__()

    @property
    def config(self) -> dict[str, Any]:
        """Return what Hermes's config.yaml says of it."""
        return {"enabled": True, "extra": {"server": self.url, "topic": TOPIC}}
