"""
Whose hands a file has been in: what stands in rules, scripts and settings is done as the user and
with the user's credentials, so nobody else may write them. Root may write any file anyway.

Rule: a reason goes out, with the way out, or "". That of an open file is judged, not of its name.
"""

import os
import stat
from pathlib import Path
from typing import Final

OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH  # of what is executed
ANYBODY: Final = stat.S_IWOTH  # of settings: with a umask of 002 every file is one's own group's


def refusal_of(path: Path, found: os.stat_result, writers: int = OTHERS) -> str:
    """
    Return why what was found at `path` must not be used, or "". Raises OSError.

    writers: the bits of the file's mode that it must not have.
    Where a link leads there, nobody may put another link in its place either.
    """
    for place in dict.fromkeys((path, path.resolve())):
        if reason := refusal(found, place.parent.stat(), os.getuid(), str(place), writers):
            return reason
    return ""


def refusal(
    file: os.stat_result, folder: os.stat_result, uid: int, name: str, writers: int = OTHERS
) -> str:
    """Return why `name` must not be used, with the way out, or ""."""
    if not stat.S_ISREG(file.st_mode):
        return "not a file"
    if file.st_uid not in (uid, 0):
        return f"belongs to another user (uid {file.st_uid}); chown it to yourself"
    if file.st_mode & writers:
        return f"others may write it (mode {stat.S_IMODE(file.st_mode):04o}); chmod go-w {name}"
    # In a folder like /tmp the sticky bit keeps others from replacing the file.
    if folder.st_mode & 0o002 and not folder.st_mode & stat.S_ISVTX:
        return f"anyone may replace it: its folder is world-writable; chmod o-w {_folder(name)}"
    return ""


def _folder(name: str) -> str:
    return os.path.dirname(name) or "."  # noqa: PTH120
