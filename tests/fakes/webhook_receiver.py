"""A receiver of webhooks on this machine, as anybody would write one; it keeps what it got."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple


class Got(NamedTuple):
    """One request; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """What the body says."""
        return json.loads(self.body)


class WebhookReceiver:
    """`answers`: (status, headers, body), one per request, the last one for all that follow."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.got: list[Got] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"{}")]
        self.go = Event()  # cleared, requests wait for it
        self.go.set()

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return what this request is told."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiving() -> Iterator[WebhookReceiver]:
    """Run a receiver; it is gone when this ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            named = {name.lower(): value for name, value in self.headers.items()}
            receiver.got.append(Got(self.path, named, body))
            receiver.go.wait(60)
            status, headers, said = receiver.answer()
            self.send_response(status)
            for name, value in {"content-length": str(len(said)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: pytest shows what failed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = WebhookReceiver(server.server_port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.go.set()
        server.shutdown()
        thread.join(30)
        server.server_close()
