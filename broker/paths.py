"""
Where the bus lives on disk, and the address file that clients read.

Rule 1: the root is `$HERMES_BUS_ROOT`, else `.hermes` of the real user, from the user database:
`$HOME` is changed by sudo, cron and sandboxes, and two buses would be the result. Rule 2: clients
compute no socket path; they read `bus/address.json`. Rule 3: what a sender needs of this file
works on strings: pathlib would cost it 5 % of its whole run.
"""

import json
import os
import pwd
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import NotRunning

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS_FILE: Final = "address.json"


def bus_root() -> "Path":
    """Return `$HERMES_BUS_ROOT`, else `~/.hermes` of the real user."""
    from pathlib import Path

    return Path(_from_env("HERMES_BUS_ROOT"))


def hermes_home() -> "Path":
    """Return `$HERMES_HOME`, else `~/.hermes` of the real user."""
    from pathlib import Path

    return Path(_from_env("HERMES_HOME"))


def _from_env(name: str) -> str:
    given = os.environ.get(name, "").strip()
    if given:
        return os.path.abspath(os.path.expanduser(given))  # noqa: PTH100, PTH111
    return f"{pwd.getpwuid(os.getuid()).pw_dir}/.hermes"


def bus_dir() -> "Path":
    """Return the folder with the sockets, the store and the log."""
    return bus_root() / "bus"


def router_address() -> str:
    """Return where clients connect, as the running broker wrote it. Raises NotRunning."""
    return str(read_address(f"{_from_env('HERMES_BUS_ROOT')}/bus")["router"])


def read_address(folder: "Path | str") -> dict[str, Any]:
    """
    Return what the running broker wrote about itself: `router`, `pid`, `boot`, versions.

    Raises NotRunning when there is no such file or it cannot be read.
    """
    path = f"{folder}/{ADDRESS_FILE}"
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            data = json.load(file)
    except FileNotFoundError:
        raise NotRunning(f"no broker has started here ({path} does not exist)") from None
    except (OSError, ValueError) as exc:
        raise NotRunning(f"{path} cannot be read: {exc}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("router"), str):
        raise NotRunning(f"{path} holds no broker address")
    return data


def write_address(folder: "Path", data: dict[str, Any]) -> None:
    """Put `data` in place in one step (0600), so that no client reads half of it."""
    draft = folder / f".{ADDRESS_FILE}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file)
    draft.replace(folder / ADDRESS_FILE)
