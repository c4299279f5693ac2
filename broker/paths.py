"""
Where the bus lives on disk.

Rule 1: the root is `$HERMES_BUS_ROOT`, else `.hermes` of the real user, from the user database:
`$HOME` is changed by sudo, cron and sandboxes, and two buses would be the result. Rule 2: every
sender loads this file, and pathlib only where a folder is asked for.
"""

import os
import pwd
from typing import TYPE_CHECKING, Final

from wakebus.broker.errors import NotRunning

if TYPE_CHECKING:
    from pathlib import Path

ROOTS: Final = ("HERMES_BUS_ROOT", "HERMES_HOME")


def bus_root() -> "Path":
    """Return `$HERMES_BUS_ROOT`, else `~/.hermes` of the real user."""
    from pathlib import Path

    return Path(root_of("HERMES_BUS_ROOT"))


def hermes_home() -> "Path":
    """Return `$HERMES_HOME`, else `~/.hermes` of the real user."""
    from pathlib import Path

    return Path(root_of("HERMES_HOME"))


def root_of(name: str) -> str:
    """Return `$name` as an absolute path, else `~/.hermes` of the real user. Raises NotRunning."""
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
    return {**os.environ, **{name: root_of(name) for name in given}}


def bus_dir() -> "Path":
    """Return the folder with the sockets, the store and the log."""
    return bus_root() / "bus"


def stop_mark(folder: "Path") -> "Path":
    """Return the file that says: stopped on purpose; listeners wait until somebody starts it."""
    return folder / "stopped"
