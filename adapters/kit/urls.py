"""
URLs and credentials that come from settings and messages, checked before anything is sent.

Rule 1: pure. Rule 2: a credential leaves this machine over TLS only; `http:` is for loopback,
where tests and local proxies live. Rule 3: an error names the variable, never its value: a
webhook's URL is a credential. Rule 4: a URL out of a message is used only on the very host that
the settings name: whoever writes a message must not choose where texts go.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

from wakebus.adapters.errors import BadSetting

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_URL: Final = (
    "not a URL to send to; write https://HOST/PATH (http only for 127.0.0.1; no user:password@)"
)
_FRAGMENT: Final = "a URL to send to has no fragment; take the # and what is behind it away"
# Also in a network of one's own: whoever listens there would have the token.
_CLEAR: Final = (
    "http would carry the credential and all texts in the clear; write https://HOST/PATH (put TLS"
    " in front of a server of your own; http only for 127.0.0.1; no user:password@)"
)
# urlsplit drops tabs and newlines; a client that does not would ask another host.
# No platform's webhook has 300 characters; httpx refuses a longer URL than 64 KiB, which would
# condemn a text that another way can take.
_HEADER: Final = re.compile(r"[!-~]+\Z")
_VISIBLE: Final = re.compile(r"[!-~]{1,2048}\Z")


def setting(env: Mapping[str, str], name: str) -> str:
    """Return a setting without the spaces around it, "" where it is not set; or BadSetting."""
    value = env.get(name, "").strip()
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise BadSetting(f"{name}: is not UTF-8")  # bytes of the environment; no body can hold them
    return value


def credential(env: Mapping[str, str], name: str) -> str:
    """Return a token, "" where it is not set; raise BadSetting for one that no header can hold."""
    token = setting(env, name)
    if token and not _HEADER.match(token):
        raise BadSetting(f"{name}: has characters that no token has; copy it again")
    return token


def pair(env: Mapping[str, str], one: str, other: str) -> tuple[str, str] | None:
    """Return two settings that belong together, None without both; one alone is BadSetting."""
    values = setting(env, one), setting(env, other)
    if all(values):
        return values
    if any(values):
        missing, there = (one, other) if values[1] else (other, one)
        raise BadSetting(f"{missing} is not set, and {there} is; set both in $HERMES_HOME/.env")
    return None


def base_url(env: Mapping[str, str], name: str, default: str) -> str:
    """Return a base URL without its last slash: the setting, else `default`."""
    url = webhook_url(env, name) or default
    if "?" in url:
        raise BadSetting(f"{name}: a base URL has no query, as {default}")
    return url.rstrip("/")


def webhook_url(env: Mapping[str, str], name: str) -> str:
    """Return the URL in a setting, "" where it is not set; raise BadSetting for no safe URL."""
    url = setting(env, name)
    parts = _split(url)
    if url and (parts is None or not _safe(parts)):
        raise BadSetting(f"{name}: {_CLEAR if url.lower().startswith('http:') else _NO_URL}")
    if "#" in url:  # it would swallow the query that is put behind it
        raise BadSetting(f"{name}: {_FRAGMENT}")
    return url


def is_on_base(url: str, base_url: str, path: str) -> bool:
    """Whether `url` is `path` on exactly this scheme, host and port, with no userinfo."""
    found, wanted = _split(url), _split(base_url)
    if found is None or wanted is None:
        return False
    same = found.scheme == wanted.scheme and found.netloc.lower() == wanted.netloc.lower()
    return same and found.path == wanted.path.rstrip("/") + path and "#" not in url


def is_safe(url: str) -> bool:
    """Whether texts and credentials may go to this URL."""
    parts = _split(url)
    return parts is not None and _safe(parts)


def require(there: object, names: str, others: Sequence[str] = ()) -> None:
    """Raise BadSetting that names the variables, and those that are set, unless it is there."""
    if not there:
        known = f"; set are {', '.join(others[:10])}" if others else ""
        raise BadSetting(f"{names}: not set in $HERMES_HOME/.env, and this chat needs it{known}")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url) if _VISIBLE.match(url) and "\\" not in url else None
        _ = parts and parts.port  # a port that is no number raises only when it is read
    except ValueError:
        return None
    return parts


def _safe(parts: SplitResult) -> bool:
    if not parts.hostname or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
