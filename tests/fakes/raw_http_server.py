"""A loopback server below HTTP: it reads one request per connection, then does what it is told."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

import trustme

AUTHORITY = trustme.CA()
CERTIFICATE = AUTHORITY.issue_cert("127.0.0.1")
Act = Callable[["Conversation"], None]


class Conversation:
    """One connection, after its request was read. `server.leave`: set when the test is over."""

    def __init__(self, server: "Server", sock: socket.socket) -> None:
        self.server = server
        self.sock = sock

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def wait(self, seconds: float = 60.0) -> None:
        """Keep the connection open, until the test is over."""
        self.server.leave.wait(seconds)

    def reset(self) -> None:
        """End the connection without a farewell: RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def answer(status: str, body: bytes = b"", *headers: str) -> Act:
    """Return an act that gives a whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return lambda talk: talk.say("\r\n".join(lines).encode() + body)


class Server:
    """
    `with Server(act) as server`: `server.url`; `server.seen`: the requests, whole.

    reads: whether it reads a request at all. tls: it speaks https, with CERTIFICATE or one
    for `names`.
    """

    def __init__(
        self, act: Act, *, reads: bool = True, tls: bool = False, names: Sequence[str] = ()
    ) -> None:
        self._act, self._reads = act, reads
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if self._tls:
            certificate = AUTHORITY.issue_cert(*names) if names else CERTIFICATE
            certificate.configure_cert(self._tls)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = (
            f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/hook/hush-7f3a?token=hush-7f3a"
        )
        self.seen: list[bytes] = []
        self.leave = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> "Server":
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.leave.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(30)
        with sock, contextlib.suppress(OSError):
            if self._tls:
                sock = self._tls.wrap_socket(sock, server_side=True)
            with sock:
                if self._reads:
                    self.seen.append(_request(sock))
                self._act(Conversation(self, sock))


def _request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (chunk := sock.recv(65536)):
            return data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    size = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(body) < size and (chunk := sock.recv(65536)):
        body += chunk
    return head + b"\r\n\r\n" + body
