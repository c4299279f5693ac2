"""
One broker per folder (PROTOCOL.md section 1).

Rule 1: the lock is the kernel's and ends with its process; the file's text only says who has it.
Rule 2: the folder is locked too: a lock file that is removed or replaced lets no second broker in.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.processes import ON_LINUX, Process, start_of

LOCK: Final = "broker.lock"
PEEK_S: Final = 0.5  # others hold the lock for a moment when they look who has it
FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class AlreadyRunning(WakebusError):
    """Another broker holds the lock."""

    code = "already_running"


def take_lock(folder: Path) -> int:
    """Return the descriptor of the held lock, or raise AlreadyRunning."""
    lock = os.open(folder / LOCK, FLAGS, 0o600)
    _lock_or_raise(lock, folder)
    _write_pid(lock)
    return lock


def lock_folder(folder: Path) -> int:
    """Return the descriptor of the folder, locked too, or raise AlreadyRunning."""
    guard = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    _lock_or_raise(guard, folder)
    return guard


def lock_again(folder: Path, lock: int) -> bool:
    """
    Lock the file that lies where `lock` was, and be its holder again; False: at the next look.

    The folder is locked as well, so no other broker can have come meanwhile.
    """
    new = os.open(folder / LOCK, FLAGS, 0o600)
    try:
        if not _try_lock(new, fcntl.LOCK_EX):
            return False  # somebody looks who has it
        _write_pid(new)
        os.dup2(new, lock, inheritable=False)
        return True
    finally:
        os.close(new)


def _write_pid(lock: int) -> None:
    text = f"{os.getpid()} {start_of(os.getpid())}\n".encode()
    os.pwrite(lock, text, 0)  # first, so that a reader at no time finds it empty
    os.ftruncate(lock, len(text))


def _lock_or_raise(lock: int, folder: Path) -> None:
    deadline = time.monotonic() + PEEK_S
    while not _try_lock(lock, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            os.close(lock)
            raise AlreadyRunning(f"a broker is running in {folder}")
        time.sleep(0.01)


def _try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def lock_holder(folder: Path) -> int | None:
    """
    Return the pid of the broker that holds the lock, as that calls itself; None when none does.

    0: the file does not tell. The number is only what the file says (`proven_holder`).
    """
    found = _written_holder(folder)
    return found and found.pid


def proven_holder(folder: Path) -> Process | None:
    """
    Return the process that certainly holds the lock, and that may be signalled; None: not certain.

    The file's number may be a stranger's: in another pid namespace, or because somebody wrote to
    it. So the process must have started when the file says, and have the lock by the kernel's word.
    """
    found = _written_holder(folder)
    if not found or not found.start or start_of(found.pid) != found.start:
        return None
    return found if _has_locked(found.pid, folder / LOCK) else None


def _written_holder(folder: Path) -> Process | None:
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _try_lock(lock, fcntl.LOCK_SH):
            return None
        pid, _, start = os.read(lock, 64).decode(errors="replace").strip().partition(" ")
    finally:
        os.close(lock)
    try:
        return Process(int(pid), float(start or 0))
    except ValueError:
        return Process(0)


def _has_locked(pid: int, path: Path) -> bool:
    """Whether a descriptor of process `pid` is this file, locked (proc_pid_fdinfo(5))."""
    if not ON_LINUX:
        return True  # no system call tells; the start does
    try:
        found, descriptors = path.stat(), [*Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False  # no /proc, or it is ending
    for descriptor in descriptors:
        try:
            ours = os.path.samestat(descriptor.stat(), found)
            if ours and "FLOCK" in Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text():
                return True
        except OSError:
            pass  # closed meanwhile
    return False
