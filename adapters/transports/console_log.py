"""
The transport of `console:`: one file per chat, one entry per message.

    [2026-11-28T00:14:03Z KEY SIZE]     time of writing; key of the message; bytes of its text
    the text                            a line that begins as a header does gets a space in front

Rule 1: a key stands in a chat once: a second append of it, within the last 4 MiB, writes
nothing and answers as the first did. Rule 2: an entry that a crash cut is completed by the same
key, and marked by any other; nothing is glued to it. Rule 3: only regular files of this user's
own are written, and through no link (the folder is the broker's to guard). Rule 4: nothing is
left of an append that failed.
"""

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from wakebus.adapters.base import Request, Response
from wakebus.adapters.errors import Rejected, Unavailable, Uncertain
from wakebus.broker.system.durable_file import sync_file, sync_folder
from wakebus.broker.system.standard_files import encodable

LOOK_BACK: Final = 4 << 20  # holds the longest entry (1 MiB) and what a lane can have in flight
LOCK_S: Final = 2.0
_BEFORE_KEY: Final = len("[2026-11-28T00:14:03Z")

_URL: Final = re.compile(r"console:([A-Za-z0-9_-]{1,64})\Z")
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}\Z")
_BOUNDARY: Final = re.compile(rb"^\[\d{4}-\d\d-", re.MULTILINE)
_HEADER: Final = re.compile(rb"\[\S{20} ([A-Za-z0-9_.-]{1,80}) (\d{1,8})\]\n")
_TORN: Final = b"torn: the entry above is not whole]\n"

# What opening says of a thing that is no log of ours; everything else may pass.
_FOREIGN: Final = {
    errno.ELOOP: "a symbolic link",
    errno.EISDIR: "a folder",
    errno.ENXIO: "no regular file",
    errno.ENODEV: "no regular file",
}


# ---- the format (pure)


class LogEntry(NamedTuple):
    """The end of a file from its last header on; key b"" where the header itself is cut."""

    key: bytes
    size: int
    body: bytes

    @property
    def cut(self) -> bool:
        """Bytes of the text or the header are missing; a newline alone does no harm."""
        return not self.key or len(self.body) < self.size


def stuffed(text: bytes) -> bytes:
    """Return `text` so that no line of it can be taken for a header: keys cannot be forged."""
    return _BOUNDARY.sub(lambda found: b" " + found[0], text)


def has_entry(tail: bytes, key: bytes) -> bool:
    """Say whether a whole entry with this key is in the end of a file."""
    word = b" %s " % key
    at = tail.find(word)
    while at >= 0:
        # Where the header must begin; looking back for its line made a text that is full of the
        # key quadratic.
        start = at - _BEFORE_KEY
        header = _HEADER.match(tail, start) if start >= 0 else None
        if (
            header
            and header[1] == key
            and tail[max(0, start - 1) : start] in (b"", b"\n")
            and _whole(tail, header.end(), int(header[2]))
        ):
            return True
        at = tail.find(word, at + 1)
    return False


def _whole(tail: bytes, start: int, size: int) -> bool:
    body, newline = tail[start : start + size], tail[start + size : start + size + 1]
    # A header within the counted bytes: the entry was cut, and others follow.
    return newline == b"\n" and not _BOUNDARY.search(body)


def last_entry(tail: bytes) -> LogEntry | None:
    """Return the last entry in the end of a file, None where no header is in sight."""
    at = len(tail)
    while at > 0:
        at = tail.rfind(b"[", 0, at)
        if at >= 0 and tail[at - 1 : at] in (b"", b"\n") and _BOUNDARY.match(tail, at):
            header = _HEADER.match(tail, at)
            if not header:
                return LogEntry(b"", 0, tail[at:])
            return LogEntry(header[1], int(header[2]), tail[header.end() :])
    return None


