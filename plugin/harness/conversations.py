"""
Which conversation of its program belongs to which session of an endpoint, on disk.

Rule 1: one for each session: who sends is no part of it. Rule 2: what the disk does not take is
known as long as this process lives, and told. Rule 3: the process that has a turn in one is noted:
a listener that was killed leaves it for a moment, and no second turn may begin beside it. Rule 4: a
file that is no such file is begun anew.
"""

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from wakebus.broker.system.durable_file import make_folders, replace_file
from wakebus.broker.system.processes import Process
from wakebus.plugin.harness.agent_command import AgentConversation

MAX_KEPT: Final = 1000  # sessions; of more, those that had a turn last

log: Final = logging.getLogger("wakebus.turns")


class KeptConversation(NamedTuple):
    """`process`: who has a turn in it now, or had one when its listener was killed."""

    conversation: AgentConversation
    process: Process | None = None


class ConversationFile:
    """Those of one endpoint and program (`harness`, its name), in `file`. Thread-safe."""

    def __init__(self, file: Path, harness: str) -> None:
        self._file, self._harness = file, harness
        self._lock = threading.Lock()
        self._kept: dict[str, KeptConversation] | None = None

    def conversation_of(self, session: str) -> KeptConversation | None:
        """Return the conversation of a session, None where it has none."""
        with self._lock:
            return self._opened().get(session)

    def save(self, session: str, kept: KeptConversation) -> str:
        """Keep it, on disk when this returns; return why that is not so, "" where it is."""
        with self._lock:
            all_kept = self._opened()
            all_kept.pop(session, None)
            all_kept[session] = kept
            while len(all_kept) > MAX_KEPT:
                del all_kept[next(iter(all_kept))]
            told = {name: _to_json(one) for name, one in all_kept.items()}
            data = json.dumps({"harness": self._harness, "sessions": told}).encode()
            try:
                make_folders(self._file.parent, 0o700)
                replace_file(self._file, data)
            except OSError as exc:
                return f"{self._file}: {exc.strerror or exc}"
        return ""

    def _opened(self) -> dict[str, KeptConversation]:
        if self._kept is None:
            self._kept = {}
            try:
                found = json.loads(self._file.read_bytes())
                if found["harness"] == self._harness:
                    told: Mapping[str, Any] = found["sessions"]
                    self._kept = {name: _from_json(one) for name, one in told.items()}
            except FileNotFoundError:
                pass
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
                log.warning("conversations begin anew: %s: %s", self._file, exc)
        return self._kept


def _to_json(kept: KeptConversation) -> dict[str, Any]:
    process = {"process": list(kept.process)} if kept.process else {}
    return {**kept.conversation._asdict(), **process}


def _from_json(data: Mapping[str, Any]) -> KeptConversation:
    conversation = AgentConversation(str(data["id"]), data["begun"] is True)
    if "process" not in data:
        return KeptConversation(conversation)
    pid, start = data["process"]
    return KeptConversation(conversation, Process(int(pid), float(start)))


def conversations_file(bus: Path, endpoint: str) -> Path:
    """Return where the conversations of `endpoint` are kept."""
    return bus / "conversations" / f"{endpoint}.json"
