"""
The broker's process: lock, folder, sockets, signals (PROTOCOL.md section 1).

Rule 1: an exclusive lock is held before any socket is touched: libzmq would delete a user's file
and steal a live broker's socket without an error (measured). Rule 2: what is not ours is named and
left alone. Rule 3: SIGTERM finishes what is accepted and exits 0.
"""

import gc
import logging
import os
import secrets
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import psutil
import zmq

from wakebus.broker import __version__, paths, settings
from wakebus.broker.address import ADDRESS_FILE
from wakebus.broker.errors import BrokerUnavailable
from wakebus.broker.protocol import wire
from wakebus.broker.server import socket_paths
from wakebus.broker.server.connection_limit import ConnectionLimit, raise_file_limit
from wakebus.broker.server.proxy import Proxy
from wakebus.broker.server.router import Router
from wakebus.broker.server.socket_paths import SocketPaths
from wakebus.broker.server.supervisor import Supervisor, installed_services
from wakebus.broker.server.watchdog import Watchdog, write_address
from wakebus.broker.store.recovery import open_store
from wakebus.broker.store.store import Store
from wakebus.broker.system.clock import Clock
from wakebus.broker.system.lock_file import STORE_FILE, lock_folder, take_lock
from wakebus.broker.system.log_file import start_log
from wakebus.broker.system.private_files import CannotStart, make_folder
from wakebus.broker.system.processes import start_of
from wakebus.broker.system.sqlite_file import is_damage

log = logging.getLogger("wakebus.process")

NO_PROC: Final = (
    "/proc cannot be read. So it is not checked whether the store lies on a network file system, "
    "whether the machine was booted since the last start, and whether a holder's pid is another "
    "process's by now; and `hermes-busd stop` signals no broker that does not answer"
)
LOG: Final = "broker.log"
# A store on a network or pass-through file system breaks SQLite's locks (sqlite.org/faq.html#q5).
REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs"})


def run(folder: Path, *, ready: Callable[[], None] = lambda: None, console: bool = False) -> None:
    """
    Serve in this process until SIGTERM or SIGINT; `ready` is called when clients may connect.

    Raises CannotStart, AlreadyRunning, BadSettings or NewerFile before anything is served.
    """
    if sys.platform not in ("linux", "darwin"):
        raise CannotStart("wakebus runs on Linux and macOS; this system is not supported")
    os.umask(0o077)
    # Ten thousand waiting messages are no garbage; at the default a quarter of a burst's time went
    # into looking for some among them (measured).
    gc.set_threshold(50_000, 20, 50)
    prepare(folder)
    try:
        # The folder first: where a broker's lock file was removed, none is made in its name. Both
        # are left to the kernel: who sees them free knows that the process has ended.
        guard = lock_folder(folder)
        lock = take_lock(folder)
    except OSError as exc:
        raise CannotStart(f"the lock cannot be taken: {exc}") from exc
    _serve(folder, ready, console, guard, lock)


def prepare(folder: Path) -> None:
    """Make the bus folder, private to its user."""
    make_folder(folder)
    if (kind := _file_system(folder)) in REMOTE:
        raise CannotStart(
            f"{folder} lies on {kind}, where a store is not safe; set HERMES_BUS_ROOT"
        )


def _file_system(folder: Path) -> str:
    """Return the kind of file system that `folder` lies on, "" where nothing tells."""
    best, kind = "", ""
    try:
        parts = psutil.disk_partitions(all=True)
    except (psutil.Error, OSError):
        return ""
    for part in parts:
        mount = part.mountpoint.rstrip("/") + "/"
        if f"{folder.resolve()}/".startswith(mount) and len(mount) > len(best):
            best, kind = mount, part.fstype
    return kind


def _serve(folder: Path, ready: Callable[[], None], console: bool, guard: int, lock: int) -> None:
    chosen = settings.load(folder / "wakebus.toml", os.environ)
    start_log(folder / LOG, chosen, console)
    if not start_of(os.getpid()):
        log.warning("%s", NO_PROC)
    sockets = socket_paths.choose_paths(folder)
    limit = ConnectionLimit(sockets, raise_file_limit())
    with ExitStack() as undo:  # of a start that fails
        context = zmq.Context()
        undo.callback(context.destroy, linger=0)
        socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        proxy = Proxy(context, chosen)
        router, store = _restored(folder, chosen, socket, proxy, limit)
        router.start()
        undo.callback(router.abandon)
        _bind(socket, limit)
        proxy.bind(sockets)
        _on_signals(router)
        address = _address(router, sockets)
        _publish(folder, address)
        undo.pop_all()
    proxy.start()
    bind = partial(_bind, socket, limit)
    watchdog = Watchdog(folder, guard, lock, address, limit, store, router, bind, proxy.bind_again)
    try:
        _run(folder, router, watchdog, ready, chosen.services)
    except BaseException:
        # Nothing in here is in a state to wait for: a mute broker is worse than none.
        log.critical("the router failed; the broker ends", exc_info=True)
        logging.shutdown()
        os._exit(70)
    proxy.stop()
    socket.close(linger=500)  # the last receipts; a frozen peer must not hold the exit
    context.term()
    socket_paths.remove_sockets(folder, sockets)
    log.info("stopped: pid %d", os.getpid())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the interpreter's end takes handlers away


