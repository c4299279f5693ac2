"""
What Hermes's gateway hooks tell, as events `gateway.**` (HERMES.md section 6).

Rule 1: `handle` runs on the gateway's event loop: it never waits, never raises, never returns
anything (a dict would deny or rewrite a slash command, gateway/run.py:10810 of hermes-agent
0.19.0). Rule 2: another thread publishes, through the client of the profile in which it happened;
nothing here starts a broker. Rule 3: only where and which, never what was said: no message, answer,
argument or user. Rule 4: bounded; what could not go out within a minute is dropped.

`agent:*` is not taken: the plugin's own hooks see turns, and a rule that starts a turn on
`gateway.agent.start` would start the next one by it.
"""

import logging
import queue
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.plugin.hermes.host_api.choose import home_now

MAX_WAITING: Final = 256
# At start the hook is faster than the plugin's connection; after a minute an event is no news.
KEEP_S: Final = 60.0
LOOK_S: Final = 0.2
MAX_FIELD: Final = 512  # a session key has at most 256 bytes
MAX_PLATFORMS: Final = 64

# What the gateway calls it, and what the event calls it.
FIELDS: Final = {
    "platform": "platform",
    "session_key": "session",  # so a rule's turn on this event goes to this session (RULES-2.6)
    "session_id": "session_id",
    "old_session_id": "old_session_id",
    "command": "command",
}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_:@-]")
_RUNTIME: Final = "wakebus.plugin.hermes.runtime"
_log: Final = logging.getLogger(__name__)

FindClient = Callable[[Path | None], Any]


def topic_of(event_type: str) -> str:
    """Return the topic of `gateway:startup`, `session:reset`, `command:new`, … Pure."""
    base, _, rest = event_type.partition(":")
    names = [rest] if base == "gateway" else [base, rest]
    return ".".join(["gateway", *(_segment(name) for name in names)])


def _segment(name: str) -> str:
    return _UNSAFE.sub("_", name)[:64] or "_"


def fields_of(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain facts of a hook's context that an event may carry. Pure."""
    named = {ours: context.get(theirs) for theirs, ours in FIELDS.items()}
    found: dict[str, Any] = {k: _text(v) for k, v in named.items() if isinstance(v, str) and v}
    if isinstance(platforms := context.get("platforms"), list | tuple):
        found["platforms"] = [_text(str(one)) for one in platforms[:MAX_PLATFORMS]]
    return found


def _text(value: str) -> str:
    return value[:MAX_FIELD].encode("utf-8", "replace").decode()


class _Waiting(NamedTuple):
    topic: str
    fields: dict[str, Any]
    home: Path | None
    since: float


class Outbox:
    """
    Events on their way to the bus.

    `find_client`: the client of the profile at a home (None: any), or None while there is none.
    """

    def __init__(self, find_client: FindClient) -> None:
        self._find_client = find_client
        self._waiting: queue.Queue[_Waiting] = queue.Queue(MAX_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, topic: str, fields: dict[str, Any], home: Path | None = None) -> None:
        """Take an event of the profile at `home`; a full outbox drops it."""
        fields = {**fields, "ts": time.time()}
        try:
            self._waiting.put_nowait(_Waiting(topic, fields, home, time.monotonic()))
        except queue.Full:
            _log.debug("wakebus: %s dropped, %d events wait", topic, MAX_WAITING)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # also after a fork
                name = "wakebus-gateway-events"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            event = self._waiting.get()
            try:
                self._publish(event)
            except Exception as exc:
                _log.debug("wakebus: %s not published: %s", event.topic, type(exc).__name__)

    def _publish(self, event: _Waiting) -> None:
        while (client := self._find_client(event.home)) is None:
            if time.monotonic() >= event.since + KEEP_S:
                return
            time.sleep(LOOK_S)
        client.publish(event.topic, event.fields)


def plugin_client(home: Path | None) -> Any:
    """Return the client of a profile of this process, or None."""
    find = getattr(sys.modules.get(_RUNTIME), "client_of", None)
    return find(home) if find is not None else None


_outbox: Final = Outbox(plugin_client)


def handle(event_type: str, context: Mapping[str, Any]) -> None:
    """Publish a gateway hook's event, if the plugin runs in this process."""
    try:
        if _RUNTIME in sys.modules:
            _outbox.put(topic_of(event_type), fields_of(context), home_now())
    except Exception as exc:
        _log.debug("wakebus: hook %s: %s", event_type, type(exc).__name__)
