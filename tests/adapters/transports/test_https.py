"""Requests over HTTP, against a real server that misbehaves."""

import gzip
import logging
import os
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import wakebus.adapters.transports.https
from fakes.raw_http_server import AUTHORITY, Act, Conversation, Server, answer
from wakebus.adapters.base import Request, Response
from wakebus.adapters.errors import DeliveryError, NotSent, Rejected, Uncertain
from wakebus.adapters.transports.https import MAX_ANSWER, Https, check_url

HUSH = "hush-7f3a"
CALM = Https(env=lambda: {**os.environ, "SSL_CERT_FILE": ""})  # trusts no fake
IMPATIENT = Https(connect_s=30.0, read_s=0.3, total_s=60.0)  # only where the server never answers


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Https:
    """A transport that trusts the fake's certificate, by the environment."""
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return Https()


def post(server: Server, transport: Https = CALM, body: bytes = b"{}") -> Response:
    return transport(Request(server.url, body, {"Authorization": f"Bearer {HUSH}"}))


def failure(server: Server, transport: Https = CALM, body: bytes = b"{}") -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        post(server, transport, body)
    shown = f"{caught.value!r} {caught.value} {caught.value.data}"
    assert HUSH not in shown and str(server.port) not in shown
    assert caught.value.__suppress_context__  # httpx's own, whose text has the URL
    return caught.value


# --- answers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "header"),
    [
        ("200 OK", b'{"code":0}', "x: 1"),
        ("200 OK", b"<html>hello</html>", "Content-Type: text/html"),
        ("302 Found", b"", "Location: /other"),
        ("429 Too Many Requests", b"{}", "Retry-After: 7"),
        ("500 Oops", b"", "x: 1"),
    ],
)
def test_any_answer_comes_back(status: str, body: bytes, header: str) -> None:
    """ADP-5.15: status, body and headers as they are; nothing is followed, nothing retried."""
    with Server(answer(status, body, header)) as server:
        response = post(server)
        assert (response.status, response.body) == (int(status[:3]), body)
        name, _, value = header.partition(": ")
        assert response.headers[name.lower()] == value
        assert len(server.seen) == 1


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 S", "307 T", "308 P"])
def test_b1_nothing_is_followed(status: str) -> None:
    """ADP-4.9, ADP-5.15: neither a body nor a token goes to where an answer points."""
    with Server(answer("200 OK")) as other:
        with Server(answer(status, b"", f"Location: {other.url}")) as server:
            response = post(server, body=b"hush-7f3a text")
            assert response.status == int(status[:3]) and response.asked == len("hush-7f3a text")
            assert len(server.seen) == 1
        assert other.seen == []


def test_what_is_sent() -> None:
    """ADP-5.15: method, path, query, headers and body as the adapter built them."""
    with Server(answer("200 OK")) as server:
        CALM(Request(server.url, "中".encode(), {"X-Key": "k"}, "PUT"))
        CALM(Request(server.url, headers={"User-Agent": "DiscordBot"}, method="GET"))
        put, get = server.seen
    assert put.startswith(b"PUT /hook/hush-7f3a?token=hush-7f3a HTTP/1.1\r\n")
    assert put.endswith(b"\r\n\r\n" + "中".encode()) and b"X-Key: k" in put
    assert get.startswith(b"GET /hook/hush-7f3a?token=hush-7f3a HTTP/1.1\r\n")
    assert b"User-Agent: DiscordBot\r\n" in get and b"wakebus" not in get


def test_a_large_body() -> None:
    """ADP-5.15: a file goes out whole, its length said, in pieces that each have their time."""
    body = bytes(range(256)) * 4000
    with Server(answer("200 OK")) as server:
        CALM(Request(server.url, body))
        (seen,) = server.seen
    head, _, sent = seen.partition(b"\r\n\r\n")
    assert sent == body and b"Content-Length: 1024000" in head and b"chunked" not in head


