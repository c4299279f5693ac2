"""
Files that hold a message while a command runs (MESSAGE_FILE): `bus/tmp/PID-….json`, 0600.

Rule 1: gone when the command has ended; what a killed process left is removed by the next
listener. Rule 2: where there is no bus folder, or it takes nothing, the system's temporary folder
serves.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wakebus.broker.paths import bus_dir


@contextmanager
def message_file(data: bytes) -> Iterator[str]:
    """Inside, there is a file with `data`; its path. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        dir=_folder(), prefix=f"{os.getpid()}-", suffix=".json"
    ) as file:
        file.write(data)
        file.flush()
        yield file.name


def remove_stale_files() -> None:
    """Remove what processes left that run no longer."""
    for file in (bus_dir() / "tmp").glob("*-*.json"):
        pid = file.name.partition("-")[0]
        if pid.isdecimal() and not _runs(int(pid)):
            try:
                file.unlink(missing_ok=True)
            except OSError:
                pass  # not ours to remove; it harms nobody


def _folder() -> Path | None:
    folder = bus_dir() / "tmp"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
