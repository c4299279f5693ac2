"""
The attachment store: files on their way to chats, in `bus/files`, each a copy under our own name.

Rule 1: `body.file` is `{"name", "size", "sha256", "media_type", "copy"}`; the name is for people,
`copy` is the file's in `bus/files`. Rule 2: a sender of the bus cannot make the courier send
another file: a copy has a name of ours (32 hex digits), no slash, no link, is this user's own, and
its size and hash are those of the message. Rule 3: only regular files of this user are taken, whole
and unchanged, up to 20 MiB: no device, no pipe, no folder. Rule 4: a copy stays as long as its
message may be retried: 8 days.
"""

import errno
import hashlib
import mimetypes
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from wakebus.adapters.base import File
from wakebus.adapters.errors import Rejected, Unavailable
from wakebus.adapters.sanitize import line
from wakebus.broker.system.durable_file import sync_file, sync_folder

FOLDER: Final = "files"
MAX_FILE: Final = 20 << 20  # more is a link's business
KEEP_S: Final = 8 * 86_400.0  # a day longer than a message lives

_COPY: Final = re.compile(r"[0-9a-f]{32}\Z")
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80}\Z")
_ANY: Final = "application/octet-stream"
_LONGEST_NAME: Final = 120
# A link or a folder stands where the copy was.
_FOREIGN: Final = frozenset({errno.ELOOP, errno.ENXIO, errno.ENOTDIR})
_CHUNK: Final = 1 << 20
# NONBLOCK: a pipe must not hold anybody.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_DIR: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def store(path: Path, folder: Path) -> dict[str, Any]:
    """
    Copy a file into the store of the bus's `folder`; return what `body.file` is to be.

    Raises Rejected, naming the path, for what is not sent, and Unavailable when it cannot be kept.
    """
    try:
        _check_kind(path, path.stat().st_mode)  # opening a device may do something already
        source = os.open(path, _READ)
    except (OSError, ValueError) as exc:
        raise Rejected(f"file {str(path)!r}: {_words(exc)}") from exc
    try:
        _check(path, source)
        copy, size, digest = _copied(path, source, folder)
    finally:
        os.close(source)
    name = clean_name(path.name)
    return {
        "name": name,
        "size": size,
        "sha256": digest,
        "media_type": mimetypes.guess_type(name)[0] or _ANY,
        "copy": copy,
    }


def load(body: Mapping[str, Any], folder: Path | None) -> File | None:
    """
    Return the file of a message's body, None where it has none, or the host no folder for any.

    Raises Rejected for what is no copy of ours or was changed, Unavailable when it cannot be read.
    """
    held = body.get("file")
    if held is None or folder is None:
        return None
    copy, size, digest = _described(held)
    name = clean_name(str(held.get("name")))
    data = _read(copy, size, folder, name)
    if hashlib.sha256(data).hexdigest() != digest:
        raise Rejected(f"file {name!r}: its copy was changed; send it again")
    kind = str(held.get("media_type")).lower()
    return File(name, data, kind if _MEDIA_TYPE.match(kind) else _ANY)


def size_of(body: Mapping[str, Any]) -> int:
    """Return the bytes of a message's file; 0 where it has none, or none that `load` takes."""
    try:
        return _described(body["file"])[1]
    except (KeyError, Rejected):
        return 0


def forget(body: Mapping[str, Any], folder: Path) -> None:
    """Remove the copy of a message that was sent; a refused one keeps its own, for a retry."""
    held = body.get("file")
    copy = held.get("copy") if isinstance(held, Mapping) else None
    if isinstance(copy, str) and _COPY.match(copy):
        try:
            with _opened(folder) as directory:
                os.unlink(copy, dir_fd=directory)
        except OSError:  # it is gone, or the sweep will find it
            pass


def sweep(folder: Path, now: float) -> int:
    """Remove what is older than 8 days; `now` in Unix seconds. Return how many went."""
    gone = 0
    try:
        with _opened(folder) as directory:
            for name in os.listdir(directory):  # noqa: PTH208  (Path knows no descriptors)
                gone += _swept(name, directory, now)
    except OSError:  # no file was ever sent, or it is tried again in an hour
        pass
    return gone


def clean_name(name: str) -> str:
    """Return a file's name as a chat may show it: one line, no slash, its ending kept."""
    name = _tidy(name.replace("\\", "/").rpartition("/")[2])
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending) > 16:
        stem, dot, ending = name, "", ""
    # A second time: a cut may fall within an emoji.
    return _tidy(stem[: _LONGEST_NAME - len(dot + ending)] + dot + ending) or "file"


def _tidy(name: str) -> str:
    return line(name, 4096).strip(" .")


