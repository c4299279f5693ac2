"""
Requests over `https:`, and over `http:` to this very machine. The only place that imports httpx.

Rule 1: what is certain decides the error, not its class: NotSent until the first byte of the
request is handed to the connection, Uncertain from then on until a whole answer is there. Rule 2:
a connection is used once. On one that was kept, a close by the other side looks like a request
that was taken; a handshake is cheap beside an `uncertain`. Rule 3: nothing is followed, retried,
or without bound: 5 s to connect, 15 s of silence, 30 s in all (and 8 s for each MiB of a file),
1 MiB of answer. (Only the resolver's own time is not ours to bound.) Rule 4: TLS is verified, and a
plain `http:` goes to a loopback address and never through a proxy. Rule 5: no URL in an error or a
log: it may be a credential (a webhook's path, a bot's token, httpx's own log lines).

Proxies come from HTTPS_PROXY, NO_PROXY and the like, and certificates from SSL_CERT_FILE, as httpx
reads them: where a house has a proxy there is no other way out.
"""

import ipaddress
import logging
import socket
import ssl
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import httpx

from wakebus.adapters.base import Request, Response
from wakebus.adapters.errors import NotSent, Rejected, Unavailable, Uncertain

CONNECT_S: Final = 5.0
READ_S: Final = 15.0
TOTAL_S: Final = 30.0
SLOWEST: Final = 128 << 10  # bytes per second of a body: the total time grows by it
MAX_ANSWER: Final = 1 << 20
# OpenSSL's write returns when all of what it was given is taken: a file in one piece would have to
# go out in the 15 s of one silence.
_CHUNK: Final = 64 << 10

