"""
Context that waits: texts that go in front of a session's next turn, once.

Rule 1: on disk before it is acknowledged: `bus/context/ENDPOINT.jsonl`, 0600, one item a line.
Rule 2: removed when the turn that showed it has ended; a turn cut off by a kill shows it again.
Rule 3: bounded; what is pushed out is counted and said to the model.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.broker import message as messages
from wakebus.broker.errors import WakebusError
from wakebus.plugin.receive.label import Item

MAX_ITEMS: Final = 100  # per session; a night of progress reports, of which the newest matter
MAX_TEXT: Final = 8 << 10  # characters of one item


class Waiting(NamedTuple):
    """What stands in front of a session's next turn; `dropped` items were pushed out before."""

    items: tuple[Item, ...] = ()
    dropped: int = 0


class Context:
    """The waiting texts of one endpoint, by session. Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._sessions: dict[str, list[Item]] = {}
        self._dropped: dict[str, int] = {}
        self._load()

    def add(self, session: str, item: Item) -> int:
        """Keep `item`, on disk when this returns; return how many wait. The same id is kept once.

        Raises OSError when the disk does not take it.
        """
        item = item._replace(text=_cut(item.text))
        with self._lock:
            waiting = self._sessions.setdefault(session, [])
            if all(item.message.id != other.message.id for other in waiting):
                waiting.append(item)
                if len(waiting) > MAX_ITEMS:
                    del waiting[0]
                    self._dropped[session] = self._dropped.get(session, 0) + 1
                    self._rewrite()
                else:
                    self._append(_line(session, item))
            return len(waiting)

    def waiting(self, session: str) -> Waiting:
        """Return what waits for `session`, oldest first."""
        with self._lock:
            items = tuple(self._sessions.get(session, ()))
            return Waiting(items, self._dropped.get(session, 0))

    def shown(self, session: str, waiting: Waiting) -> None:
        """Forget what a turn has shown."""
        gone = {item.message.id for item in waiting.items}
        with self._lock:
            left = [i for i in self._sessions.get(session, []) if i.message.id not in gone]
            self._sessions[session] = left
            self._dropped[session] = self._dropped.get(session, 0) - waiting.dropped
            if not left:
                self._sessions.pop(session)
                self._dropped.pop(session)
            if gone or waiting.dropped:
                self._rewrite()

    def _append(self, line: str) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(self._file, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self) -> None:
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        lines = [_line(s, item) for s, items in self._sessions.items() for item in items]
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)

    def _load(self) -> None:
        try:
            text = self._file.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        for line in text.splitlines():
            try:
                session, item = _parsed(json.loads(line))
            except (ValueError, KeyError, TypeError, WakebusError):
                continue  # the half line of a power cut: its message was not acknowledged
            self._sessions.setdefault(session, []).append(item)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[cut: {len(text)} characters]"


def _line(session: str, item: Item) -> str:
    rest: dict[str, Any] = item._asdict() | {"message": item.message.to_wire()}
    return json.dumps({"session": session, **rest}) + "\n"


def _parsed(data: dict[str, Any]) -> tuple[str, Item]:
    session = str(data.pop("session"))
    return session, Item(**{**data, "message": messages.from_wire(data["message"])})


def context_file(bus: Path, endpoint: str) -> Path:
    """Return where the waiting texts of `endpoint` lie."""
    return bus / "context" / f"{endpoint}.jsonl"