def megabytes(size: int) -> str:
    """Return a size for people."""
    return f"{size} bytes" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"


def _check_kind(path: Path, mode: int) -> None:
    what = next((word for is_one, word in _KINDS if is_one(mode)), "no regular file")
    if not stat.S_ISREG(mode):
        raise Rejected(f"file {str(path)!r} is {what}; only regular files are sent")


def _check(path: Path, source: int) -> None:
    found = os.fstat(source)
    _check_kind(path, found.st_mode)
    if found.st_uid != os.geteuid():
        raise Rejected(f"file {str(path)!r} belongs to another user; send a copy of your own")
    if found.st_size > MAX_FILE:
        raise Rejected(f"file {str(path)!r} has {found.st_size} bytes; {_MOST}")
    if found.st_size == 0 and os.read(source, 1):  # /proc and its like say 0 of all they have
        raise Rejected(f"file {str(path)!r} is no regular file of a known size; send a copy of it")
    if found.st_size == 0:
        raise Rejected(f"file {str(path)!r} is empty; platforms take no empty files")


_MOST: Final = f"at most {MAX_FILE} ({megabytes(MAX_FILE)}) are sent; send a link to it"
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


def _copied(path: Path, source: int, folder: Path) -> tuple[str, int, str]:
    copy = secrets.token_hex(16)
    try:
        with _opened(folder, make=True) as directory:
            try:
                size, digest = _written(path, source, copy, directory)
                sync_folder(folder / FOLDER)
                return copy, size, digest
            except BaseException:
                with suppress(OSError):
                    os.unlink(copy, dir_fd=directory)
                raise
    except OSError as exc:
        raise Unavailable(
            f"file {str(path)!r} cannot be kept in {folder / FOLDER}: {_words(exc)}"
        ) from exc


def _written(path: Path, source: int, copy: str, directory: int) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(copy, _WRITE, 0o600, dir_fd=directory), "wb") as target:
        while chunk := os.read(source, _CHUNK):
            size += len(chunk)
            if size > MAX_FILE:
                raise Rejected(f"file {str(path)!r} grew while it was read; {_MOST}")
            digest.update(chunk)
            target.write(chunk)
        target.flush()
        sync_file(target.fileno())
    if size != os.fstat(source).st_size:
        raise Rejected(f"file {str(path)!r} changed while it was read; send it when it is whole")
    return size, digest.hexdigest()


def _described(held: object) -> tuple[str, int, str]:
    if not isinstance(held, Mapping):
        raise Rejected("body.file is no description of a file; send it by `wakebus send --file`")
    copy, size, digest = (held.get(name) for name in ("copy", "size", "sha256"))
    if not isinstance(copy, str) or not _COPY.match(copy):
        raise Rejected("body.file.copy names no file of the bus; send it by `wakebus send --file`")
    if not isinstance(digest, str) or not _SHA256.match(digest):
        raise Rejected("body.file.sha256 is no hash; send the file by `wakebus send --file`")
    if type(size) is not int or not 0 < size <= MAX_FILE:
        raise Rejected(f"body.file.size is none of 1 to {MAX_FILE}")
    return copy, size, digest


def _read(copy: str, size: int, folder: Path, name: str) -> bytes:
    try:
        with _opened(folder) as directory:
            source = os.open(copy, _READ | os.O_NOFOLLOW, dir_fd=directory)
            try:
                found = os.fstat(source)
                if not _ours(found) or found.st_size != size:
                    raise Rejected(f"file {name!r}: its copy was changed; send it again")
                with os.fdopen(source, "rb", closefd=False) as file:
                    return file.read(size + 1)
            finally:
                os.close(source)
    except FileNotFoundError as exc:
        raise Rejected(f"file {name!r}: its copy is gone (kept 8 days); send it again") from exc
    except OSError as exc:
        if exc.errno in _FOREIGN:
            raise Rejected(f"file {name!r}: its copy was changed; send it again") from exc
        raise Unavailable(f"file {name!r}: its copy cannot be read: {_words(exc)}") from exc


def _ours(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def _swept(name: str, directory: int, now: float) -> bool:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not _COPY.match(name) or now - found.st_mtime < KEEP_S:
            return False
        os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True


@contextmanager
def _opened(folder: Path, *, make: bool = False) -> Iterator[int]:
    """Hold `bus/files` open, through no link, so that nobody can put another in its place."""
    if make and not (folder / FOLDER).exists():
        (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder)
    directory = os.open(folder / FOLDER, _DIR)
    try:
        yield directory
    finally:
        os.close(directory)


def _words(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return (said or type(error).__name__).lower()
