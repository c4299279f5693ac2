"""
The owner's grant for gateway turns: `plugins.entries.wakebus.allow_gateway_injection`.

Rule 1: only a plain `true` in config.yaml is a grant; what cannot be read is none. Rule 2: it is
the key that Hermes itself asks for `ctx.inject_message(session_key=…)` after August 2026: one grant
for both. Rule 3: the file is read again when it has changed. Rule 4: where it is no YAML, that is
what is told, for the grant may well stand in it.
"""

import threading
from pathlib import Path
from typing import Any, Final

import yaml

from wakebus.plugin.install import next_steps
from wakebus.plugin.install.hermes_config import GRANT

_Stamp = tuple[int, int, int]
LINE: Final = f"{'.'.join(GRANT)}: true"
HOW: Final = f"`{LINE}` in config.yaml turns gateway turns on"


def how_to_grant(home: Path) -> str:
    """Return what a user can do who wants gateway turns in the Hermes of `home`."""
    return f"{HOW} ({next_steps.install(home, '--allow-gateway-turns')} writes it)"


class TurnGrant:
    """
    The grant of the profile at `home`: call it for whether it is given.

    `how`: what to do; `waiting_note`: what is told of a message that begins no turn without it.
    """

    def __init__(self, home: Path) -> None:
        self._file, self._how = home / "config.yaml", how_to_grant(home)
        self._lock = threading.Lock()
        self._last: tuple[_Stamp, bool, str] | None = None

    @property
    def how(self) -> str:
        """What to do, as the file was when it was last asked for the grant."""
        last = self._last
        return (last and last[2]) or self._how

    @property
    def waiting_note(self) -> str:
        """What is told of a message that begins no turn."""
        return f"no turn, it waits for the session's next one: {self.how}"

    def __call__(self) -> bool:
        """Return whether the owner lets the bus start turns in a gateway."""
        try:
            stat = self._file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            with self._lock:
                if self._last is None or self._last[0] != stamp:
                    self._last = stamp, *_read(self._file)
                return self._last[1]
        except OSError:
            return False


def is_granted(config: Any) -> bool:
    """Return whether a config says the grant."""
    for key in GRANT:
        config = config.get(key) if isinstance(config, dict) else None
    return config is True


def _read(file: Path) -> tuple[bool, str]:
    """Return whether a file grants turns, and what is wrong with it as YAML, "" for nothing."""
    try:
        return is_granted(yaml.safe_load(file.read_text(encoding="utf-8"))), ""
    except OSError:
        raise
    except Exception as exc:  # also KeyError of `!!bool maybe`, ValueError, RecursionError
        mark = getattr(exc, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        return (
            False,
            f"{where}: no YAML; Hermes ignores the whole file, also a grant in it: repair it",
        )
