"""
The sessions that a gateway has stored, as `hermes_state` shows them to plugins.

The module is one that Hermes 0.22 names public (hermes_cli/plugin_validate_private_imports.py:44).
Rule 1: only read; the database is open for one look. Rule 2: the list holds for a second: whole
prompts stand in it; one session is looked up as it is now. Rule 3: what cannot be read is no
session, and is told once.
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


class KeptSession(NamedTuple):
    """A session: the id of its history, its key, who began it."""

    id: str
    key: str
    source: Any


class StoredSessions:
    """The sessions in a profile's home. Thread-safe. `open_database` is replaced by tests."""

    def __init__(self, home: Path, open_database: Callable[[Path], Any] | None = None) -> None:
        self._file, self._open = home / DATABASE, open_database or open_read_only
        self._lock = threading.Lock()
        self._kept: list[KeptSession] = []
        self._read_at = -FRESH_S
        self._problem = ""

    def newest_first(self) -> list[KeptSession]:
        """Return the newest of each key, as they were a second ago at most."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                # Also what was ended: after /new a session's row comes only with its first turn.
                rows = self._look(lambda found: found.list_gateway_sessions(active_only=False))
                if rows is not None:
                    self._kept = [one for row in rows if (one := _kept(row))]
                self._read_at = time.monotonic()
            return self._kept

    def by_id(self, session_id: str) -> KeptSession | None:
        """Return the session of a history; None where it is no gateway's."""
        with self._lock:
            row = self._look(lambda found: found.get_session(session_id))
        return _kept(row) if row else None

    def _look(self, ask: Callable[[Any], Any]) -> Any:
        """Return what the database says (hermes_state_gateway.py:422), None where it cannot."""
        if not self._file.exists():
            return None
        try:
            with closing(self._open(self._file)) as found:
                said, problem = ask(found), ""
        except Exception as exc:  # another Hermes, a database in repair
            said, problem = None, f"Hermes's sessions cannot be read: {type(exc).__name__}: {exc}"
        if problem and problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem
        return said


def open_read_only(file: Path) -> Any:
    """Return Hermes's SessionDB of a file. Raises what Hermes raises."""
    return import_module("hermes_state").SessionDB(file, read_only=True)


def source_of(fields: Mapping[str, Any], platform: str = "") -> SimpleNamespace:
    """Return a SessionSource that came as a mapping (gateway/session.py, `to_dict`)."""
    named = ("chat_id", "thread_id", "user_id", "profile")
    found = {name: None if fields.get(name) is None else str(fields[name]) for name in named}
    kind = str(fields.get("chat_type") or "dm")
    return SimpleNamespace(
        **found, platform=str(fields.get("platform") or platform), chat_type=kind
    )


def _kept(row: Mapping[str, Any]) -> KeptSession | None:
    try:
        origin = json.loads(row.get("origin_json") or "{}")
    except ValueError:
        origin = None
    if not isinstance(origin, dict) or not origin.get("chat_id") or not row.get("session_key"):
        return None
    source = source_of(origin, str(row.get("source") or ""))
    return KeptSession(str(row.get("id") or ""), str(row["session_key"]), source)
