"""
The bus folder while the broker runs (PROTOCOL.md section 1).

Rule 1: what can be made again is made again: the address, the sockets, the lock, the log. Rule 2:
if the folder or the store went, the broker ends and says so: nobody would find what it still
accepts, and another may start in its place. Rule 3: looks are taken in a thread of their own: a
disk may hang; the sockets belong to other threads, which are asked.
"""

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from wakebus.broker.address import ADDRESS_FILE, read_address
from wakebus.broker.errors import WakebusError
from wakebus.broker.server.connection_limit import ConnectionLimit
from wakebus.broker.server.router import Router
from wakebus.broker.server.socket_paths import make_again
from wakebus.broker.store.recovery import lost_files
from wakebus.broker.store.store import Store
from wakebus.broker.system.durable_file import replace_file
from wakebus.broker.system.lock_file import LOCK, lock_again, write_again
from wakebus.broker.system.log_file import reopen_log
from wakebus.broker.system.private_files import is_same_file

log = logging.getLogger("wakebus.watchdog")

LOOK_S: Final = 0.5


def write_address(folder: Path, address: dict[str, Any]) -> None:
    """Write what clients read of this broker (PROTOCOL-1.5). Raises OSError."""
    replace_file(folder / ADDRESS_FILE, json.dumps(address).encode())


class Watchdog:
    """
    Looks after `folder` until `stop`.

    `guard`, `lock`: descriptors of the folder and the lock file. `bind()` and `bind_events()` make
    the sockets again, in the router thread. `lost`: why the broker must end, "" if it need not.
    """

    def __init__(
        self,
        folder: Path,
        guard: int,
        lock: int,
        address: dict[str, Any],
        limit: ConnectionLimit,
        store: Store,
        router: Router,
        bind: Callable[[], None],
        bind_events: Callable[[], None],
    ) -> None:
        self._folder, self._guard, self._lock = folder, guard, lock
        self._address, self._limit, self._store = address, limit, store
        self._router, self._bind, self._bind_events = router, bind, bind_events
        self.lost = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; what is removed from here on is removed by the broker itself."""
        self._stop.set()
        self._thread.join(5)  # a disk that hangs must not hold the exit

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                self.lost = self._look()
                if self.lost:
                    log.critical("%s", self.lost)
                    self._router.stop()
                    return
            except (OSError, WakebusError) as exc:  # a full disk, a wrong mode: again at every look
                log.error("%s", exc)
            except Exception:
                log.exception("a look at the folder failed")
                return

    def _look(self) -> str:
        """Mend what can be mended; return what cannot."""
        if not is_same_file(self._folder, self._guard):
            return f"the folder {self._folder} was removed or replaced under the broker"
        if why := lost_files(self._store):
            return why
        if self._is_gone(self._limit.path):
            self._router.call_soon(self._bind_again)
        if any(map(self._is_gone, self._limit.events)):
            self._router.call_soon(self._bind_events)
        for path in (self._limit.path, *self._limit.events):
            if not self._limit.closed and os.path.lexists(path) and not path.is_socket():
                log.error("%s is no socket any more: nobody new can connect; move it away", path)
        reopen_log(log.parent)
        lock = self._folder / LOCK
        if not is_same_file(lock, self._lock) and lock_again(self._folder, self._lock):
            log.warning("%s was replaced; locked again", lock)
        if write_again(self._lock):
            log.warning("%s named another process; written again", lock)
        if not self._is_ours():
            write_address(self._folder, self._address)
            log.warning("%s was gone; written again", self._folder / ADDRESS_FILE)
        return ""

    def _is_gone(self, path: Path) -> bool:
        return not self._limit.closed and not os.path.lexists(path)

    def _bind_again(self) -> None:
        path = self._limit.path
        if not self._is_gone(path):
            return  # made or closed since it was looked at
        try:
            make_again(path.parent)
            self._bind()
            log.warning("%s was gone; made again", path)
        except WakebusError as exc:
            log.error("%s", exc)

    def remove_address(self) -> None:
        """Remove what says that a broker runs, unless it is another one's by now."""
        if is_same_file(self._folder, self._guard):
            (self._folder / ADDRESS_FILE).unlink(missing_ok=True)
            self._limit.path.unlink(missing_ok=True)
        if self._folder.is_dir():
            reopen_log(log.parent)

    def _is_ours(self) -> bool:
        try:
            return read_address(self._folder) == self._address
        except WakebusError:
            return False
