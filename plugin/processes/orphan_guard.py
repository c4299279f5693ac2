"""
Nothing that a program started outlives it, also where SIGKILL ended it.

Rule 1: one small watcher per program, started with its first child. It reads from a pipe whose
other end only we hold (close-on-exec): at its end the groups that are still noted are ended, TERM,
2 s, KILL. Rule 2: what ended as it should is noted no longer; what it left running is left alone.
Rule 3: the watcher leads a session of its own, so that a terminal's Ctrl-C does not end it before
us; it ends when we end. Rule 4: a watcher that cannot be started, died or hangs stops no run.

PR_SET_PDEATHSIG would not do: it is Linux's alone and fires when the thread ends that forked.
"""

import atexit
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

END_S: Final = 5.0

# `+GROUP` and `-GROUP`, one a line.
_WATCHER: Final = """
trap '' HUP INT TERM
groups=' '
while read -r sign group; do
  case "$sign$groups" in
    +*) groups="$groups$group " ;;
    -*" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
left=
for group in $groups; do kill -TERM "-$group" && left=1; done
[ "$left" ] || exit
sleep 2
for group in $groups; do kill -KILL "-$group"; done
"""


class OrphanGuard:
    """The watcher of this program and what it knows; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._watcher: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def pid(self) -> int:
        """The watcher's process id, 0 before the first child."""
        return self._watcher.pid if self._watcher else 0

    def prepare(self) -> None:
        """Start the watcher, so that a child that starts next is noted at once."""
        with self._lock:
            if self._pipe < 0:
                self._start()

    @contextmanager
    def watched(self, group: int) -> Iterator[None]:
        """Inside, process group `group` ends with this program, however that ends."""
        with self._lock:
            self._groups.add(group)
            self._say(f"+ {group}\n")
        try:
            yield
        finally:
            with self._lock:
                self._groups.discard(group)
                self._say(f"- {group}\n")

    def close(self) -> None:
        """End the watcher, and with it what is still noted."""
        with self._lock:
            self._hang_up()
            if self._watcher:
                try:
                    self._watcher.wait(END_S)
                except subprocess.TimeoutExpired:
                    pass  # it was stopped, with SIGSTOP
                self._dismiss()

    # --- with the lock held ---------------------------------------------------------------

    def _say(self, line: str) -> None:
        try:
            os.write(self._pipe, line.encode())
        except OSError:  # not started yet, killed, or stopped until its pipe was full
            if self._groups:
                self._start()

    def _start(self) -> None:
        self._dismiss()  # first: it would end the groups when its pipe ends
        self._hang_up()
        try:
            read_end, self._pipe = os.pipe()
        except OSError:
            return  # with the next child again
        try:
            os.set_blocking(self._pipe, False)
            os.write(self._pipe, "".join(f"+ {group}\n" for group in self._groups).encode())
            self._watcher = _started(read_end)
        except OSError:
            pass
        finally:
            os.close(read_end)

    def _hang_up(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _dismiss(self) -> None:
        if self._watcher:
            self._watcher.kill()
            self._watcher.wait()
            self._watcher = None


def _started(read_end: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCHER, "wakebus-guard"],
        stdin=read_end,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath},
        cwd="/",
        start_new_session=True,
    )


_guard: Final = OrphanGuard()
prepare: Final = _guard.prepare
watched: Final = _guard.watched
atexit.register(_guard.close)
