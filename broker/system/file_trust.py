"""
Whose hands a file has been in: what stands in rules, scripts and settings is done as the user and
with the user's credentials, so nobody else may write them. Root may write any file anyway.

Rule: a reason goes out, with the way out, or "". That of an open file is judged, not of its name.
"""

import os
import stat
from pathlib import Path

from wakebus.broker.folder_trust import OTHERS, others_bits, refusal_of_step, refusal_of_way


def refusal_of(path: Path, found: os.stat_result, *, own_group: bool = False) -> str:
    """
    Return why what was found at `path` must not be used, or "". Raises OSError.

    own_group: the user's own may write it, as a umask of 002 has it; what is executed, it may not.
    """
    uid, name = os.getuid(), os.path.abspath(path)  # noqa: PTH100
    if reason := refusal(found, path.parent.stat(), uid, name, own_group=own_group):
        return reason
    return refusal_of_way(name, uid)


def refusal(
    file: os.stat_result,
    folder: os.stat_result,
    uid: int,
    name: str,
    *,
    own_group: bool = False,
) -> str:
    """Return why `name` must not be used, with the way out, or "": of it and its folder alone."""
    if not stat.S_ISREG(file.st_mode):
        return "not a file"
    if file.st_uid not in (uid, 0):
        return f"belongs to another user (uid {file.st_uid}); chown it to yourself"
    if others_bits(name, file, uid) if own_group else file.st_mode & OTHERS:
        return f"others may write it (mode {stat.S_IMODE(file.st_mode):04o}); chmod go-w {name}"
    return refusal_of_step(os.path.dirname(name), folder, uid)  # noqa: PTH120
