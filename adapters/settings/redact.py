"""
A request as it may be shown: to the person who asks what would be sent, and in an error.

Rule 1: pure. Rule 2: hidden by name: what settings, headers, query parameters and JSON fields call
a secret; a setting for a chat, a pace, a host or a port is none. Rule 3: hidden by place: what
follows a hook in a path, a bot's token, a query value that is no plain word. Rule 4: hidden by
value: whatever a setting holds, wherever it stands, as it is or escaped. Rule 5: all the rest is
shown as it is, the text above all.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from wakebus.adapters.base import Request

REDACTED: Final = "***"
SHORTEST: Final = 6  # a shorter value would be found in words; by name and place it is hidden

# WEBHOOK is the name of a platform, too: WEBHOOK_HOME_CHANNEL=deploys hides no text about deploys.
_SETTING: Final = re.compile(
    r"_KEY\Z|(_SECRET|_TOKEN|_PASSWORD)(_(?!FILE|PATH|URL|DIR)[A-Z0-9_]+)?\Z"
    r"|WEBHOOK(.*(URL|URI|ENDPOINT|SECRET|TOKEN|KEY|PASSWORD))?S?(_?\d+)?\Z"
)
_OPEN: Final = re.compile(
    r"_HOME_(CHANNEL|ROOM|ADDRESS)(_THREAD_ID)?\Z|_RATE_(CHAT|APP)\Z|_(HOST|PORT)\Z"
)
_SECRET: Final = re.compile(
    r"authorization|cookie|token|secret|passw|credential|api.?key|sign", re.IGNORECASE
)
_WORD: Final = re.compile(r"[a-z_]{1,24}\Z|\d{1,13}\Z")
_OPAQUE: Final = re.compile(r"[\w~.+-]{16,}\Z")
_HOOK: Final = re.compile(r"(/(?:hook|hooks|webhook|webhooks|services)/)[^?#]+", re.IGNORECASE)
_BOT: Final = re.compile(r"/bot[0-9]+:[^/?#]+")
_HEX: Final = re.compile(r"%[0-9A-F]{2}")
_URL_SAFE: Final = str.maketrans("+/", "-_")
_FIELD: Final = re.compile(r'("([A-Za-z_-]{1,40})"\s*:\s*)"(?:[^"\\]|\\.)*"')


def redacted_request(request: Request, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """
    Return `{"method", "url", "headers", "body"}`, all text, every secret as `***`.

    `secrets`: values that are hidden wherever they stand; see `secret_values`.
    """
    known = set(secrets)
    return {
        "method": request.method,
        "url": redact(_url(request.url), known),
        "headers": {
            name: REDACTED if _SECRET.search(name) else redact(value, known)
            for name, value in request.headers.items()
        },
        "body": redact(_body(request.body), known),
    }


def is_secret(name: str) -> bool:
    """Whether a setting is secret by its name."""
    if _SETTING.search(name) or name.startswith("APPRISE_URL"):
        return True
    return bool(_SECRET.search(name)) and not _OPEN.search(name)


def secret_values(env: Mapping[str, str]) -> set[str]:
    """Return the values of settings that are secret by their name; of a URL only what is secret."""
    found: set[str] = set()
    for name, value in env.items():
        if _SETTING.search(name):
            # Of user:password the password is one by itself.
            whole = value.strip()
            found |= _of_url(value) if "://" in value else {whole, whole.partition(":")[2]}
            found |= _paths(value, name.startswith("WEBHOOK_"))
        elif name.upper().endswith("_PROXY"):
            password = value.rpartition("@")[0].rpartition("://")[2].partition(":")[2]
            found |= {password, unquote(password)}
    return {value for value in found if len(value) >= SHORTEST}


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `***` for each secret, also where it is escaped for a URL or JSON."""
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= SHORTEST}
    for form in sorted(forms, key=len, reverse=True):  # one may be a part of another
        text = text.replace(form, REDACTED)
    return text


def _forms(secret: str) -> Iterator[str]:
    """Yield a value as it is, and as URLs, JSON and headers (`Basic`) write it."""
    yield secret
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield quoted
        yield _HEX.sub(lambda found: found[0].lower(), quoted)
    for ascii in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii)[1:-1]
    code = base64.b64encode(secret.encode(errors="replace")).decode()
    for one in (code, code.rstrip("=")):
        yield one
        yield one.translate(_URL_SAFE)


def _of_url(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        values = {value for name, value in parse_qsl(parts.query) if not _plain(name, value)}
        return values | {parts.password or "", *filter(_OPAQUE.match, parts.path.split("/"))}
    except ValueError:
        return {url}


def _paths(url: str, any_path: bool) -> set[str]:
    """Return the paths that a server quotes of a webhook (`Cannot POST /hooks/…`)."""
    whole = "/" + url.partition("://")[2].partition("/")[2]
    path, query, _ = whole.partition("?")
    found = {whole} if query else set()
    return found | ({path} if any_path or _HOOK.search(path) else set()) if path != "/" else found


def _plain(name: str, value: str) -> bool:
    # `key` is WeCom's credential in a URL; in headers and bodies it is the one against doubles.
    return name != "key" and not _SECRET.search(name) and bool(_WORD.match(value))


def _url(url: str) -> str:
    head, mark, query = url.partition("?")
    head = _BOT.sub(f"/bot{REDACTED}", _HOOK.sub(rf"\1{REDACTED}", head))
    head = re.sub(r"//[^/@]*@", f"//{REDACTED}@", head)
    return head + mark + "&".join(_parameter(one) for one in query.split("&"))


def _parameter(one: str) -> str:
    name, mark, value = one.partition("=")
    if not mark:
        return one if _WORD.match(one) or not one else REDACTED
    return one if _plain(name, value) else f"{name}={REDACTED}"


def _body(body: bytes) -> str:
    text = body.decode(errors="replace")
    if not text.lstrip().startswith("{"):
        return text
    return _FIELD.sub(lambda found: _field(found), text)


def _field(found: re.Match[str]) -> str:
    return f'{found[1]}"{REDACTED}"' if _SECRET.search(found[2]) else found[0]