def test_a_large_body_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.16: 8 s more for each MiB."""
    monkeypatch.setattr(threading, "Timer", AtOnce)
    with Server(answer("200 OK")) as server:
        with pytest.raises(NotSent, match="within 70 s"):
            CALM(Request(server.url, b"x" * (5 << 20)))


def test_a_huge_answer() -> None:
    """ADP-5.16: one MiB of it, and the rest is not read."""

    def flood(talk: Conversation) -> None:
        talk.say(b"HTTP/1.1 200 OK\r\n\r\n")
        while not talk.server.leave.is_set():
            talk.say(b"x" * 65536)

    with Server(flood) as server:
        assert post(server).body == b"x" * MAX_ANSWER


def test_a_compressed_answer() -> None:
    """ADP-5.16: unpacked up to one MiB; what is no gzip is `uncertain`."""
    packed = gzip.compress(b"x" * (64 << 20))
    with Server(answer("200 OK", packed, "Content-Encoding: gzip")) as server:
        assert post(server).body == b"x" * MAX_ANSWER
    with Server(answer("200 OK", gzip.compress(b"{}"), "Content-Encoding: gzip")) as server:
        assert post(server).body == b"{}"
    with Server(answer("200 OK", b"plain", "Content-Encoding: gzip")) as server:
        assert isinstance(failure(server), Uncertain)


# --- the table of what is certain --------------------------------------------------------


def close(talk: Conversation) -> None:
    """Say nothing at all."""


def drip_head(talk: Conversation) -> None:
    talk.say(b"HTTP/1.1 200 OK\r\n")
    while not talk.server.leave.wait(0.05):
        talk.say(b"x")


def drip_body(talk: Conversation) -> None:
    talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not talk.server.leave.wait(0.05):
        talk.say(b"x")


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (Conversation.reset, "Connection reset"),
        (close, "was closed"),
        (lambda talk: talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "was closed"),
        (lambda talk: talk.say(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "no HTTP"),
    ],
    ids=["reset", "close", "half", "other"],
)
def test_lost_after_the_request(act: Act, says: str) -> None:
    """ADP-5.3: B1: once a byte of the request left, no answer is `uncertain`."""
    with Server(act) as server:
        error = failure(server)
        assert isinstance(error, Uncertain) and says in error.text
        assert len(server.seen) == 1


def test_no_answer() -> None:
    """ADP-5.3: B1: a server that never answers may have taken it: `uncertain`."""
    with Server(Conversation.wait) as server:
        error = failure(server, IMPATIENT)
        assert isinstance(error, Uncertain) and "no answer in time" in error.text


@pytest.mark.parametrize("act", [drip_head, drip_body])
@pytest.mark.parametrize("tls", [False, True])
def test_a_drip_of_bytes(act: Act, tls: bool, trusted: Https) -> None:
    """ADP-5.16: an answer that never ends is cut at the total time, and `uncertain`."""
    for total_s in (0.5, 4.0, 20.0):  # on a busy machine the first may pass before the request
        trusted._total_s = total_s
        with Server(act, tls=tls) as server:
            error = failure(server, trusted)
        assert f"within {total_s:g} s" in error.text
        if isinstance(error, Uncertain):
            return
    pytest.fail("it is never uncertain")


def test_a_server_that_does_not_read() -> None:
    """ADP-5.3: half a request may be enough for it: `uncertain`."""
    with Server(Conversation.wait, reads=False) as server:
        assert isinstance(failure(server, IMPATIENT, b"x" * (32 << 20)), Uncertain)


def test_nobody_listens() -> None:
    """ADP-5.3: B2: a refused connection is `not_sent`."""
    server = Server(close)
    with server:
        pass
    error = failure(server)
    assert isinstance(error, NotSent) and "refused" in error.text


def test_a_name_that_nobody_knows() -> None:
    """ADP-5.3: no address, no byte: `not_sent`."""
    with pytest.raises(NotSent, match="not reachable"):
        CALM(Request("https://no-such-host.invalid/"))


@pytest.mark.parametrize("act", [Conversation.wait, answer("200 OK")], ids=["hang", "plain"])
def test_no_tls(act: Act) -> None:
    """ADP-5.3: a handshake that hangs or fails is `not_sent`: nothing of the request left."""

    def peek(talk: Conversation) -> None:
        talk.sock.recv(1)
        act(talk)

    with Server(peek, reads=False) as server:
        with pytest.raises(NotSent, match="not reachable"):
            Https(connect_s=0.5)(Request(f"https://127.0.0.1:{server.port}/{HUSH}"))


def test_tls(trusted: Https) -> None:
    """ADP-5.17: over https, with a certificate that SSL_CERT_FILE names."""
    with Server(answer("200 OK", b"{}"), tls=True) as server:
        assert post(server, trusted).body == b"{}"
        assert len(server.seen) == 1


def test_a_certificate_that_is_not_trusted(trusted: Https) -> None:
    """ADP-5.3, ADP-5.17: or one for another name: `not_sent`, and no byte of the request leaves."""
    with Server(answer("200 OK"), tls=True) as server:
        assert isinstance(failure(server, CALM), NotSent)
        with pytest.raises(NotSent, match="not reachable"):
            trusted(Request(f"https://localhost:{server.port}/"))
        assert server.seen == []


@pytest.mark.parametrize("act", [Conversation.reset, close])
def test_lost_over_tls(act: Act, trusted: Https) -> None:
    """ADP-5.3: the same as without it: what left is `uncertain`."""
    with Server(act, tls=True) as server:
        assert isinstance(failure(server, trusted), Uncertain)


class AtOnce:
    """A timer whose time is over when it begins: a resolver that took 30 s."""

    daemon = False

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self.start = act

    def cancel(self) -> None: ...


def test_too_late_before_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.3: when the time is over before a byte left, it is `not_sent`, not a doubt."""
    monkeypatch.setattr(threading, "Timer", AtOnce)
    with Server(answer("200 OK")) as server:
        with pytest.raises(NotSent, match="within 30 s"):
            CALM(Request(server.url))
        assert not any(server.seen)


