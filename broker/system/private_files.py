"""
The bus folder and its files belong to one user (PROTOCOL.md section 1).

Rule 1: no link is followed: a planted one would make the broker write where its owner wants. Rule
2: what is not ours is named and left alone.
"""

import errno
import os
import stat
from pathlib import Path

from wakebus.broker.denial import step_for_start
from wakebus.broker.errors import WakebusError
from wakebus.broker.folder_trust import refusal_of_way
from wakebus.broker.system.durable_file import make_folders


class CannotStart(WakebusError):
    """The broker cannot start here; the text names what is in the way and what to do."""

    code = "cannot_start"


def make_folder(folder: Path) -> None:
    """
    Make `folder` and the parents that are missing, each 0700; narrow it where it was wider.

    Raises CannotStart, also where others may put another folder in its place.
    """
    try:
        make_folders(folder, 0o700)
        found = folder.lstat()
    except OSError as exc:
        raise CannotStart(
            f"the folder {folder} cannot be made: {exc.strerror}",
            step=step_for_start(),
        ) from exc
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise CannotStart(f"{folder} is not a folder of this user")
    check_way(folder)
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def check_way(folder: Path) -> None:
    """Raise CannotStart where others may put something else in the place of `folder`."""
    try:
        reason = refusal_of_way(str(folder.parent), os.getuid())
    except OSError:
        return  # not there yet: who makes it looks again
    if reason:
        raise CannotStart(f"{folder} is not safe: {reason}, or set HERMES_BUS_ROOT to another one")


def append_to(path: Path) -> int:
    """Return a descriptor that appends to `path`, made 0600. Raises CannotStart naming it."""
    return open_private(path, os.O_WRONLY | os.O_APPEND)


def open_private(path: Path, mode: int) -> int:
    """
    Return a descriptor of `path`, made 0600. Raises CannotStart naming it.

    `mode`: O_WRONLY, O_RDWR and what else `os.open` takes.
    """
    flags = mode | os.O_CREAT | os.O_CLOEXEC
    try:
        # NONBLOCK: a pipe of this name that nobody reads must not hold the start.
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        if exc.errno == errno.EROFS:
            text = f"{path} cannot be opened: {exc.strerror}"
            raise CannotStart(text, step=step_for_start()) from exc
        why = "it is a link" if path.is_symlink() else exc.strerror
        raise CannotStart(f"{path} cannot be opened: {why}; move it away") from exc
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        os.close(descriptor)
        raise CannotStart(f"{path} is not a file of this user; it was left alone: move it away")
    os.fchmod(descriptor, 0o600)
    return descriptor


def is_same_file(path: Path, descriptor: int) -> bool:
    """Whether `path` still is what `descriptor` has open."""
    try:
        found, ours = path.lstat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return False
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
