"""
Who may put something else in the place of what lies in a folder: not only who may write the folder,
but also who may write any folder above it, or a link on the way (as sshd's StrictModes looks).

Rule 1: this user and root may, nobody else. The sticky bit keeps others from what is not theirs.
Rule 2: a group is nobody else where it is the user's own. Rule 3: every sender loads this file.
"""

import os
import stat
from collections.abc import Iterator
from typing import Final

OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
LINKS_MOST: Final = 40  # path_resolution(7)


def refusal_of_way(path: str, uid: int, writers: int = OTHERS) -> str:
    """
    Return why others than `uid` may replace what lies at absolute `path`, with the way out, or "".

    writers: the bits of a folder's mode that count. Raises OSError.
    """
    for place, found in steps_to(path):
        if reason := refusal_of_step(place, found, uid, writers):
            return reason
    return ""


def refusal_of_step(place: str, found: os.stat_result, uid: int, writers: int = OTHERS) -> str:
    """Return why a folder, a link or what they lead to is not safe from others, or ""."""
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in (uid, 0) and not _is_unmapped(found.st_uid):
        return (
            f"another user may replace it: {place} belongs to uid {found.st_uid} "
            f"(mode {mode:04o}); chown it to yourself"
        )
    if not stat.S_ISDIR(found.st_mode) or mode & stat.S_ISVTX:
        return ""
    world = bool(mode & writers & stat.S_IWOTH)
    group = bool(mode & writers & stat.S_IWGRP) and not is_own_group(found.st_gid, uid)
    if not world and not group:
        return ""
    return (
        f"anyone may replace it: its folder is {'world' if world else 'group'}-writable; "
        f"chmod {'g' if group else ''}{'o' if world else ''}-w {place} "
        f"(mode {mode:04o}, uid {found.st_uid}, gid {found.st_gid})"
    )


def steps_to(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield `/`, every folder and link on the way to absolute `path`, and it. Raises OSError."""
    at, left, links = "/", path.split("/")[::-1], 0
    yield at, os.lstat(at)
    while left:
        name = left.pop()
        if name == "..":
            at = os.path.dirname(at)  # noqa: PTH120
        if name in ("", ".", ".."):
            continue
        place = f"{at.rstrip('/')}/{name}"
        found = os.lstat(place)
        yield place, found
        if not stat.S_ISLNK(found.st_mode):
            at = place
        elif (links := links + 1) > LINKS_MOST:
            raise OSError(f"too many links on the way to {path}")
        else:
            target = os.readlink(place)  # noqa: PTH115
            left += target.split("/")[::-1]
            at = "/" if target.startswith("/") else at


def is_own_group(gid: int, uid: int) -> bool:
    """
    Whether nobody but this user and root is in a group: one with the user's name (pam_umask(8),
    usergroups: there a umask of 002 is usual), root's, or one of this process that has no name, as
    a container gets it for a volume.
    """
    import grp
    import pwd

    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid in os.getgroups()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""
    return (group.gr_name == name or gid == 0) and {*group.gr_mem} <= {name, "root"}


def _is_unmapped(uid: int) -> bool:
    """
    Whether `uid` stands for all whom this user namespace does not know (user_namespaces(7)).

    In a sandbox that knows one user, root's folders show as such a one's.
    """
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:  # noqa: PTH123
            if uid != int(file.read()):
                return False
        with open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123
            ranges = [tuple(map(int, line.split())) for line in file]
    except (OSError, ValueError):
        return False
    return not any(first <= uid < first + count for first, _, count in ranges)