def missing_bytes(tail: bytes, key: str, text: bytes, stamp: str) -> bytes:
    """Return what must be appended so that `key` stands once and whole; b"" when it does."""
    text, word, time_ = stuffed(text), key.encode(), stamp.encode()
    if has_entry(tail, word):
        return b""
    before = last_entry(tail)
    if before and before[:2] == (word, len(text)) and text.startswith(before.body):
        return text[len(before.body) :] + b"\n"
    newline = b"" if not tail or tail.endswith(b"\n") else b"\n"
    mark = b"[%s %s" % (time_, _TORN) if before and before.cut else b""
    return b"%s%s[%s %s %d]\n%s\n" % (newline, mark, time_, word, len(text), text)


# ---- the file


class ConsoleLogs:
    """The chats in `folder`; `echo` shows what is appended (the courier in the foreground)."""

    def __init__(
        self,
        folder: Path,
        *,
        echo: TextIO | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._echo = echo
        self._now = now

    def __call__(self, request: Request) -> Response:
        """Append the request's body once; raise Rejected, Unavailable or Uncertain."""
        url, key = _URL.match(request.url), request.headers.get("key", "")
        if not url or not _KEY.match(key):
            raise Rejected(f"not a console chat and a key: {request.url[:80]!r}, {key[:80]!r}")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now()))
        with _opened(self._folder, f"console-{url[1]}.log") as file:
            size = os.fstat(file).st_size
            more = missing_bytes(_tail(file, size), key, request.body, stamp)
            if more:
                _append(file, more, size, self._folder)
        if more and self._echo:
            _show(self._echo, f"[{stamp} console:{url[1]} {key}]\n{request.body.decode()}\n")
        return Response(200, json.dumps({"id": key, "again": not more}).encode())


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    """Give the locked file, or raise Rejected (not ours) or Unavailable (not now)."""
    path = folder / name
    try:
        file = _open(folder, name)
    except OSError as exc:
        if exc.errno in _FOREIGN:
            raise Rejected(f"{path} is {_FOREIGN[exc.errno]}; move it away") from exc
        raise Unavailable(f"{path} cannot be opened: {exc.strerror}") from exc
    try:
        _check(os.fstat(file), path)
        _lock(file, path)
        yield file
    except OSError as exc:
        raise Unavailable(f"{path} cannot be written: {exc.strerror}") from exc
    finally:
        os.close(file)


def _open(folder: Path, name: str) -> int:
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # NONBLOCK: a pipe that somebody put there must not hold the courier.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=parent)
    finally:
        os.close(parent)


def _check(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Rejected(f"{path} is no regular file; move it away")
    if found.st_uid != os.geteuid():
        raise Rejected(f"{path} belongs to user {found.st_uid}; move it away")
    if found.st_nlink > 1:
        raise Rejected(f"{path} is a second name of another file (hard link); move it away")


def _lock(file: int, path: Path) -> None:
    """Hold the file alone: senders' lanes run in parallel, and look and append are one step."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(f"{path} is locked by another process") from None
            time.sleep(0.01)


def _tail(file: int, size: int) -> bytes:
    """Return the last LOOK_BACK bytes, from a line's beginning."""
    start = max(0, size - LOOK_BACK)
    tail = os.pread(file, size - start, start)
    return tail if not start else tail[tail.find(b"\n") + 1 :]


def _append(file: int, data: bytes, size: int, folder: Path) -> None:
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        # Disk full in the middle. Whoever has the lock may cut; if even that fails, the
        # entry stays torn and the same key completes it.
        os.ftruncate(file, size)
        raise
    try:
        sync_file(file)
        if not size:  # a new file: its name too
            sync_folder(folder)
    except OSError as exc:
        raise Uncertain(f"written, but the disk does not confirm it: {exc.strerror}") from exc


def _show(echo: TextIO, text: str) -> None:
    try:
        echo.write(encodable(text, echo))
        echo.flush()
    except (OSError, ValueError):
        pass  # the reader of the terminal is gone; the file has the entry
