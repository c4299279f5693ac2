"""
Answers of what stands before a platform: a redirect, and a limit on the size of requests.

Rule 1: pure. Rule 2: nothing is followed: the request has a text in it, and often a credential.
Rule 3: a place is shown without what may be one: hosts and plain words of a path only.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from wakebus.adapters.base import Response
from wakebus.adapters.errors import Rejected
from wakebus.adapters.sanitize import line

# RFC 9110, 15.5.14 and 15.5.15; RFC 6585, 5.
TOO_LARGE: Final = {413: "a request's size", 414: "a URL's length", 431: "the size of headers"}
_WORD: Final = re.compile(r"[a-z]{1,15}(?:\.[a-z]{2,4})?|v?\d{1,2}|")
_HOOK: Final = re.compile(r"hooks?|webhooks?|services|robot|bot", re.IGNORECASE)
_HOST: Final = re.compile(r"[A-Za-z0-9.:\[\]-]{1,253}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,19}|")


def refusal_before(response: Response) -> Rejected | None:
    """Return what an answer means that no platform writes: a redirect, a size; else None."""
    status = response.status
    if 300 <= status < 400:
        return Rejected(
            f"status {status}: {_where(response)}; redirects are not followed: set the URL to where"
            " it leads, or let this machine out past what leads there"
        )
    if what := TOO_LARGE.get(status):
        had = f" of {response.asked:,} bytes" if status == 413 and response.asked else ""
        return Rejected(
            f"status {status}: a server on the way has a limit on {what}, and takes no"
            f" request{had}; raise it there (nginx: client_max_body_size), or send less"
        )
    return None


def _where(response: Response) -> str:
    held = (value for name, value in response.headers.items() if name.lower() == "location")
    location = next(held, "").strip()
    return f"a redirect to {masked(location)}" if location else "a redirect to nowhere"


def masked(location: str) -> str:
    """Return a URL without query, user and what is no plain word of its path, which is `***`."""
    try:
        parts = urlsplit(line(location, 2000))
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "***"
    if not _SCHEME.fullmatch(parts.scheme) or not (not host or _HOST.fullmatch(host)):
        return "***"
    shown, hidden = list[str](), False
    for segment in parts.path.split("/")[:20]:
        hidden = hidden or any(map(_HOOK.fullmatch, shown))
        shown.append(segment if _WORD.fullmatch(segment) and not hidden else "***")
    path = "/".join(shown) + ("?***" if parts.query else "")
    return f"{parts.scheme}://{host}{path}" if host else path or "***"
