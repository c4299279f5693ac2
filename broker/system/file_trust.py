"""
Whose hands a file has been in: what stands in rules, scripts and settings is done as the user and
with the user's credentials, so nobody else may write them. Root may write any file anyway.

Rule: a reason goes out, with the way out, or "". That of an open file is judged, not of its name.
"""

import os
import stat
from pathlib import Path
from typing import Final

from wakebus.broker.folder_trust import OTHERS, refusal_of_step, refusal_of_way

ANYBODY: Final = stat.S_IWOTH  # of settings: with a umask of 002 every file is one's own group's


def refusal_of(path: Path, found: os.stat_result, writers: int = OTHERS) -> str:
    """
    Return why what was found at `path` must not be used, or "". Raises OSError.

    writers: the bits of the file's mode, and of its folders', that count (OTHERS: executed).
    """
    uid, name = os.getuid(), os.path.abspath(path)  # noqa: PTH100
    if reason := refusal(found, path.parent.stat(), uid, name, writers):
        return reason
    return refusal_of_way(name, uid, writers)


def refusal(
    file: os.stat_result, folder: os.stat_result, uid: int, name: str, writers: int = OTHERS
) -> str:
    """Return why `name` must not be used, with the way out, or "": of it and its folder alone."""
    if not stat.S_ISREG(file.st_mode):
        return "not a file"
    if file.st_uid not in (uid, 0):
        return f"belongs to another user (uid {file.st_uid}); chown it to yourself"
    if file.st_mode & writers:
        return f"others may write it (mode {stat.S_IMODE(file.st_mode):04o}); chmod go-w {name}"
    return refusal_of_step(os.path.dirname(name), folder, uid, writers)  # noqa: PTH120
