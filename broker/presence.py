"""
Who holds a name, and who may take it (PROTOCOL.md section 5).

Rule 1: one live holder per endpoint. Rule 2: only another instance raises the epoch. Rule 3: a
process that is gone frees its names at once; a silent one keeps them until somebody else asks.
"""

from typing import NamedTuple

import psutil

from wakebus.broker.errors import NameTaken


class Process(NamedTuple):
    """A process, told apart from a later one with the same pid. `start` 0: not known."""

    pid: int
    start: float = 0.0


class Holder:
    """The client that holds an endpoint. `conn` None: known from the store, not yet back."""

    __slots__ = ("beat", "blocked", "conn", "epoch", "instance", "process", "since")

    def __init__(self, instance: str, process: Process, epoch: int, conn: bytes | None) -> None:
        self.instance, self.process, self.epoch, self.conn = instance, process, epoch, conn
        self.beat = self.since = 0.0  # monotonic, wall
        self.blocked = False  # its pipe is full; asked again at its next beat

    def silent(self, now: float, stale_s: float) -> bool:
        """Whether nothing was heard of it for `stale_s` seconds."""
        return now - self.beat > stale_s


def start_of(pid: int) -> float:
    """Return when process `pid` started (seconds since the epoch), 0.0 if there is none."""
    try:
        return psutil.Process(pid).create_time() if pid > 0 else 0.0
    except psutil.Error:
        return 0.0


def gone(process: Process) -> bool:
    """Whether the process has ended (a zombie has; a pid reused by another one has too)."""
    if process.pid <= 0:
        return False  # another pid namespace: only silence tells
    try:
        found = psutil.Process(process.pid)
        if found.status() == psutil.STATUS_ZOMBIE:
            return True
        # create_time is exact per boot; a second of slack covers its rounding.
        return bool(process.start) and abs(found.create_time() - process.start) > 1
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def check_claim(name: str, holder: Holder, instance: str, *, takeover: bool, free: bool) -> None:
    """Raise NameTaken if `instance` may not have `name`; `free`: its holder is gone or silent."""
    if holder.instance == instance or takeover or free:
        return
    raise NameTaken(
        f"{name} is held by process {holder.process.pid}; stop it, choose another name, "
        "or take the name over",
        pid=holder.process.pid,
        epoch=holder.epoch,
    )
