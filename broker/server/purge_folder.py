"""
Removing a bus's folder: what wakebus made in it, and nothing else.

Rule 1: the locks of a broker are held meanwhile. Rule 2: no link is followed. Rule 3: what is not
known stays, with the folder, and is named.
"""

import os
import shutil
import stat
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.lock_file import AlreadyRunning, lock_folder, take_lock

FILES: Final = (
    "bus.db*",
    "courier.db*",
    "courier.json",
    "address.json",
    "wakebus.toml",
    "stopped",
    "broker.lock",
    "*.sock",
    "*.sock.full",
    "broker.log*",
    "broker.out",
    "courier.log*",
    "listen-*.log",
    "console-*.log*",
    ".*.draft",
)
FOLDERS: Final = ("context", "conversations", "files", "tmp")


def purge_folder(folder: Path) -> list[str]:
    """
    Delete a bus with all its messages; return the names of what stays: it is not wakebus's.

    Raises WakebusError while a broker runs, OSError.
    """
    try:
        with ExitStack() as locks:
            for take in (lock_folder, take_lock):
                locks.callback(os.close, take(folder))
            for path in [*folder.iterdir()]:
                _remove(path)
    except FileNotFoundError:
        return []
    except AlreadyRunning as exc:
        step = "Whoever started it, end that first; then: hermes-busd stop"
        raise WakebusError(f"{exc.text} again: nothing was deleted", step=step) from exc
    left = sorted(path.name for path in folder.iterdir())
    if not left:
        folder.rmdir()
    return left


def _remove(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        if path.name in FOLDERS:
            shutil.rmtree(path)
    elif any(fnmatch(path.name, pattern) for pattern in FILES):
        path.unlink()
