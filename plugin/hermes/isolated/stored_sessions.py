"""
The sessions that a gateway has stored, as `hermes_state` shows them to plugins.

The module is one that Hermes 0.22 names public (hermes_cli/plugin_validate_private_imports.py:44),
`SessionDB.list_gateway_sessions` of 0.22.2: hermes_state_gateway.py:422. Rule 1: only read. Rule 2:
what was read holds a second; who finds a session missing asks again. Rule 3: what cannot be read is
no session, and is told once.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

log = logging.getLogger("wakebus")

FRESH_S: Final = 1.0
DATABASE: Final = "state.db"

ReadRows = Callable[[Path], list[Mapping[str, Any]]]


class KeptSession(NamedTuple):
    """A session: the id of its history now, its key, who began it."""

    id: str
    key: str
    source: Any


def source_of(fields: Mapping[str, Any], platform: str = "") -> SimpleNamespace:
    """Return a SessionSource that came as a mapping (gateway/session.py, `to_dict`)."""
    named = ("chat_id", "thread_id", "user_id", "profile")
    found = {name: None if fields.get(name) is None else str(fields[name]) for name in named}
    kind = str(fields.get("chat_type") or "dm")
    return SimpleNamespace(
        **found, platform=str(fields.get("platform") or platform), chat_type=kind
    )


class StoredSessions:
    """The sessions in a profile's home. Thread-safe. `read_rows` is replaced by tests."""

    def __init__(self, home: Path, read_rows: ReadRows | None = None) -> None:
        self._file, self._read_rows = home / DATABASE, read_rows or read_database
        self._lock = threading.Lock()
        self._kept: list[KeptSession] = []
        self._read_at = -FRESH_S
        self._problem = ""

    def newest_first(self) -> list[KeptSession]:
        """Return all of them, as they were a second ago at most."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                self._read()
            return self._kept

    def by_id(self, session_id: str) -> KeptSession | None:
        """Return the session whose history has this id now."""
        return self._find(lambda one: one.id == session_id)

    def by_key(self, key: str) -> KeptSession | None:
        """Return the session with this key."""
        return self._find(lambda one: one.key == key)

    def _find(self, wanted: Callable[[KeptSession], bool]) -> KeptSession | None:
        found = next(filter(wanted, self.newest_first()), None)
        if found is None:  # it may be a moment old
            with self._lock:
                self._read()
                found = next(filter(wanted, self._kept), None)
        return found

    def _read(self) -> None:
        try:
            rows = self._read_rows(self._file) if self._file.exists() else []
            self._kept, problem = [one for row in rows if (one := _kept(row))], ""
        except Exception as exc:  # another Hermes, a database in repair: what was read last holds
            problem = f"Hermes's sessions cannot be read: {type(exc).__name__}: {exc}"
        self._read_at = time.monotonic()
        if problem and problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem


def read_database(file: Path) -> list[Mapping[str, Any]]:
    """Return the newest row of each session key. Raises what Hermes raises."""
    database = import_module("hermes_state").SessionDB(file, read_only=True)
    with closing(database):
        # Also what was ended: after /new a session's row comes only with its first turn.
        return list(database.list_gateway_sessions(active_only=False))


def _kept(row: Mapping[str, Any]) -> KeptSession | None:
    try:
        origin = json.loads(row.get("origin_json") or "{}")
    except ValueError:
        origin = None
    if not isinstance(origin, dict) or not origin.get("chat_id") or not row.get("session_key"):
        return None
    source = source_of(origin, str(row.get("source") or ""))
    return KeptSession(str(row.get("id") or ""), str(row["session_key"]), source)
