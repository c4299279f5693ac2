"""
Proxies on this machine, as real programs would be: CONNECT over HTTP, and SOCKS5.

Whatever host is asked for, the tunnel leads to the one server that the test gives.
"""

import base64
import contextlib
import socket
import threading
from types import TracebackType
from typing import NamedTuple


class Asked(NamedTuple):
    """What a client asked a proxy for; `user`: `name:password`, "" without."""

    host: str
    port: int
    user: str = ""


class ProxyServer:
    """
    `with ProxyServer("socks5", port) as proxy`: `proxy.port`, and `proxy.asked`.

    user: `name:password` that it wants.
    """

    def __init__(self, kind: str, to_port: int, user: str = "") -> None:
        self._kind, self._to, self._user = kind, to_port, user
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked: list[Asked] = []

    def __enter__(self) -> "ProxyServer":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, where: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError, ValueError):
            begun = self._connect(sock) if self._kind == "http" else self._socks(sock)
            if begun:
                with socket.create_connection(("127.0.0.1", self._to)) as there:
                    back = threading.Thread(target=_pump, args=(there, sock), daemon=True)
                    back.start()
                    _pump(sock, there)
                    back.join(10)

    def _connect(self, sock: socket.socket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        host, _, port = head.split()[1].decode().rpartition(":")
        code = head.lower().partition(b"proxy-authorization: basic ")[2].partition(b"\r\n")[0]
        at = head.lower().find(code) if code else 0
        user = base64.b64decode(head[at : at + len(code)]).decode()
        self.asked.append(Asked(host.strip("[]"), int(port), user))
        if user != self._user:
            sock.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return False
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        return True

    def _socks(self, sock: socket.socket) -> bool:
        version, count = _take(sock, 2)
        methods = _take(sock, count)
        assert version == 5
        wanted = 2 if self._user else 0
        sock.sendall(bytes([5, wanted if wanted in methods else 0xFF]))
        user = ""
        if wanted in methods and wanted:
            name = _take(sock, _take(sock, 2)[1])
            user = f"{name.decode()}:{_take(sock, _take(sock, 1)[0]).decode()}"
            sock.sendall(bytes([1, user != self._user]))
        kind = _take(sock, 4)[3]
        if kind == 3:
            host = _take(sock, _take(sock, 1)[0]).decode()
        else:
            family = socket.AF_INET if kind == 1 else socket.AF_INET6
            host = socket.inet_ntop(family, _take(sock, 4 if kind == 1 else 16))
        self.asked.append(Asked(host, int.from_bytes(_take(sock, 2)), user))
        sock.sendall(bytes([5, 0, 0, 1, 127, 0, 0, 1, 0, 0]))
        return True


def _take(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := sock.recv(size - len(data))):
            raise OSError
        data += more
    return data


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