def _restored(
    folder: Path,
    chosen: settings.Settings,
    socket: zmq.Socket[bytes],
    proxy: Proxy,
    limit: ConnectionLimit,
) -> tuple[Router, Store]:
    """Return the router and its store; damage that shows only now costs one more try."""
    boot = f"{machine_boot()}/{secrets.token_hex(4)}"
    services = installed_services() if chosen.services else frozenset()
    for again in (True, False):
        store = open_store(folder / STORE_FILE, machine_boot())
        router = Router(socket, store, proxy, limit, chosen, Clock(), boot, services)
        try:
            router.restore()
            return router, store
        except sqlite3.Error as exc:
            store.abandon()
            if not (again and is_damage(exc)):
                raise BrokerUnavailable(f"{store.path} cannot be read: {exc}") from exc
            store.damage_mark.touch()  # the next look goes through the whole file
        except BaseException:
            store.abandon()
            raise
    raise AssertionError("not reached")


def _publish(folder: Path, address: dict[str, object]) -> None:
    try:
        write_address(folder, address)
    except OSError as exc:
        raise CannotStart(f"{folder / ADDRESS_FILE} cannot be written: {exc}") from exc
    log.info("started: pid %d, version %s, %s", os.getpid(), __version__, address["router"])
    paths.stop_mark(folder).unlink(missing_ok=True)


def _run(
    folder: Path, router: Router, watchdog: Watchdog, ready: Callable[[], None], services: bool
) -> None:
    ready()
    watchdog.start()
    supervisor = Supervisor(folder) if services else None
    router.run()
    if router.stopped_for_good:
        _leave_stop_mark(folder)
    if supervisor:
        _stop_services(router, supervisor)
    watchdog.stop()
    if watchdog.lost:
        _end_lost(router, watchdog)
    (folder / ADDRESS_FILE).unlink(missing_ok=True)  # from here on it is no running broker
    router.finish()


def _leave_stop_mark(folder: Path) -> None:
    mark = paths.stop_mark(folder)
    try:
        mark.touch(mode=0o600)
    except OSError as exc:
        log.error("%s cannot be made (%s): listeners will start the broker again", mark, exc)


def _stop_services(router: Router, supervisor: Supervisor) -> None:
    """While they end they are still served: a service that cannot say its last words has died."""

    ended = threading.Event()

    def stop() -> None:
        supervisor.stop()
        ended.set()
        router.wake()

    threading.Thread(target=stop, name="services end").start()
    router.run(while_=lambda: not ended.is_set())


def _end_lost(router: Router, watchdog: Watchdog) -> NoReturn:
    """The folder or the store went: keep what can be kept and end; no receipt leaves any more."""
    router.abandon()
    watchdog.remove_address()
    log.critical("the broker ends: %s", watchdog.lost)
    logging.shutdown()
    os._exit(70)  # closing the socket would remove that of a broker that came meanwhile


def _address(router: Router, where: SocketPaths) -> dict[str, object]:
    versions = {"version": __version__, "protocol": wire.VERSION}
    sockets = {name: f"ipc://{path}" for name, path in where._asdict().items()}
    facts = {"pid": os.getpid(), "boot": router.boot, "bus_pub": router.bus_pub}
    return {**sockets, **facts, **versions}


def _bind(socket: zmq.Socket[bytes], limit: ConnectionLimit) -> None:
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, 16 << 20)  # a wall; what is merely too big gets an answer
    socket.setsockopt(zmq.SNDHWM, 1000)
    socket.setsockopt(zmq.RCVHWM, 10_000)
    socket.setsockopt(zmq.BACKLOG, limit.backlog)
    try:
        socket.bind(f"ipc://{limit.path}")
    except zmq.ZMQError as exc:
        raise CannotStart(f"the socket {limit.path} cannot be made: {exc}") from exc


def _on_signals(router: Router) -> None:
    signal.set_wakeup_fd(router.wake_fd, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: router.stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal is no order to stop


def machine_boot() -> str:
    """Return what changes at every boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        pass
    try:
        return str(int(psutil.boot_time()))
    except (psutil.Error, OSError):
        return "unknown"  # as if it were one boot for ever: no holder loses its name by it
