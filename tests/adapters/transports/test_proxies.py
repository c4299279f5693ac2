"""Which proxy a request goes through, with real proxies on this machine."""

import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fakes.proxy import Asked, ProxyServer
from fakes.raw_http_server import AUTHORITY, Server, answer
from wakebus.adapters.base import Request
from wakebus.adapters.errors import NotSent, Unavailable
from wakebus.adapters.inspect.proxy_settings import proxy_faults
from wakebus.adapters.settings.environment import Environment
from wakebus.adapters.settings.redact import redact, secret_values
from wakebus.adapters.transports.https import Https
from wakebus.adapters.transports.proxies import is_exempt, masked, parse_proxy, proxy_for

HUSH = "hush-7f3a"
CHAT = "chat.example"


class Ways:
    """A platform behind TLS that only proxies reach; `post` sends to it under these settings."""

    def __init__(self, port: int, trusted: str) -> None:
        self.port, self._trusted = port, trusted

    def post(self, platform: str = "telegram", host: str = CHAT, **env: str) -> int:
        """Return the status."""
        settings = {"SSL_CERT_FILE": self._trusted, **env}
        transport = Https(connect_s=5.0, env=lambda: settings)
        return transport(Request(f"https://{host}/send", b"{}", platform=platform)).status


@pytest.fixture
def ways(tmp_path: Path) -> Iterator[Ways]:
    """A server whose certificate is that of CHAT."""
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    with Server(answer("200 OK"), tls=True, names=(CHAT, "10.1.2.3", "fd00::1")) as server:
        yield Ways(server.port, str(tmp_path / "authority.pem"))


@pytest.mark.parametrize("kind", ["http", "socks5", "socks5h", "socks"])
@pytest.mark.parametrize("user", ["", f"me:{HUSH}"])
def test_b4_through_a_real_proxy(ways: Ways, kind: str, user: str) -> None:
    """ADP-5.27: CONNECT and SOCKS; names are resolved there; user and password are shown to it."""
    with ProxyServer("http" if kind == "http" else "socks5", ways.port, user) as proxy:
        at = f"{user}@" if user else ""
        assert ways.post(HTTPS_PROXY=f"{kind}://{at}127.0.0.1:{proxy.port}") == 200
        assert proxy.asked == [Asked(CHAT, 443, user)]


@pytest.mark.parametrize("name", ["TELEGRAM_PROXY", "telegram_proxy"])
def test_b4_a_platforms_own_proxy(ways: Ways, name: str) -> None:
    """ADP-5.27: it comes before HTTPS_PROXY, and is nobody else's."""
    with ProxyServer("http", ways.port) as own, ProxyServer("socks5", ways.port) as house:
        env = {name: f"127.0.0.1:{own.port}", "HTTPS_PROXY": f"socks5h://127.0.0.1:{house.port}"}
        assert ways.post("telegram", **env) == 200
        assert (len(own.asked), len(house.asked)) == (1, 0)
        assert ways.post("discord", **env) == 200
        assert (len(own.asked), len(house.asked)) == (1, 1)


def test_b4_a_bad_value_stops_only_what_goes_through_it(ways: Ways) -> None:
    """ADP-5.27: named by its variable, the password masked; other platforms go on."""
    with ProxyServer("http", ways.port) as house:
        env = {
            "TELEGRAM_PROXY": f"socks4://me:{HUSH}@10.0.0.1:1080",
            "HTTPS_PROXY": f"http://127.0.0.1:{house.port}",
        }
        with pytest.raises(NotSent) as caught:
            ways.post("telegram", **env)
        assert caught.value.text.startswith(
            "TELEGRAM_PROXY: socks4://***@10.0.0.1:1080 is no proxy"
        )
        assert "socks5h://HOST:PORT" in caught.value.text and HUSH not in caught.value.text
        assert ways.post("discord", **env) == 200


