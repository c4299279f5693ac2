"""
Whether a process still runs: the same one, and not a later one with its pid.

Rule 1: what cannot be told counts as running.
"""

import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

import psutil

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
    except (psutil.Error, OSError):  # no /proc
        return 0.0


def _stat(pid: int) -> list[str]:
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
    try:
        if psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE:
            return True
    except (psutil.Error, OSError):
        return False
    start = start_of(process.pid)
    return bool(process.start and start) and not _is_close(start, process.start)


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


def in_same_namespace(pid: int) -> bool:
    """Whether `pid`, as that process calls itself, is also its number here (pid_namespaces(7))."""
    if sys.platform != "linux":
        return True
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        return False
