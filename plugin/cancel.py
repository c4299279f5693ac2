"""
Ending from another thread: what waits in a selector is woken through a pipe.

Rule: any thread may call `cancel` and `wake` at any time, also too late.
"""

import os
import threading


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
