"""
The owner's grant for gateway turns: `plugins.entries.wakebus.allow_gateway_injection`.

Rule 1: only a plain `true` in config.yaml is a grant; what cannot be read is none. Rule 2: it is
the key that Hermes itself asks for `ctx.inject_message(session_key=…)` after August 2026: one grant
for both. Rule 3: the file is read again when it has changed.
"""

import threading
from pathlib import Path
from typing import Any, Final

import yaml

from wakebus.broker.paths import hermes_home
from wakebus.plugin.install import next_steps
from wakebus.plugin.install.hermes_config import GRANT

LINE: Final = f"{'.'.join(GRANT)}: true"
HOW: Final = f"`{LINE}` in config.yaml turns gateway turns on"


def how_to_grant(home: Path) -> str:
    """Return what a user can do who wants gateway turns in the Hermes of `home`."""
    return f"{HOW} ({next_steps.install(home, '--allow-gateway-turns')} writes it)"


# Hermes settles its home before it loads plugins (hermes_cli/main.py:475, 0.19.0).
HOW_TO_GRANT: Final = how_to_grant(hermes_home())

_Stamp = tuple[str, int, int, int]
_lock = threading.Lock()
_last: list[tuple[_Stamp, bool]] = []


def granted(home: Path | None = None) -> bool:
    """Return whether the owner lets the bus start turns in a gateway. `home`: $HERMES_HOME."""
    file = (home or hermes_home()) / "config.yaml"
    try:
        stat = file.stat()
        stamp = (str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino)
        with _lock:
            if not _last or _last[0][0] != stamp:
                _last[:] = [(stamp, is_granted(_load(file)))]
            return _last[0][1]
    except OSError:
        return False


def is_granted(config: Any) -> bool:
    """Return whether a config says the grant."""
    for key in GRANT:
        config = config.get(key) if isinstance(config, dict) else None
    return config is True


def _load(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError:
        raise
    except Exception:  # also KeyError of `!!bool maybe`, ValueError, RecursionError
        return None
