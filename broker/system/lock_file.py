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

from wakebus.broker.denial import denied
from wakebus.broker.errors import WakebusError
from wakebus.broker.system.processes import ON_LINUX, Process, process_of, start_of

LOCK: Final = "broker.lock"
STORE_FILE: Final = "bus.db"
TEXT_MOST: Final = 64
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


def write_again(lock: int) -> bool:
    """Write who holds the lock, if somebody has written something else; return whether so."""
    if os.pread(lock, TEXT_MOST, 0) == _own_text():
        return False
    _write_pid(lock)
    return True


def _own_text() -> bytes:
    return f"{os.getpid()} {start_of(os.getpid())}\n".encode()


def _write_pid(lock: int) -> None:
    text = _own_text()
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
    Return the pid of the broker that holds the folder, as that calls itself; None when none does.

    0: nothing tells. The number may be only what the file says (`proven_holder`). Raises NotRunning
    where this process may not look.
    """
    found = _written_holder(folder)
    if found is None and not _is_folder_locked(folder):
        return None
    if found and found.pid:
        return found.pid
    process = _folder_holder(folder)
    return process.pid if process else 0


def proven_holder(folder: Path) -> Process | None:
    """
    Return the process that certainly is the broker, and that may be signalled; None: not certain.

    The file's number may be a stranger's: in another pid namespace, or because somebody wrote to
    it. So the process must have started when the file says, and have the lock by the kernel's word.
    Where the file is gone or says something else, the kernel tells who has locked the folder.
    """
    found = _written_holder(folder)
    has_started = found and found.start and start_of(found.pid) == found.start
    if found and has_started and _has_locked(found.pid, folder / LOCK):
        return found
    return _folder_holder(folder)


def step_for_mute(folder: Path) -> str:
    """Return what to do about a broker that does not answer, "" where none is."""
    if process := proven_holder(folder):
        return (
            f"Process {process.pid} is the broker and does not answer; is it stopped or "
            f"overloaded?\nWake it: kill -CONT {process.pid}. Or replace it: hermes-busd restart"
        )
    if (pid := lock_holder(folder)) is None:
        return ""
    name = f"It calls itself process {pid}, but" if pid else "Which process it is, is not known: it"
    return (
        f"A broker holds {folder} and does not answer. {name} may run in another container: look "
        "after it where it was started."
    )


def _is_folder_locked(folder: Path) -> bool:
    try:
        guard = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _try_lock(guard, fcntl.LOCK_SH)
    finally:
        os.close(guard)


def _folder_holder(folder: Path) -> Process | None:
    """Return the process that has locked the folder and has the store open (proc_locks(5))."""
    try:
        number = folder.stat().st_ino
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return None
    for row in rows:
        if row[1] == "FLOCK" and row[-3].endswith(f":{number}") and row[-4].isdecimal():
            process = process_of(int(row[-4]))
            if process.start and _is_broker(process.pid, folder):
                return process
    return None


def _is_broker(pid: int, folder: Path) -> bool:
    """Whether the process has locked the folder and has the store open, as no other tool has."""
    return _has_locked(pid, folder) and bool(_descriptors(pid, folder / STORE_FILE))


def _written_holder(folder: Path) -> Process | None:
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as exc:
        raise denied(str(folder / LOCK), exc, "be read") from exc
    try:
        if _try_lock(lock, fcntl.LOCK_SH):
            return None
        pid, _, start = os.read(lock, TEXT_MOST).decode(errors="replace").strip().partition(" ")
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
    names = _descriptors(pid, path)
    try:
        return any("FLOCK" in Path(f"/proc/{pid}/fdinfo/{n}").read_text() for n in names)
    except OSError:
        return False  # it is ending


def _descriptors(pid: int, path: Path) -> list[str]:
    """Return the descriptors of process `pid` that are this file."""
    try:
        found, descriptors = path.stat(), [*Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []  # no /proc, or it is ending
    return [one.name for one in descriptors if _is_same(one, found)]


def _is_same(descriptor: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), found)
    except OSError:
        return False  # closed meanwhile
