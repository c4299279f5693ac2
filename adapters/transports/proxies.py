"""
Which proxy a request goes through: `<PLATFORM>_PROXY` (Hermes's TELEGRAM_PROXY, DISCORD_PROXY),
else HTTPS_PROXY, else ALL_PROXY, unless NO_PROXY names its host.

Rule 1: pure. Rule 2: a value that is no proxy is named by its variable, and stops only what would
go through it. Rule 3: no credential of a value is ever shown. Rule 4: NO_PROXY is read as Hermes
reads it (agent/proxy_bypass.py): `*`, hosts with all below them (`.example.com`, `*.example.com`),
addresses and networks of both kinds, each with `:PORT` if it has one, in both spellings of the
variable. httpx alone knows no network and no `[::1]`.
"""

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from wakebus.adapters.errors import Unavailable

SCHEMES: Final = ("http", "https", "socks5", "socks5h")
HOW: Final = "write http://HOST:PORT, https://HOST:PORT or socks5h://HOST:PORT"
EVERYWHERE: Final = ("HTTPS_PROXY", "ALL_PROXY")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,15}\Z", re.IGNORECASE)
_PLACE: Final = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]{1,253})(:\d{1,5})?/?\Z", re.IGNORECASE)
_VISIBLE: Final = re.compile(r"[!-~]{1,2048}\Z")
_WITH_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]+):(\d{1,5})\Z")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class OutboundProxy(NamedTuple):
    """A proxy; `name`: the variable that says so."""

    url: str
    name: str

    @property
    def shown(self) -> str:
        """What people are told of it: no credential."""
        return f"{self.name}={masked(self.url)}"

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken with the proxy itself."""
        return self.url.lower().startswith("https:")


def proxy_for(platform: str, host: str, port: int, env: Mapping[str, str]) -> OutboundProxy | None:
    """
    Return the proxy for a request of `platform` to this host, None for none.

    env: the settings; `inherited`, if it has that, are the names that stand only in the process's
    environment and come last. Raises Unavailable that names the variable.
    """
    names = [variable_of(platform)] if platform else []
    for name in (*names, *EVERYWHERE):
        if said := _said(name, env):
            return (
                None if is_exempt(host, port, env) else OutboundProxy(parse_proxy(*said), said[0])
            )
    return None


def variable_of(platform: str) -> str:
    """Return the variable of a platform's own proxy."""
    return f"{re.sub(r'[^A-Za-z0-9]', '_', platform).upper()}_PROXY"


def _said(name: str, env: Mapping[str, str]) -> tuple[str, str] | None:
    inherited: Collection[str] = getattr(env, "inherited", ())
    spellings = sorted((name, name.lower()), key=lambda one: one in inherited)
    found = ((one, env.get(one, "").strip()) for one in spellings)
    return next((one for one in found if one[1]), None)


def parse_proxy(name: str, value: str) -> str:
    """Return the URL of a proxy; raise Unavailable that names the variable."""
    url = value.strip() if "://" in value else f"http://{value.strip()}"
    if url.lower().startswith("socks://"):  # as desktops export it; Hermes reads it so
        url = f"socks5{url[5:]}"
    if fault := _fault(url):
        raise Unavailable(f"{name}: {masked(value)} is no proxy: {fault}; {HOW}")
    return url


def _fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "its host or port is none"
    if parts.scheme not in SCHEMES:
        return "its scheme is none of these"
    if not parts.hostname or port == 0 or parts.netloc.endswith(":") or not _VISIBLE.match(url):
        return "its host or port is none"
    return ""


def masked(value: str) -> str:
    """Return what may be shown of a proxy's URL: scheme, host and port."""
    scheme, mark, rest = value.strip().rpartition("://")
    user, at, place = rest.rpartition("@")
    head = scheme.partition("://")[0] + mark if _SCHEME.match(scheme) else "***" * bool(mark) + mark
    return head + "***@" * bool(at or user) + (place if _PLACE.match(place) else "***")


def is_exempt(host: str, port: int, env: Mapping[str, str]) -> bool:
    """Whether NO_PROXY says that this host is reached without a proxy."""
    return any(_matches(entry, host, port) for _, entry in exempt_entries(env))


def exempt_entries(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the entries of NO_PROXY, each with the spelling of the variable that it is in."""
    for name in ("NO_PROXY", "no_proxy"):
        yield from ((name, entry) for entry in re.split(r"[\s,]+", env.get(name, "")) if entry)


def entry_fault(entry: str) -> str:
    """Return what is wrong with an entry of NO_PROXY, "" where it can mean something."""
    token, _ = _split(entry)
    network = "/" in token or ":" in token
    wrong = network and _network(token) is None
    return f"{entry[:80]!r} is no network, as 10.0.0.0/8 or fd00::/8" if wrong else ""


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether one entry of NO_PROXY means this host, and this port if it names one."""
    if entry == "*":
        return True
    token, wanted = _split(entry)
    if not token or (wanted is not None and wanted != port):
        return False
    host = host.lower().strip("[]").rstrip(".")
    if (network := _network(token)) is not None:
        address = _address(host)
        return address is not None and address.version == network.version and address in network
    name = token.removeprefix("*").removeprefix(".")
    return host == name or host.endswith(f".{name}") or ("*" in token and fnmatchcase(host, token))


def _split(entry: str) -> tuple[str, int | None]:
    """Return host or network and port of an entry: `[::1]:8080`, `https://host`, `[fd00::]/8`."""
    token = entry.lower().partition("://")[2].partition("/")[0] if "://" in entry else entry.lower()
    port = None
    if found := _WITH_PORT.match(token):
        token, port = found[1], int(found[2])
    return token.replace("[", "").replace("]", "").rstrip("."), port


def _network(token: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(token, strict=False)
    except ValueError:
        return None


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
