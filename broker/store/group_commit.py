"""
The writer thread: runs operations on the store in batches, each one commit (PROTOCOL.md section 8).

Rule 1: only this thread touches the store's connection; others hand it small operations. Rule 2:
what has queued is run together and committed once; `done` is called with a result only after that
commit, and where it erases, only when what it deleted is in none of the files. Rule 3: if this
thread fails in a way nobody planned, the broker ends at once: a mute broker is worse than none.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from wakebus.broker.store.rows import Done
from wakebus.broker.store.store import Operation, Store

log = logging.getLogger("wakebus.store")

BATCH: Final = 2_000  # rows in one commit: keeps a receipt below ~50 ms behind a burst
BATCH_BYTES: Final = 4 << 20
QUEUE: Final = 20_000  # waiting operations; beyond it senders are told `busy`
# The log is moved into the file when this much was written, or a little in a pause. Not after each
# commit, nor by the log's size, which never shrinks: two more fsyncs doubled a lone send's time.
CHECKPOINT_BYTES: Final = 16 << 20
PAUSE_BYTES: Final = 1 << 20
PAUSE_S: Final = 0.2
BLOCKED_S: Final = 1.0  # until the log is tried again that another program's reading holds
# A handler that is done at once says `handled` 1 ms after `got`: one commit for both.
GATHER_S: Final = 0.004
COMMIT_BYTES: Final = 32 << 10  # pages that the smallest commit writes, about


class _Queued(NamedTuple):
    operation: Operation
    done: Done | None
    size: int
    erases: bool


class Writer:
    """
    Runs operations on the store in batches, from `start` to `stop`.

    `wake`: called when there are results to collect. `close`: ends the store, in the thread that
    stops this one.
    """

    def __init__(
        self, store: Store, wake: Callable[[], None], close: Callable[[Store], None]
    ) -> None:
        self._store, self._wake, self._close = store, wake, close
        self._queue: deque[_Queued] = deque()
        self._results: deque[tuple[Done, Any]] = deque()
        self._ready = threading.Condition()
        self._busy = 0
        # Bytes since the last checkpoint, about. What a killed broker left is moved at once, else
        # the log would grow with each kill.
        self._logged = CHECKPOINT_BYTES + 1
        self._pause = PAUSE_S
        self._urgent = self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store")

    def start(self) -> None:
        """Run what is queued; from now on nobody else may use the store."""
        self._thread.start()

    def submit(
        self,
        operation: Operation,
        done: Done | None = None,
        size: int = 0,
        *,
        urgent: bool = True,
        erases: bool = False,
    ) -> None:
        """
        Queue `operation`; `done(result)` is called by `collect` after the commit that holds it.

        urgent: else it may wait a few milliseconds, to share the commit of what comes next.
        erases: `done` comes when what it deletes is in neither the file nor its log.
        """
        with self._ready:
            self._queue.append(_Queued(operation, done, size, erases))
            self._urgent |= urgent
            self._ready.notify()

    def full(self) -> bool:
        """Whether new messages should be refused for now."""
        return len(self._queue) >= QUEUE

    def idle(self) -> bool:
        """Whether nothing is queued, running or waiting to be collected."""
        with self._ready:
            return not self._queue and not self._busy and not self._results

    def collect(self, call: Callable[[Callable[[], None]], None]) -> None:
        """`call` the `done` functions of what has been committed (router thread)."""
        while self._results:
            done, result = self._results.popleft()
            call(partial(done, result))

    def stop(self) -> None:
        """Finish what is queued, close the file, end the thread."""
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join()
        self._close(self._store)

    def _run(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                if not batch or self._logged > CHECKPOINT_BYTES or self._store.log_is_long:
                    self._checkpoint(erase=self._store.quota.unerased)
                done = list(zip(batch, self._run_batch(batch) if batch else [], strict=True))
                if batch and batch[-1].erases:  # the only one: it ends its batch
                    self._hand_out(done[:-1], left=1)
                    self._checkpoint(erase=True)
                    done = done[-1:]
                self._hand_out(done, left=0)
        except BaseException:
            log.critical("the writer thread failed; the broker ends", exc_info=True)
            logging.shutdown()
            os._exit(70)

    def _hand_out(self, done: list[tuple[_Queued, Any]], *, left: int) -> None:
        with self._ready:
            self._results += [(one.done, result) for one, result in done if one.done is not None]
            self._busy = left
        if done:
            self._wake()

    def _checkpoint(self, *, erase: bool) -> None:
        self._pause = PAUSE_S if self._store.checkpoint(erase=erase) else BLOCKED_S
        self._logged = 0

    def _run_batch(self, batch: list[_Queued]) -> list[Any]:
        before = self._store.db.total_changes
        results = self._store.transaction([one.operation for one in batch])
        if self._store.db.total_changes != before:
            self._logged += COMMIT_BYTES + 2 * sum(one.size for one in batch)
        return results

    def _next_batch(self) -> list[_Queued] | None:
        """Return what to run; nothing in a pause that should be used, None at the end."""
        with self._ready:
            while not self._queue and not self._stopping:
                much = self._logged > PAUSE_BYTES or self._store.quota.unerased
                if not self._ready.wait(self._pause if much else None) and much:
                    return []
            self._ready.wait_for(lambda: self._urgent or self._stopping, GATHER_S)
            if not self._queue:
                return None
            batch: list[_Queued] = []
            size = 0
            while self._queue and len(batch) < BATCH and size < BATCH_BYTES:
                batch.append(self._queue.popleft())
                size += batch[-1].size
                if batch[-1].erases:
                    break  # each of them may write much
            self._urgent = bool(self._queue)
            self._busy = len(batch)
            return batch