# Raised before anything of a request is written, whoever reports it.
_CONNECTING: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_BROKEN: Final = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Https:
    """A transport. Thread-safe: requests share nothing but the certificates."""

    def __init__(
        self, connect_s: float = CONNECT_S, read_s: float = READ_S, total_s: float = TOTAL_S
    ) -> None:
        self._timeout = httpx.Timeout(read_s, connect=connect_s)
        self._total_s = total_s
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        """Return the answer, whatever its status; raise Rejected, NotSent or Uncertain."""
        local = check_url(request.url)
        watch = _Watch(self._total_s + len(request.body) / SLOWEST)
        with _silence(), self._client(local) as client:
            built = _built(client, request, watch)
            try:
                with watch.running():
                    answer = _answer(client.send(built, stream=True))
                    return replace(answer, asked=len(request.body))
            except (httpx.HTTPError, OSError, ValueError, zlib.error) as exc:
                raise watch.judged(exc) from None

    def _client(self, local: bool) -> httpx.Client:
        try:
            return httpx.Client(
                verify=self._certificates(),
                timeout=self._timeout,
                trust_env=not local,
                follow_redirects=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except (httpx.InvalidURL, ValueError, ImportError, OSError) as exc:
            what = type(exc).__name__  # its text may hold the proxy's password
            raise Unavailable(
                f"not reachable: the proxy or SSL_CERT_FILE in the environment ({what})"
            ) from None

    def _certificates(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls is None:  # 20 ms and more: once, and not where nothing is sent
                self._tls = httpx.create_ssl_context()
            return self._tls


def check_url(url: str) -> bool:
    """Return whether this URL leads to this machine; raise Rejected for one not to send to."""
    try:
        parsed = httpx.URL(url)  # as the client will read it, not as another parser would
    except (httpx.InvalidURL, ValueError, TypeError):
        raise Rejected("the request's URL is none") from None
    if not parsed.host or parsed.userinfo:
        raise Rejected("the request's URL names no host, or a user in it")
    local = _loopback(parsed.host)
    if parsed.scheme != "https" and not (parsed.scheme == "http" and local):
        raise Rejected("credentials and texts go over https only; http is for 127.0.0.1")
    return local


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _built(client: httpx.Client, request: Request, watch: "_Watch") -> httpx.Request:
    body = request.body
    size = {"Content-Length": str(len(body))} if len(body) > _CHUNK else {}
    ours = {"User-Agent": "wakebus", "Accept-Encoding": "identity"}
    try:
        return client.build_request(
            request.method,
            request.url,
            content=_chunks(body) if size else body,
            headers={**ours, **request.headers, **size},
            extensions={"trace": watch.trace},
        )
    except (ValueError, TypeError) as exc:
        raise Rejected(f"the request cannot be written: {type(exc).__name__}") from None


def _chunks(body: bytes) -> Iterator[bytes]:
    return (body[at : at + _CHUNK] for at in range(0, len(body), _CHUNK))


class _Watch:
    """What is known of one request while it runs, and its end after the total time."""

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._phase = ""  # as httpcore tells: connecting, writing
        self._stream: Any = None
        self._lock = threading.Lock()
        self._late = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Cut the connection when the time is over: a drip of bytes never times out by itself."""
        timer = threading.Timer(self._total_s, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Follow the connection; httpx's extension `trace`. Raises to end what is too late."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._stream = info.get("return_value")
        if self._late and self._phase != "writing":
            if self._stream is not None:
                self._stream.close()
            raise httpx.ConnectTimeout("too late")
        if event.endswith(("connect_tcp.started", "start_tls.started")):
            self._phase = self._phase or "connecting"
        elif event.endswith("send_request_headers.started") and not _tunnel(info):
            self._phase = "writing"

    def _cut(self) -> None:
        with self._lock:
            self._late = True
            held = self._stream.get_extra_info("socket") if self._stream else None
        try:
            if held is not None:  # not SSLSocket's own, which takes TLS from under a reader
                socket.socket.shutdown(held, socket.SHUT_RDWR)
        except (OSError, ValueError):
            pass

    def judged(self, error: Exception) -> Rejected | NotSent | Uncertain:
        """Return the delivery error that `error` is; its own text, with the URL, is left out."""
        what = f"no answer within {self._total_s:.3g} s" if self._late else _words(error)
        if isinstance(error, _BROKEN):
            return Rejected(f"the request cannot be written: {type(error).__name__}")
        if isinstance(error, _CONNECTING) or self._phase == "connecting":
            return Unavailable(f"not reachable: {what}")
        return Uncertain(f"it was sent, but the answer is missing: {what}")


def _tunnel(info: Mapping[str, Any]) -> bool:
    """Whether this is the request by which a proxy is asked for a tunnel, before ours."""
    return getattr(info.get("request"), "method", b"") == b"CONNECT"


def _words(error: Exception) -> str:
    words: dict[type[Exception], str] = {
        httpx.ConnectTimeout: "no connection in time",
        httpx.ReadTimeout: "no answer in time",
        httpx.WriteTimeout: "not taken in time",
        httpx.RemoteProtocolError: "the connection was closed, or what came is no HTTP",
        httpx.ProxyError: "the proxy refused",
    }
    cause: BaseException | None = error
    for _ in range(16):  # bounded: two errors may be each other's context
        if cause is None or isinstance(cause, OSError):
            break
        cause = cause.__cause__ or cause.__context__
    # The system's own words; the whole text of an error may hold the URL.
    said = cause.strerror if isinstance(cause, OSError) else None
    return words.get(type(error)) or said or type(error).__name__


def _answer(answer: httpx.Response) -> Response:
    try:
        return Response(answer.status_code, _body(answer), dict(answer.headers))
    finally:
        answer.close()


def _body(answer: httpx.Response) -> bytes:
    """Return the first MiB; the rest stays unread, and cut JSON is no success to any adapter."""
    # Some servers compress without being asked; max_length keeps a bomb small.
    packed = answer.headers.get("content-encoding", "").lower() == "gzip"
    unpack = zlib.decompressobj(47) if packed else None
    body = bytearray()
    for chunk in answer.iter_raw():
        body += unpack.decompress(chunk, MAX_ANSWER) if unpack else chunk
        if len(body) >= MAX_ANSWER:
            break
    return bytes(body[:MAX_ANSWER])


class _Hush(logging.Filter):
    """Both libraries log URLs; those of our requests are not for a log, others are not ours."""

    _here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what another user of httpx in this process logs."""
        return not getattr(self._here, "on", False)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._here.on = True
        try:
            yield
        finally:
            self._here.on = False


_silence: Final = _Hush()
for _name in (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.proxy",
    "httpcore.socks",
):
    logging.getLogger(_name).addFilter(_silence)
