"""
Who gets in while files are scarce (PROTOCOL.md section 1).

Rule 1: libzmq aborts the process when it accepts a connection and has no descriptor left (4.3.5,
ipc_listener.cpp; seen), so the socket's file is moved out of the way before that: those that are
connected go on, new ones find nobody and try again. Rule 2: a descriptor's number tells how many
are in use, because the lowest free one is taken.
"""

import logging
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wakebus.broker.system.private_files import CannotStart

log = logging.getLogger("wakebus.connection_limit")

LEAST: Final = 256  # the broker itself, its services, and a reserve that is worth the name
WANTED: Final = 65_536  # of descriptors; more only makes tables larger
# libzmq waits with the 2,001st event that the router has not read (measured), and what stands in
# the backlog comes in as well: so this reserve is never used up.
RESERVE: Final = 4_096
BACKLOG: Final = 1_024
SLACK: Final = 16  # free places before it opens again: not for one client to come and go


def raise_file_limit() -> int:
    """Raise the limit of open files as far as it goes; return it. Raises CannotStart."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft == resource.RLIM_INFINITY:
        return WANTED
    for wanted in (most, min(most, 10_240)):  # macOS: OPEN_MAX, whatever the hard limit says
        if wanted > soft:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                soft = wanted
            except (OSError, ValueError):
                continue
    if soft < LEAST:
        raise CannotStart(
            f"the limit of open files is {soft}, the broker needs {LEAST}; "
            f"raise it (ulimit -n {LEAST}, or LimitNOFILE= of systemd) and start again"
        )
    return soft


class ConnectionLimit:
    """The sockets' files: there while new clients may come. Used by the router thread."""

    def __init__(self, sockets: Sequence[Path], limit: int) -> None:
        self.path, self._all, self._limit = sockets[0], tuple(sockets), limit
        self._reserve = min(RESERVE, limit // 2)
        self.closed = False

    @property
    def events(self) -> tuple[Path, ...]:
        """The sockets of the topic plane."""
        return self._all[1:]

    @property
    def backlog(self) -> int:
        """How many may wait to be let in."""
        return min(BACKLOG, self._reserve // 4)

    def on_accept(self, descriptor: int) -> None:
        """A connection came; let no more in if it took one of the last places."""
        if self.closed or descriptor < self._limit - self._reserve:
            return
        self.closed = True
        for path in self._all:
            _move(path, moved_path(path))
        log.warning(
            "%d of %d files are open: new clients wait until others leave; raise the limit "
            "(ulimit -n)",
            descriptor + 1,
            self._limit,
        )

    def check(self) -> None:
        """Let clients in again once there is room; none if files went another way."""
        used = self._count_open()
        if not self.closed:
            self.on_accept(used)
        elif used < self._limit - self._reserve - SLACK:
            self.closed = False  # even if a file is gone: then the watchdog makes a new one
            for path in self._all:
                _move(moved_path(path), path)
            log.info("there is room for new clients again")

    def _count_open(self) -> int:
        try:
            return len(os.listdir("/dev/fd"))  # noqa: PTH208
        except OSError:  # no /proc; as many calls as there may be files, once a second
            return sum(map(_is_open, range(self._limit)))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def moved_path(path: Path) -> Path:
    """Return where a socket's file is while nobody is let in."""
    return path.with_name(f"{path.name}.full")


def _move(path: Path, to: Path) -> None:
    try:
        path.rename(to)
    except FileNotFoundError:
        pass  # removed by somebody: the watchdog sees to that
    except OSError as exc:
        log.error("%s cannot be moved to %s: %s", path, to.name, exc)
