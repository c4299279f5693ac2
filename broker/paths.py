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
import stat
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import NotRunning

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS_FILE: Final = "address.json"
ROOTS: Final = ("HERMES_BUS_ROOT", "HERMES_HOME")


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
    if not given:
        return f"{pwd.getpwuid(os.getuid()).pw_dir}/.hermes"
    path = os.path.abspath(os.path.expanduser(given))  # noqa: PTH100, PTH111
    try:
        path.encode()
    except UnicodeEncodeError:
        raise NotRunning(f"{name} {path!a} is not UTF-8, and so no address") from None
    return path


def child_environ() -> dict[str, str]:
    """Return the environment for a child that starts in another folder: roots are absolute."""
    given = [name for name in ROOTS if os.environ.get(name, "").strip()]
    return {**os.environ, **{name: _from_env(name) for name in given}}


def bus_dir() -> "Path":
    """Return the folder with the sockets, the store and the log."""
    return bus_root() / "bus"


def router_address() -> str:
    """Return where clients connect, as the running broker wrote it. Raises NotRunning."""
    return str(read_address(f"{_from_env('HERMES_BUS_ROOT')}/bus")["router"])


def stop_mark(folder: "Path") -> "Path":
    """Return the file that says: stopped on purpose; listeners wait until somebody starts it."""
    return folder / "stopped"


def read_address(folder: "Path | str") -> dict[str, Any]:
    """
    Return what the running broker wrote about itself: `router`, `pid`, `boot`, versions.

    Raises NotRunning when there is no such file, it cannot be read, or is somebody else's.
    """
    path = f"{folder}/{ADDRESS_FILE}"
    try:
        # NONBLOCK: a pipe of this name must not hold anybody.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            found, user = os.fstat(descriptor), os.getuid()
            if not stat.S_ISREG(found.st_mode) or found.st_uid != user:
                raise NotRunning(f"{path} is not a file of this user; it is not trusted")
            if os.stat(folder).st_uid != user:  # noqa: PTH116
                raise NotRunning(f"{folder} is not a folder of this user; it is not trusted")
            data = json.load(file)
    except FileNotFoundError:
        raise NotRunning(f"no broker runs here ({path} does not exist)") from None
    except (OSError, ValueError) as exc:
        raise NotRunning(f"{path} cannot be read: {exc}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("router"), str):
        raise NotRunning(f"{path} holds no broker address")
    return data


def write_address(folder: "Path", data: dict[str, Any]) -> None:
    """Put `data` in place in one step (0600), so that no client reads half of it."""
    draft = folder / f".{ADDRESS_FILE}.{os.getpid()}"
    draft.unlink(missing_ok=True)  # of a killed broker; EXCL below follows no link
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(data, file)
    draft.replace(folder / ADDRESS_FILE)