def test_b4_a_proxy_that_does_not_work_is_named(ways: Ways) -> None:
    """ADP-5.27: nobody there, a wrong password: the variable, and no password."""
    with pytest.raises(NotSent) as caught:
        ways.post(HTTPS_PROXY=f"http://me:{HUSH}@127.0.0.1:1")
    assert "through HTTPS_PROXY=http://***@127.0.0.1:1: Connection refused" in caught.value.text
    for kind, words in (("http", "status 407, it wants a user"), ("socks5", "the proxy refused")):
        with ProxyServer(kind, ways.port, "me:other-word") as proxy:
            with pytest.raises(NotSent) as caught:
                ways.post(ALL_PROXY=f"{kind}://me:{HUSH}@127.0.0.1:{proxy.port}")
            assert words in caught.value.text and "ALL_PROXY" in caught.value.text
            assert HUSH not in caught.value.text


def test_b4_without_the_package_for_socks(ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.27: what to install is said."""
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(NotSent, match=r"HTTPS_PROXY=socks5://.*pip install 'httpx\[socks\]'"):
        ways.post(HTTPS_PROXY="socks5://127.0.0.1:1")


def test_b4_no_proxy_with_a_network(ways: Ways) -> None:
    """ADP-5.27: an address in it is asked directly, where nothing answers; another by the proxy."""
    with ProxyServer("http", ways.port) as proxy:
        env = {
            "HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}",
            "NO_PROXY": "10.0.0.0/16,[fe80::]/10",
        }
        assert ways.post(host="10.1.2.3", **env) == 200
        assert ways.post(host="[fd00::1]", **env) == 200
        assert [asked.host for asked in proxy.asked] == ["10.1.2.3", "fd00::1"]


@pytest.mark.parametrize(
    ("entries", "host", "port", "exempt"),
    [
        ("*", "a.example", 443, True),
        ("a.example", "a.example", 443, True),
        ("a.example", "b.a.example", 443, True),
        ("a.example", "ba.example", 443, False),
        (".a.example", "a.example", 443, True),
        ("*.a.example", "x.a.example", 443, True),
        ("A.Example.", "a.example", 443, True),
        ("a.example:8443", "a.example", 443, False),
        ("a.example:8443", "a.example", 8443, True),
        ("https://a.example/", "a.example", 443, True),
        ("10.0.0.0/8", "10.9.8.7", 443, True),
        ("10.0.0.7/8", "10.9.8.7", 443, True),
        ("10.0.0.0/8", "11.0.0.1", 443, False),
        ("10.0.0.1", "10.0.0.1", 443, True),
        ("10.0.0.1:8443", "10.0.0.1", 443, False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", 443, True),
        ("192.168.*", "192.168.4.5", 443, True),
        ("::1", "::1", 443, True),
        ("[::1]", "::1", 443, True),
        ("[::1]:8443", "::1", 443, False),
        ("[::1]:8443", "::1", 8443, True),
        ("2001:db8::/32", "2001:db8:1::5", 443, True),
        ("[2001:db8::]/32", "2001:db8:1::5", 443, True),
        ("[2001:db8::/32]", "2001:db8:1::5", 443, True),
        ("2001:DB8:0:0::/32", "2001:db8::5", 443, True),
        ("fd00::/8", "2001:db8::5", 443, False),
        ("fe80::/10", "fe80::1%eth0", 443, True),
        ("fd00::/8", "10.0.0.1", 443, False),
        ("10.0.0.0/99", "10.0.0.1", 443, False),
        ("x, y z\ta.example", "a.example", 443, True),
        ("", "a.example", 443, False),
    ],
)
def test_b4_no_proxy(entries: str, host: str, port: int, exempt: bool) -> None:
    """ADP-5.27: hosts, addresses, networks and ports, as Hermes reads them."""
    assert is_exempt(host, port, {"no_proxy": entries}) is exempt
    assert is_exempt(host, port, {"NO_PROXY": entries, "no_proxy": "other"}) is exempt


def test_b4_hermes_reads_no_proxy_so() -> None:
    """ADP-5.27: a platform's own proxy keeps to NO_PROXY, too."""
    env = {"TELEGRAM_PROXY": "http://p:1", "NO_PROXY": "api.telegram.org"}
    assert proxy_for("telegram", "api.telegram.org", 443, env) is None
    assert proxy_for("telegram", "other.example", 443, env) == ("http://p:1", "TELEGRAM_PROXY")


def test_b4_in_hermes_env(tmp_path: Path) -> None:
    """ADP-5.27: `.env` comes before the environment, in whatever spelling; empty hides."""
    (tmp_path / ".env").write_text("HTTPS_PROXY=http://house:3128\nDISCORD_PROXY=\n")
    (tmp_path / ".env").chmod(0o600)
    process = {"https_proxy": "http://old:1", "DISCORD_PROXY": "http://older:1"}
    env = Environment(process, tmp_path / ".env")()
    for platform in ("telegram", "discord", ""):
        assert proxy_for(platform, CHAT, 443, env) == ("http://house:3128", "HTTPS_PROXY")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"http://me:{HUSH}@10.0.0.1:3128", "http://***@10.0.0.1:3128"),
        (f"me:{HUSH}@10.0.0.1:3128", "***@10.0.0.1:3128"),
        (f"http://me:{HUSH}/@x@10.0.0.1", "http://***@10.0.0.1"),
        (f"http://me:{HUSH}", "http://***"),
        (f"socks5://u:{HUSH}@[fd00::1]:1080/", "socks5://***@[fd00::1]:1080/"),
        (f"{HUSH}@://x", "***://x"),
        ("nonsense:", "***"),
        ("http://[:::", "http://***"),
        (f"http://host:3128/{HUSH}", "http://***"),
    ],
)
def test_b4_masked(value: str, shown: str) -> None:
    """ADP-5.27: scheme, host and port at most."""
    assert masked(value) == shown


