"""
Where the bus lives on disk.

Rule 1: the root is `$HERMES_BUS_ROOT`, else `.hermes` of the real user, from the user database:
`$HOME` is changed by sudo, cron and sandboxes, and two buses would be the result. It is taken for a
user without an entry there. Rule 2: every sender loads this file, and pathlib only where a folder
is asked for.
"""

import os
import pwd
import sys
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
    path = os.path.expanduser(given) if given else f"{real_home(name)}/.hermes"  # noqa: PTH111
    if path.startswith("~"):
        raise NotRunning(f"{name} {given!a} names no user's folder", step=f"Set {name} to a folder")
    _check_encoding(name, path)
    try:
        return os.path.abspath(path)  # noqa: PTH100
    except FileNotFoundError:
        raise NotRunning(
            f"{name} {given!a} is relative, and the current folder is gone",
            step="Change to one that is there: cd",
        ) from None


def _check_encoding(name: str, path: str) -> None:
    """Raise NotRunning for a path whose bytes are not those that a socket's address has."""
    if path.isascii():
        return
    raw = os.fsencode(path)
    try:
        shown = raw.decode()
    except UnicodeError:
        text = f"{name} {path!a} is not UTF-8, and so no address"
        raise NotRunning(text, step=f"Set {name} to another folder") from None
    if shown != path:
        raise NotRunning(
            f"{name} {shown!a} needs UTF-8, and this locale has {sys.getfilesystemencoding()}",
            step="Set one with UTF-8: export LC_ALL=C.UTF-8",
        )


def real_home(name: str = "HERMES_HOME") -> str:
    """Return the home of the real user. `name`: what may be set instead. Raises NotRunning."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:  # a container's user without an entry
        home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise NotRunning(
            f"uid {uid} is not in the user database, and HOME is not set",
            step=f"Set {name} to a folder of your own",
        )
    return home


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
