"""
The HTTP under the stand-ins: it reads a request, asks its desk, and answers or misbehaves.

It knows no platform. `Desk.take` says what is done; in a step's name `hang` and `reset` end the
connection without an answer.
"""

import socket
import struct
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from fakes.chats.rules import Answer, Call, Step


class Desk(Protocol):
    """Who decides."""

    def refused(self, call: Call) -> bool:
        """Whether the connection is to end before the body is read."""
        ...

    def take(self, call: Call) -> tuple[Step, Answer]:
        """Return what to do about a request, and the answer."""
        ...

    def held(self) -> None:
        """Return when hanging ends."""
        ...


class Server(ThreadingHTTPServer):
    """On loopback; port 0: a free one."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, desk: Desk, port: int = 0) -> None:
        self.desk = desk
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away (it was killed) is what tests do."""

    def end(self) -> None:
        """Close the listening socket, and wake the threads that read from a client."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    # One segment, not one per header line: half of the time of a test went there.
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def handle_any(self) -> None:
        """Answer, or misbehave."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        call = Call(self.command, self.path, headers)
        if self.server.desk.refused(call):
            return self._reset()
        data = self.rfile.read(int(headers.get("content-length", "0")))
        step, answer = self.server.desk.take(Call(self.command, self.path, headers, data))
        if step.startswith("hang"):
            self.server.desk.held()
        if step.startswith(("hang", "reset")):
            return self._reset()
        return self._answer(step, answer)

    do_GET = do_POST = do_PUT = handle_any

    def _answer(self, step: Step, answer: Answer) -> None:
        body = b"" if step == "empty" else answer.body
        self.send_response(answer.status)
        headers = {"content-type": "application/json", **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if step == "half":
            body = body[: len(body) // 2]
            self.close_connection = True
        pieces = [body[at : at + 16] for at in range(0, len(body), 16)]
        for piece in pieces if step == "slow" else [body]:
            self.wfile.write(piece)
            self.wfile.flush()
            if step == "slow":
                time.sleep(0.01)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for end in (self.wfile, self.rfile, self.connection):
            end.close()
