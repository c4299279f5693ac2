"""
How the courier is, for people who look: `bus/courier.json`.

    {"pid", "started", "at", "settings", "set_up": {name: {"state", "problem", "home",
     "inherited"}}, "platforms": {name: {"circuit": "closed|open|probing", "hosts", "until", "why",
     "held", "sent", "rejected", "not_sent", "uncertain", "last_error", "last_error_at",
     "chats_held", "throttled_until"}}}

Times are Unix seconds; `settings` is the path of the `.env` that it reads, `set_up` the platforms
that it has an adapter for (inspect/set_up.py); `chats_held` counts the chats with a circuit that is
not closed; `hosts`, those that do not answer, `until` and `why`, of the first of them, stand there
while a circuit is not closed, and `throttled_until` while
the platform asks to wait. The counts are of this process.
Rule 1: 0600, replaced whole, at most once a second; no delivery rests on it. Rule 2: no text of a
message and no credential. Rule 3: what a dead courier left is told as such. Rule 4: a file that is
no such file is no state: who reads it trusts nothing in it.
"""

import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeGuard

import psutil

from wakebus.adapters.courier.channel_check import MOST, STATUS
from wakebus.broker.system.durable_file import replace_file
from wakebus.broker.system.processes import Process, has_ended

log = logging.getLogger(__name__)

FILE: Final = STATUS
EACH_S: Final = 1.0
_LARGEST: Final = 1e15
START_SLACK_S: Final = 1.0  # the kernel counts starts in hundredths, and from its own boot

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StatusFile:
    """The file of this process. `state` (of Unix seconds) returns the platforms."""

    def __init__(
        self,
        folder: Path,
        state: Callable[[float], Mapping[str, Any]],
        started: float,
        settings: Path | str = "",
        set_up: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._path, self._state, self._started = folder / FILE, state, started
        self._settings, self._set_up = str(settings), set_up
        self._written, self._ours = -math.inf, False
        self._shown: str | None = None
        self._said = ""

    def claim(self) -> None:
        """The name is ours: the file says so at the next look."""
        self._ours, self._shown, self._written = True, None, -math.inf

    def release(self) -> None:
        """The name is another's, and so is the file."""
        self._ours = False

    def write(self, now: float, *, anew: bool = False) -> None:
        """
        Write what has changed, if the file is ours.

        `anew`: also within the second, and what has not changed: people are told when it was last.
        """
        if not self._ours or (not anew and abs(now - self._written) < EACH_S):
            return
        told = {"set_up": self._set_up(), "platforms": self._state(now)}
        shown = json.dumps(told, sort_keys=True)
        if shown == self._shown and not anew:
            return
        head = {"pid": os.getpid(), "started": self._started, "at": now}
        whole = {**head, "settings": self._settings, **told}
        try:
            # Not durable: written each second, and an empty file is no status (rule 4).
            replace_file(self._path, json.dumps(whole).encode(), durable=False)
        except OSError as exc:
            if self._said != str(exc):
                self._said = str(exc)
                log.warning("%s cannot be written: %s", self._path, exc.strerror)
            return
        self._written, self._shown, self._said = now, shown, ""


class Status(NamedTuple):
    """What the file says; `alive`: whether the courier that wrote it runs."""

    pid: int
    started: float
    at: float
    alive: bool
    platforms: Mapping[str, Mapping[str, Any]]
    settings: str = ""
    set_up: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def read_status(folder: Path) -> Status | None:
    """Return what a courier of this bus wrote last, None where there is nothing to read."""
    try:
        descriptor = os.open(folder / FILE, _FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            found = json.loads(file.read(MOST))
        platforms = {name: _sound(one) for name, one in found["platforms"].items()}
        pid, started, at = (_number(found[name]) for name in ("pid", "started", "at"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    settings, set_up = found.get("settings"), found.get("set_up")
    path = settings if isinstance(settings, str) else ""
    rows = set_up.items() if isinstance(set_up, dict) else ()
    sound = {name: _sound(row) for name, row in rows if isinstance(row, dict)}
    return Status(int(pid), started, at, _alive(int(pid), started), platforms, path, sound)


def is_hidden(folder: Path) -> bool:
    """Whether this process may not look whether there is such a file."""
    try:
        (folder / FILE).lstat()
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def elsewhere(status: Status | None, own: Path) -> str:
    """Return the `.env` that the running courier reads, if it is another one than `own`."""
    if status is None or not status.alive or not status.settings:
        return ""
    same = os.path.realpath(status.settings) == os.path.realpath(own)
    return "" if same else status.settings


def _sound(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that can be shown; raise AttributeError for what has no fields."""
    return {name: value for name, value in one.items() if isinstance(value, str) or _fits(value)}


def _number(value: object) -> float:
    if not _fits(value):
        raise ValueError
    return value


def _fits(value: object) -> TypeGuard[float]:
    # JSON has 1e999, NaN and numbers of 400 digits: no time, no count, and each an error somewhere.
    return isinstance(value, int | float) and abs(value) < _LARGEST


def _alive(pid: int, started: float) -> bool:
    """Whether the process runs that had this pid then."""
    if pid <= 0 or has_ended(Process(pid)):
        return False
    try:
        return psutil.Process(pid).create_time() <= started + START_SLACK_S
    except (psutil.Error, OSError):  # no /proc: it is not known
        return True
