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

Proxies (proxies.py) and certificates (SSL_CERT_FILE, SSL_CERT_DIR) come from the settings: where a
house has a proxy there is no other way out. Who goes through one is told so where it fails.
"""

import ipaddress
import logging
import os
import re
import socket
import ssl
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.request import getproxies

import httpx

from wakebus.adapters.base import Request, Response
from wakebus.adapters.errors import NotSent, Rejected, Unavailable, Uncertain
from wakebus.adapters.transports.proxies import OutboundProxy, is_exempt, proxy_for

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
    """
    A transport. Thread-safe: requests share nothing but the certificates.

    env: the settings, in which proxies and certificates are looked for; else the process's.
    """

    def __init__(
        self,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        total_s: float = TOTAL_S,
        env: Callable[[], Mapping[str, str]] = lambda: os.environ,
    ) -> None:
        self._timeout = httpx.Timeout(read_s, connect=connect_s)
        self._total_s, self._env = total_s, env
        self._tls: dict[tuple[str, str], ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Response:
        """Return the answer, whatever its status; raise Rejected, NotSent or Uncertain."""
        proxy = None if check_url(request.url) else _proxy(request, self._env())
        watch = _Watch(self._total_s + len(request.body) / SLOWEST, proxy)
        with _silence(), self._client(proxy) as client:
            built = _built(client, request, watch)
            try:
                with watch.running():
                    answer = _answer(client.send(built, stream=True))
                    return replace(answer, asked=len(request.body))
            except (httpx.HTTPError, OSError, ValueError, zlib.error) as exc:
                watch.close()
                raise watch.judged(exc) from None

    def _client(self, proxy: OutboundProxy | None) -> httpx.Client:
        tls = self._certificates()
        try:
            via = (
                httpx.Proxy(proxy.url, ssl_context=tls if proxy.secure else None) if proxy else None
            )
            return httpx.Client(
                verify=tls,
                timeout=self._timeout,
                trust_env=False,
                proxy=via,
                follow_redirects=False,
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        except ImportError:
            raise Unavailable(
                f"{_through(proxy)}: SOCKS wants: pip install 'httpx[socks]'"
            ) from None
        except (httpx.InvalidURL, ValueError, OSError) as exc:
            what = type(exc).__name__  # its text may hold the proxy's password
            raise Unavailable(f"not reachable{_through(proxy)}: no proxy ({what})") from None

    def _certificates(self) -> ssl.SSLContext:
        env = self._env()
        file, folder = env.get("SSL_CERT_FILE", ""), env.get("SSL_CERT_DIR", "")
        with self._lock:
            if (
                file,
                folder,
            ) not in self._tls:  # 20 ms and more: once, and not where nothing is sent
                self._tls[file, folder] = _tls(file, folder)
            return self._tls[file, folder]


def _tls(file: str, folder: str) -> ssl.SSLContext:
    """Return what verifies certificates: by these authorities, "" for those that httpx brings."""
    try:
        if file:
            return ssl.create_default_context(cafile=file)
        return ssl.create_default_context(capath=folder) if folder else httpx.create_ssl_context()
    except (OSError, ValueError) as exc:  # also ssl.SSLError: no certificate in it
        why = (exc.strerror if isinstance(exc, OSError) else "") or type(exc).__name__
        name = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
        raise Unavailable(f"not reachable: {name} cannot be read: {why}") from None


def _proxy(request: Request, env: Mapping[str, str]) -> OutboundProxy | None:
    """Return the proxy for a request: that of the settings, on macOS else the system's."""
    url = httpx.URL(request.url)
    port = url.port or 443
    if found := proxy_for(request.platform, url.host, port, env):
        return found
    system = getproxies().get("https") if sys.platform == "darwin" else None
    return (
        OutboundProxy(system, "the system's proxy")
        if system and not is_exempt(url.host, port, env)
        else None
    )


def _through(proxy: OutboundProxy | None) -> str:
    return f" through {proxy.shown}" if proxy else ""


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

    def __init__(self, total_s: float, proxy: OutboundProxy | None = None) -> None:
        self._total_s, self._proxy = total_s, proxy
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

    def close(self) -> None:
        """End the connection: httpcore leaves one open to a SOCKS proxy that refuses."""
        if self._stream is not None:
            self._stream.close()

    def judged(self, error: Exception) -> Rejected | NotSent | Uncertain:
        """Return the delivery error that `error` is; its own text, with the URL, is left out."""
        what = f"no answer within {self._total_s:.3g} s" if self._late else _words(error)
        if isinstance(error, _BROKEN):
            return Rejected(f"the request cannot be written: {type(error).__name__}")
        if isinstance(error, _CONNECTING) or self._phase == "connecting":
            return Unavailable(f"not reachable{_through(self._proxy)}: {what}")
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
        httpx.ProxyError: _refused(str(error)),
    }
    cause: BaseException | None = error
    for _ in range(16):  # bounded: two errors may be each other's context
        if cause is None or isinstance(cause, OSError):
            break
        cause = cause.__cause__ or cause.__context__
    # The system's own words; the whole text of an error may hold the URL.
    said = cause.strerror if isinstance(cause, OSError) else None
    return words.get(type(error)) or said or type(error).__name__


def _refused(said: str) -> str:
    """Return what a proxy said: a status of CONNECT, or httpcore's own words of SOCKS."""
    if found := re.match(r"\d{3}\b", said):
        wants = ", it wants a user and a password" if found[0] == "407" else ""
        return f"the proxy refused with status {found[0]}{wants}"
    return (
        f"the proxy refused: {said[:80]}"
        if re.fullmatch(r"[\w .,:'-]+", said)
        else "the proxy refused"
    )


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
