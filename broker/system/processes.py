"""
Whether a process still runs: the same one, and not a later one with its pid.

Rule 1: what cannot be told counts as running.
"""

import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

import psutil

ON_LINUX: Final = sys.platform == "linux"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process, told apart from a later one with the same pid. `start` 0: not known."""

    pid: int
    start: float = 0.0


def process_of(pid: int) -> Process:
    """Return process `pid` as it is now; 0: one of another pid namespace."""
    return Process(pid, start_of(pid))


def start_of(pid: int) -> float:
    """
    Return when process `pid` started, 0.0 if there is none or it cannot be told.

    On Linux in seconds since the boot, elsewhere since the epoch: psutil adds the boot time to the
    former, and that jumps with the wall clock, so that every process would look like another.
    """
    if pid <= 0:
        return 0.0
    try:
        if ON_LINUX:
            return int(_stat(pid)[19]) / _TICKS  # field 22 of proc_pid_stat(5)
        return psutil.Process(pid).create_time()
    except (psutil.Error, OSError, ValueError, IndexError):
        return 0.0


def _stat(pid: int) -> list[str]:
    # A /proc of another pid namespace, or none, as in a chroot: its numbers are not ours.
    if os.readlink("/proc/self") != str(os.getpid()):  # noqa: PTH115
        raise FileNotFoundError
    # The second field is the name in brackets and may hold anything; the rest starts behind it.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(") ")[2].split()


def has_ended(process: Process) -> bool:
    """Whether the process has ended (a zombie has; a pid reused by another one has too)."""
    if process.pid <= 0:
        return False  # another pid namespace: only silence tells
    try:
        os.kill(process.pid, 0)  # the kernel knows also where there is no /proc
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass  # another user's
    start = start_of(process.pid)
    reused = bool(process.start and start) and not _is_close(start, process.start)
    return reused or _is_zombie(process.pid)


def _is_zombie(pid: int) -> bool:
    try:
        if ON_LINUX:
            return _stat(pid)[0] in "ZX"
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError, IndexError):
        return False


def send_signal(process: Process, number: int) -> bool:
    """Signal this very process; False: it has ended, or cannot be told from a later one."""
    if not process.start or not _is_close(start_of(process.pid), process.start):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def _is_close(start: float, other: float) -> bool:
    return abs(start - other) <= 0.5
