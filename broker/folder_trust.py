"""
Who may put something else in the place of what lies in a folder: not only who may write the folder,
but also who may write any folder above it, or a link on the way (as sshd's StrictModes looks).

Rule 1: this user and root may, nobody else. The sticky bit keeps others from what is not theirs.
Rule 2: a group is nobody else where it is certainly the user's own and no access list stands behind
it (acl(5): its mask shows as the group's bits). Rule 3: every sender loads this file.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from typing import Final

OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
LINKS_MOST: Final = 40  # path_resolution(7)


def refusal_of_way(path: str, uid: int) -> str:
    """
    Return why others than `uid` may replace what lies at absolute `path`, with the way out, or "".

    Raises OSError.
    """
    for place, found in steps_to(path):
        if reason := refusal_of_step(place, found, uid):
            return reason
    return ""


def refusal_of_step(place: str, found: os.stat_result, uid: int) -> str:
    """Return why a folder, a link or what they lead to is not safe from others, or ""."""
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid not in (uid, 0) and not _is_unmapped(found.st_uid):
        return (
            f"another user may replace it: {place} belongs to uid {found.st_uid} "
            f"(mode {mode:04o}); chown it to yourself"
        )
    if not stat.S_ISDIR(found.st_mode) or mode & stat.S_ISVTX:
        return ""
    others = others_bits(place, found, uid)
    if not others:
        return ""
    world, group = others & stat.S_IWOTH, others & stat.S_IWGRP
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


def others_bits(place: str, found: os.stat_result, uid: int) -> int:
    """Return the bits of the mode of what lies at `place` by which others than `uid` may write."""
    others = found.st_mode & OTHERS
    if others & stat.S_IWGRP and is_own_group(found.st_gid, uid) and not _has_acl(place):
        others &= ~stat.S_IWGRP
    return others


def is_own_group(gid: int, uid: int) -> bool:
    """
    Whether nobody but this user and root is in a group: the user's first one with the user's name
    (pam_umask(8), usergroups: there a umask of 002 is usual), root's, or one of this process that
    has no name, as a container gets it for a volume.

    Who has it as first group stands in no list of members. A directory service may name only some
    of its users; a group with the user's own name and number is nobody else's there either.
    """
    import grp
    import pwd

    if any(one.pw_gid == gid and one.pw_uid not in (uid, 0) for one in pwd.getpwall()):
        return False
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return gid in os.getgroups()
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return gid == 0 and {*group.gr_mem} <= {"root"}
    private = (group.gr_name, gid) == (user.pw_name, user.pw_gid)
    return (private or gid == 0) and {*group.gr_mem} <= {user.pw_name, "root"}


def _has_acl(place: str) -> bool:
    """Whether an access list may stand behind the group's bits; where nothing tells, it may."""
    if sys.platform != "linux":
        return True  # macOS tells only through a library of C
    try:
        os.getxattr(place, "system.posix_acl_access")
    except OSError as exc:
        return exc.errno not in (errno.ENODATA, errno.EOPNOTSUPP)
    return True


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
