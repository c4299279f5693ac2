"""The server's side of a WebSocket (RFC 6455): text out, pings answered, no extensions."""

import base64
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class WebSocket:
    """A connection whose handshake was asked for by `headers`."""

    def __init__(self, connection: socket.socket, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._lock = threading.Lock()
        digest = hashlib.sha1((headers["Sec-WebSocket-Key"] + GUID).encode()).digest()
        lines = (
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}",
        )
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def send(self, value: Any) -> None:
        """Send JSON as a text frame; raises OSError."""
        self._send(TEXT, json.dumps(value).encode())

    def _send(self, kind: int, data: bytes) -> None:
        size = len(data)
        head = struct.pack("!BB", 0x80 | kind, min(size, 126))
        if size >= 126:
            assert size < 65536, "this side sends no large frames"
            head += struct.pack("!H", size)
        with self._lock:
            self._connection.sendall(head + data)

    def read(self) -> Any:
        """Return the next JSON value, or None when the connection ends."""
        while True:
            kind, data = self._frame()
            if kind == TEXT:
                return json.loads(data)
            if kind == PING:
                self._send(PONG, data)
            if kind in (0, CLOSE):
                return None

    def _frame(self) -> tuple[int, bytes]:
        """Return opcode and data of a frame; opcode 0 at the end."""
        head = self._file.read(2)
        if len(head) < 2:
            return 0, b""
        size = head[1] & 0x7F
        if size > 125:
            more = 2 if size == 126 else 8
            size = int.from_bytes(self._file.read(more), "big")
        mask = self._file.read(4)
        data = self._file.read(size)
        return head[0] & 0x0F, bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    def drop(self) -> None:
        """End it without a word."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster
