"""
Ending from another thread: what waits in a selector is woken through a pipe.

Rule: any thread may call `cancel` and `wake` at any time, also too late.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Cancel:
    """Ends runs from another thread; once cancelled, for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._wakers: set[Waker] = set()

    @property
    def asked(self) -> bool:
        """True once `cancel` was called."""
        return self._asked

    def cancel(self) -> None:
        """End what runs under this object, and what is started under it later."""
        with self._lock:
            self._asked = True
            for waker in self._wakers:
                waker.wake()

    def add(self, waker: "Waker") -> None:
        """Wake `waker` when cancelled."""
        with self._lock:
            self._wakers.add(waker)

    def remove(self, waker: "Waker") -> None:
        """Forget `waker`."""
        with self._lock:
            self._wakers.discard(waker)


class Waker:
    """A pipe to wake a selector from other threads; harmless after `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.fd, self._write_fd = os.pipe()
        self._open = True
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)

    def wake(self) -> None:
        """Make `fd` readable."""
        with self._lock:
            if self._open:
                try:
                    os.write(self._write_fd, b"w")
                except BlockingIOError:
                    pass  # it is full of wakes already

    def close(self) -> None:
        """Give the pipe back."""
        with self._lock:
            self._open = False
            os.close(self.fd)
            os.close(self._write_fd)


class Running:
    """The process groups of all runs of this program."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._groups: set[int] = set()
        self.ending = False

    @contextmanager
    def noted(self, group: int) -> Iterator[None]:
        """Count `group` as running inside; one that starts while the program ends is killed."""
        with self._changed:
            self._groups.add(group)
            if self.ending:
                _kill(group)
        try:
            yield
        finally:
            with self._changed:
                self._groups.discard(group)
                self._changed.notify_all()

    def end_all(self, seconds: float) -> None:
        """
        Let no further run start, wait up to `seconds` for those that run, then kill what is left.

        For the end of a program: a daemon thread that waits for a child dies without ending it.
        """
        self.ending = True
        with self._changed:
            self._changed.wait_for(lambda: not self._groups, seconds)
            for group in self._groups:
                _kill(group)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it has just ended (macOS: only zombies are left)
