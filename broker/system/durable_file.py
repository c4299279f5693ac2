"""
Small files that a cut of power leaves whole: the old one or the new one, never an empty one.

Rule 1: a file is on disk before its name leads to it, and the name is before the caller goes on:
write, fsync, rename, fsync of the folder. (Without the first fsync XFS may keep the new name and
lose what was written.) Rule 2: what fails before the rename leaves the old file and no draft. Rule
3: no link is followed: a draft is always a new file. Rule 4: the draft of a process that was killed
goes when the file is written again.
"""

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS
_DRAFT_S: Final = 3600.0  # nobody writes a small file for so long
_UNKNOWN: Final = (errno.EINVAL, errno.ENOTSUP)  # to a file system whose folders cannot be synced


def sync_file(descriptor: int) -> None:
    """Return when what was written is on disk, also from the drive's cache. Raises OSError."""
    if _FULL is not None:
        try:
            fcntl.fcntl(descriptor, _FULL)  # there, fsync(2) stops at the drive's cache
            return
        except OSError:
            pass  # a file system that knows none
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Return when the names in `folder` are on disk. Raises OSError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # files may be made in it, but it may not be read: there is no way to ask
    try:
        sync_file(descriptor)
    except OSError as exc:
        if exc.errno not in _UNKNOWN:
            raise
    finally:
        os.close(descriptor)


def make_folders(folder: Path, mode: int = 0o777) -> None:
    """Make `folder` and the parents that are missing, each with `mode`. Raises OSError."""
    for one in reversed((folder, *folder.parents)):
        if not one.exists():  # not `parents=True`: that makes them as wide as the umask lets
            one.mkdir(mode, exist_ok=True)
            sync_folder(one.parent)


def replace_file(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    only_new: bool = False,
    durable: bool = True,
) -> None:
    """
    Make `data` the whole file at `path`, in one step; one thread of a process at a time.

    `owner`: user and group, for root. `only_new`: raise FileExistsError where a file is. `durable`
    False: without fsync, for what may be lost or empty after a cut of power. Raises OSError.
    """
    drop_old_drafts(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)  # of a killed process, or planted
    try:
        with os.fdopen(os.open(draft, _NEW, 0o600), "wb") as file:
            if owner:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            if durable:
                sync_file(file.fileno())
        if only_new:
            os.link(draft, path)  # unlike a rename it never replaces
        else:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def drop_old_drafts(path: Path) -> None:
    """Remove what was to become `path` in processes that were killed. Raises OSError."""
    begin, before = f".{path.name}.", time.time() - _DRAFT_S
    for found in path.parent.iterdir():
        if not (found.name.startswith(begin) and found.name.endswith(".draft")):
            continue
        try:
            if found.is_file() and found.stat().st_mtime < before:
                found.unlink()
        except FileNotFoundError:
            pass  # of another process, which is done with it


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a file that has been written, in the same folder. Raises OSError."""
    descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    sync_folder(path.parent)