def test_many_at_once() -> None:
    """ADP-5.15: threads share a transport, and one that hangs holds no other."""
    hang = threading.Event()

    def act(talk: Conversation) -> None:
        if hang.is_set():
            answer("200 OK", b"{}")(talk)
        else:
            hang.set()
            talk.wait()

    with Server(act) as server:
        first = threading.Thread(target=lambda: failure(server, Https(read_s=2.0)))
        first.start()
        assert hang.wait(30)
        for _ in range(8):
            assert post(server).status == 200
        first.join(60)
        assert not first.is_alive()


# --- proxies -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "act", [answer("403 Forbidden"), Conversation.wait, Conversation.reset, close]
)
def test_a_proxy_that_refuses(act: Act, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.3: without a tunnel nothing of the request left; the proxy sees no path."""
    with Server(act) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(NotSent, match="not reachable"):
            IMPATIENT(Request(f"https://platform.test/{HUSH}", b"text"))
        assert [seen.split(b"\r\n")[0] for seen in proxy.seen] == [
            b"CONNECT platform.test:443 HTTP/1.1"
        ]


def test_loopback_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.17: plain http is for this machine, so no proxy hears of it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Server(answer("200 OK")) as server:
        assert post(server).status == 200


@pytest.mark.parametrize("value", [f"nonsense://u:{HUSH}@x", f"socks9://u:{HUSH}@x", "http://[:::"])
def test_a_wrong_proxy(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.17: a proxy that cannot be used is named as the reason, without its value."""
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(NotSent, match="proxy") as caught:
        CALM(Request("https://platform.test/"))
    assert HUSH not in caught.value.text


# --- what is not sent at all -------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.org/hush", "http://127.0.0.1.example.org/", "http://10.0.0.1/", "x", ""),
        *("https://", "https://user:hush@example.org/", "https://example.org:port/", "ftp://x/"),
        *("http://localhost@example.org/", "http://example.org\\@localhost/", "https://a\n.b/"),
    ],
)
def test_where_nothing_is_sent(url: str) -> None:
    """ADP-5.17: https, or http to this machine; no user in a URL; the error shows no URL."""
    with pytest.raises(Rejected) as caught:
        CALM(Request(url))
    assert "hush" not in caught.value.text and "example" not in caught.value.text


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("https://example.org/", False),
        ("http://127.0.0.1:8080/", True),
        ("http://127.9.9.9/", True),
        ("http://[::1]:8080/", True),
        ("http://LOCALHOST/", True),
    ],
)
def test_where_it_is(url: str, local: bool) -> None:
    """ADP-5.17: loopback addresses, and the name localhost."""
    assert check_url(url) is local


@pytest.mark.parametrize("value", ["a\r\nX: y", "ключ", "a\x00b"])
def test_a_header_that_is_none(value: str) -> None:
    """ADP-5.15: it cannot be written: `rejected`, and nothing forged reaches the server."""
    with Server(answer("200 OK")) as server:
        with pytest.raises(Rejected, match="cannot be written"):
            CALM(Request(server.url, b"{}", {"Authorization": value}))
        assert not any(b"X: y" in seen for seen in server.seen)


def test_certificates_are_verified() -> None:
    """ADP-5.17: by chain and name."""
    context = CALM._certificates()
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname


# --- silence -----------------------------------------------------------------------------


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_no_url_in_any_log(everything: pytest.LogCaptureFixture) -> None:
    """ADP-5.18: httpx and httpcore log URLs and headers; ours never, others' as before."""
    with Server(answer("200 OK")) as server:
        post(server)
        assert HUSH not in everything.text
        assert httpx.get(server.url, trust_env=False).status_code == 200
    assert HUSH in everything.text


def test_only_here() -> None:
    """One file imports the HTTP client, so that one file decides what is certain."""
    folder = Path(wakebus.__file__).parent
    importers = {
        file.name
        for package in ("adapters", "broker", "plugin")
        for file in (folder / package).rglob("*.py")
        if re.search(r"^\s*(import|from) (httpx|httpcore|requests)\b", file.read_text(), re.M)
    }
    assert importers == {"https.py"}


def test_connections_are_not_kept() -> None:
    """ADP-5.15: one that the server would close meanwhile could not be told from a lost answer."""
    with Server(answer("200 OK", b"{}", "Connection: keep-alive")) as server:
        for _ in range(3):
            assert post(server).body == b"{}"
        assert len(server.seen) == 3
