"""
An HTTP server on a free port of loopback that can refuse connections and come back.

One request per connection (HTTP/1.0): a connection that ends means that its request ended.
"""

import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Listener(ThreadingHTTPServer):
    """Quiet about clients that hang up."""

    block_on_close = False
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news; what was asked is in the records."""


class Server:
    """`url` keeps its port while it refuses. A subclass sets `handler`, which has it as `app`."""

    handler: type["Handler"]

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self._listener, self._thread = self._bind(0), threading.Thread()
        self.port = self._listener.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.accept()

    def _bind(self, port: int) -> Listener:
        listener = Listener(("127.0.0.1", port), self.handler, bind_and_activate=False)
        listener.server_bind()
        listener.app = self  # type: ignore[attr-defined]
        return listener

    def accept(self) -> None:
        """Listen (again)."""
        self._listener.server_activate()
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,))
        self._thread.start()

    def refuse(self) -> None:
        """Refuse connections from now on; the port stays ours."""
        self._stop()
        self._listener = self._bind(self.port)

    def _stop(self) -> None:
        if self._thread.is_alive():  # else it refuses: there is nobody who would stop
            self._listener.shutdown()
            self._thread.join(30)
        self._listener.server_close()

    def close(self) -> None:
        """End for good."""
        self.closing.set()
        self._stop()


class Handler(BaseHTTPRequestHandler):
    """Small words for answers."""

    app: Any

    def setup(self) -> None:
        """Know whose server this is."""
        super().setup()
        self.app = getattr(self.server, "app")  # noqa: B009

    def body(self) -> dict[str, Any]:
        """Return the JSON object that was sent."""
        size = int(self.headers.get("Content-Length") or 0)
        found = json.loads(self.rfile.read(size) or b"{}")
        return found if isinstance(found, dict) else {}

    def answer(self, status: int, value: Any, **headers: str) -> None:
        """Send JSON."""
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(data)

    def gone(self) -> bool:
        """Return whether the client has closed the connection."""
        readable = select.select([self.connection], [], [], 0)[0]
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: a failed test shows what was recorded."""
