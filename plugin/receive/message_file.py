"""
Files that hold a message while a command runs (MESSAGE_FILE): `bus/tmp/PID-….json`, 0600.

Rule 1: gone when the command has ended; what a killed process left is removed by the next
listener. Locked while it is in use: the pid of another container may be nobody's here. Rule 2:
where there is no bus folder, or it takes nothing, the system's temporary folder serves, unless
others may replace what lies there.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wakebus.broker.folder_trust import refusal_of_way
from wakebus.broker.paths import bus_dir


@contextmanager
def message_file(data: bytes) -> Iterator[str]:
    """Inside, there is a file with `data`; its path. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        dir=_folder(), prefix=f"{os.getpid()}-", suffix=".json"
    ) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(data)
        file.flush()
        yield file.name


def remove_stale_files() -> None:
    """Remove what processes left that run no longer."""
    for file in (bus_dir() / "tmp").glob("*-*.json"):
        pid = file.name.partition("-")[0]
        if not pid.isdecimal() or _runs(int(pid)):
            continue
        try:
            with file.open("rb") as found:
                fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink(missing_ok=True)
        except OSError:
            pass  # in use, or not ours to remove; it harms nobody


def _folder() -> Path:
    folder = bus_dir() / "tmp"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:
        pass
    temp = Path(tempfile.gettempdir())
    if temp.is_dir() and (reason := refusal_of_way(str(temp), os.getuid())):
        raise OSError(f"{temp} is not safe for the message's file: {reason}, or set TMPDIR")
    return temp


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
