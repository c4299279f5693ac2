"""
Threads for handlers, reused: no job waits for another.

Rule 1: daemon threads: a handler may take minutes, and the end of the process waits for none.
"""

import queue
import threading
from collections.abc import Callable

from wakebus.broker.system.fork_safety import exit_child


class HandlerPool:
    """As many threads as jobs run at once; idle ones take the next job."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._idle = self._count = 0
        self._forked = False
        self._lock = threading.Lock()

    def run(self, job: Callable[[], object]) -> None:
        """Run `job` in a thread; never waits. Raises RuntimeError when no thread can start."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._jobs.put(job)
                return
        thread = threading.Thread(
            target=self._work, args=(job,), name="wakebus handler", daemon=True
        )
        thread.start()
        with self._lock:
            self._count += 1

    def _work(self, job: Callable[[], object] | None) -> None:
        while job is not None:
            self._do(job)
            # Nothing may keep the last message alive while this thread waits.
            job = None
            with self._lock:
                self._idle += 1
            job = self._jobs.get()

    def _do(self, job: Callable[[], object]) -> None:
        error: BaseException | None = None
        try:
            job()
        except BaseException as exc:
            error = exc
            if not self._forked:
                raise
        if self._forked:
            exit_child(error)

    def after_fork(self) -> None:
        """In the child of a fork: at most the one that forked is there; the child ends with it."""
        self._forked = True
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Let idle threads end, and busy ones after their job."""
        with self._lock:
            for _ in range(self._count):
                self._jobs.put(None)
