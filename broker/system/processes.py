"""
Who holds a name, and who may take it (PROTOCOL.md section 5).

Rule 1: one live holder per endpoint. Rule 2: only another instance raises the epoch. Rule 3: a
process that is gone frees its names at once; a silent one keeps them until somebody else asks.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from wakebus.broker.errors import NameTaken

_TICKS: Final = os.sysconf("SC_CLK_TCK")


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
    """
    Return when process `pid` started, 0.0 if there is none.

    In seconds since the boot where /proc tells, else since the epoch: psutil adds the boot time to
    the former, and that jumps with the wall clock, so that every process would look like another.
    """
    if pid <= 0:
        return 0.0
    try:
        return int(_stat(pid)[19]) / _TICKS  # field 22 of proc_pid_stat(5)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, IndexError):
        return 0.0
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def _stat(pid: int) -> list[str]:
    # The second field is the name in brackets and may hold anything; the rest starts behind it.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(") ")[2].split()


def gone(process: Process) -> bool:
    """Whether the process has ended (a zombie has; a pid reused by another one has too)."""
    if process.pid <= 0:
        return False  # another pid namespace: only silence tells
    try:
        if psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE:
            return True
        start = start_of(process.pid)
        return bool(process.start and start) and abs(start - process.start) > 0.5
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
