"""
Requests of the scheme `apprise:`, performed by the library of that name. Nothing else imports it.

Rule 1: imported with the first request; without the extra the answer says what to install. Rule 2:
what is wrong with the URL is said by its variable, before anything is sent, and Apprise's own log,
which quotes URLs and texts, is off. Rule 3: nothing is without bound: 5 s to connect, 15 s of
silence, 30 s in all, no retry, no redirect. Rule 4: a failure is a failure, also where the URL says
`optional=yes`, and what is over a service's limit is split, not cut off. Rule 5: one service per
call, made for it, on a thread of its own, so that calls share nothing; at most 64 to one name.
"""

import json
import logging
import threading
import warnings
from collections import defaultdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from wakebus.adapters.base import Request, Response
from wakebus.adapters.errors import Unavailable, Uncertain
from wakebus.adapters.platforms.apprise import URL_HEADER, own_adapter_hint, setting_of

if TYPE_CHECKING:
    from types import ModuleType

CONNECT_S: Final = 5.0
READ_S: Final = 15.0
TOTAL_S: Final = 30.0
MOST: Final = 64  # as many as the courier has lanes; one that hangs keeps its thread

_MISSING: Final = "Apprise is not installed; pip install 'wakebus[apprise]'"
_loading: Final = threading.Lock()


class AppriseCalls:
    """A transport. Thread-safe."""

    def __init__(self, total_s: float = TOTAL_S) -> None:
        self._total_s = total_s
        self._places = defaultdict[str, threading.BoundedSemaphore](
            partial(threading.BoundedSemaphore, MOST)
        )

    def __call__(self, request: Request) -> Response:
        """Return `{"sent": bool}` (200) or `{"error": …}` (400); raise Uncertain, if it hangs."""
        try:
            library = _library()
        except ImportError:
            return _answer(400, error=_MISSING)
        name = setting_of(request.url.partition(":")[2])
        service = _service(library, request.headers[URL_HEADER])
        if service is None:
            return _answer(400, error=f"{name}: not a URL that Apprise knows")
        if problem := own_adapter_hint(_schemes(service)):
            return _answer(400, error=problem)
        return _answer(200, sent=self._notified(library, service, request.body.decode(), name))

    def _notified(self, library: "ModuleType", service: Any, text: str, name: str) -> bool:
        """Return whether Apprise says that the service took the text."""
        places = self._places[name]
        if not places.acquire(blocking=False):
            raise Unavailable(f"{MOST} calls of Apprise to {name} hang already")
        ends: list[bool] = []

        def notify() -> None:
            try:
                ends.append(_notify(library, service, text))
            except Exception:  # a plugin's bug, somewhere on its way
                ends.append(False)
            finally:
                places.release()

        thread = threading.Thread(target=notify, name="apprise", daemon=True)
        thread.start()
        thread.join(self._total_s)
        if not ends:
            raise Uncertain(f"Apprise came to no end within {self._total_s:g} s")
        return ends[0]


@cache
def _library() -> "ModuleType":
    with _loading:
        with warnings.catch_warnings():  # 140 plugins, and what they import, are not ours to mend
            warnings.simplefilter("ignore")
            import apprise

            apprise.Apprise.instantiate("json://localhost")  # loads them all, once
        logging.getLogger("apprise").disabled = True
        logging.getLogger("urllib3").setLevel(logging.CRITICAL + 1)  # paths, retries
        return apprise


def _service(library: "ModuleType", url: str) -> Any:
    """Return the service of a URL, None for no URL of Apprise's."""
    # Without a time-out of its own it runs on our thread; its pool's would keep a host from ending.
    asset = library.AppriseAsset(
        app_id="wakebus", async_mode=False, service_timeout=0, http_redirects=False
    )
    try:
        service = library.Apprise.instantiate(url, asset=asset)
    except Exception:  # its text quotes the URL
        return None
    if service is None:
        return None
    for name, most in (("socket_connect_timeout", CONNECT_S), ("socket_read_timeout", READ_S)):
        setattr(
            service, name, min(vars(service).get(name) or most, most)
        )  # the URL's, if it has one
    service.retry = 0
    service.optional = service.redirects = False
    service.overflow_mode = library.OverflowMode.SPLIT
    return service


def _schemes(service: Any) -> list[str]:
    found: list[str] = []
    for value in (service.protocol, service.secure_protocol):
        found += [value] if isinstance(value, str) else list(value or ())
    return found


def _notify(library: "ModuleType", service: Any, text: str) -> bool:
    calls = library.Apprise(asset=service.asset)
    calls.add(service)
    # As text: where a service wants HTML, Apprise escapes it; Markdown might bring tags along.
    return bool(calls.notify(body=text, body_format=library.NotifyFormat.TEXT))


def _answer(status: int, **said: object) -> Response:
    return Response(status, json.dumps(said).encode())