@pytest.mark.parametrize(
    "value",
    [
        "nonsense:",
        "ftp://h:1",
        "socks4://h:1",
        "http://",
        "http://h:99999",
        "http://h:x",
        "http://:1",
    ],
)
def test_b4_no_proxy_at_all(value: str) -> None:
    """ADP-5.27: each is named before anything is sent."""
    with pytest.raises(Unavailable, match=r"^DISCORD_PROXY: .* is no proxy: .*; write http://HOST"):
        parse_proxy("DISCORD_PROXY", value)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"TELEGRAM_PROXY": "socks4://h:1"}, [("TELEGRAM_PROXY", "no proxy")]),
        ({"all_proxy": "h:x", "HTTPS_PROXY": "http://h:1"}, [("all_proxy", "no proxy")]),
        ({"NO_PROXY": "10.0.0.0/99,::1,a.example"}, [("NO_PROXY", "'10.0.0.0/99' is no network")]),
        ({"no_proxy": "[::g]"}, [("no_proxy", "'[::g]' is no network")]),
        ({"HTTPS_PROXY": "h", "NO_PROXY": "*,[::1]:80,fd00::/8,x:80"}, []),
    ],
)
def test_b4_faults(env: Mapping[str, str], words: list[tuple[str, str]]) -> None:
    """ADP-5.27: `wakebus settings check` names each."""
    found = list(proxy_faults(env))
    assert [name for name, _ in found] == [name for name, _ in words]
    assert all(word in fault for (_, fault), (_, word) in zip(found, words, strict=True))


def test_b4_a_password_is_a_secret() -> None:
    """ADP-5.14: wherever it stands, as it is and unquoted."""
    secrets = secret_values(
        {"HTTPS_PROXY": "http://me:hush%21word@h:1", "telegram_proxy": "u:p4ssw0rd@h"}
    )
    assert redact("hush%21word hush!word p4ssw0rd h:1", secrets) == "*** *** *** h:1"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_b4_certificates_by_the_settings(ways: Ways, name: str, tmp_path: Path) -> None:
    """ADP-5.17: `.env` says where they are, too; what cannot be read is named."""
    with ProxyServer("http", ways.port) as proxy:
        env = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}", "SSL_CERT_FILE": ""}
        with pytest.raises(NotSent, match=r"certificate|TLS|SSL"):
            ways.post(**env)
    if name == "SSL_CERT_FILE":
        with pytest.raises(NotSent, match="SSL_CERT_FILE cannot be read: No such file"):
            ways.post(SSL_CERT_FILE=str(tmp_path / "gone.pem"))
        (tmp_path / "empty.pem").touch()
        with pytest.raises(NotSent, match="SSL_CERT_FILE cannot be read"):
            ways.post(SSL_CERT_FILE=str(tmp_path / "empty.pem"))
    assert ssl.CERT_REQUIRED
