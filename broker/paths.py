"""
Where the bus lives on disk, and the address file that clients read.

Rule 1: the root is `$HERMES_BUS_ROOT`, else `.hermes` of the real user, from the user database:
`$HOME` is changed by sudo, cron and sandboxes, and two buses would be the result. Rule 2: clients
compute no socket path; they read `bus/address.json`.
"""

import json
import os
import pwd
from pathlib import Path
from typing import Any, Final

from wakebus.broker.errors import NotRunning

ADDRESS_FILE: Final = "address.json"


def real_home() -> Path:
    """Return the home folder of this process's user, from the user database."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def bus_root() -> Path:
    """Return `$HERMES_BUS_ROOT`, else `~/.hermes` of the real user."""
    return _from_env("HERMES_BUS_ROOT")


def hermes_home() -> Path:
    """Return `$HERMES_HOME`, else `~/.hermes` of the real user."""
    return _from_env("HERMES_HOME")


def _from_env(name: str) -> Path:
    given = os.environ.get(name, "").strip()
    return Path(given).expanduser().absolute() if given else real_home() / ".hermes"


def bus_dir() -> Path:
    """Return the folder with the sockets, the store and the log."""
    return bus_root() / "bus"


def read_address(folder: Path) -> dict[str, Any]:
    """
    Return what the running broker wrote about itself: `router`, `pid`, `boot`, versions.

    Raises NotRunning when there is no such file or it cannot be read.
    """
    path = folder / ADDRESS_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotRunning(f"no broker has started here ({path} does not exist)") from None
    except (OSError, ValueError) as exc:
        raise NotRunning(f"{path} cannot be read: {exc}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("router"), str):
        raise NotRunning(f"{path} holds no broker address")
    return data


def write_address(folder: Path, data: dict[str, Any]) -> None:
    """Put `data` in place in one step (0600), so that no client reads half of it."""
    draft = folder / f".{ADDRESS_FILE}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file)
    draft.replace(folder / ADDRESS_FILE)
