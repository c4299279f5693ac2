"""
The broker's process: lock, folder, sockets, signals (PROTOCOL.md section 1).

Rule 1: an exclusive lock is held before any socket is touched: libzmq would delete a user's file
and steal a live broker's socket without an error (measured). Rule 2: what is not ours is named and
left alone. Rule 3: SIGTERM finishes what is accepted and exits 0.
"""

import fcntl
import logging
import logging.handlers
import os
import secrets
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Final

import psutil
import zmq

from wakebus.broker import __version__, paths, settings, wire
from wakebus.broker.clock import Clock
from wakebus.broker.errors import WakebusError
from wakebus.broker.hub import Hub
from wakebus.broker.opening import open_store
from wakebus.broker.private import CannotStart as CannotStart
from wakebus.broker.private import append_to, make_folder
from wakebus.broker.router import Router
from wakebus.broker.services import Services

log = logging.getLogger("wakebus.daemon")

LOCK: Final = "broker.lock"
SOCKET: Final = "broker.sock"
SHORT: Final = "wakebus-"  # a socket's folder where the path is too long
PEEK_S: Final = 0.5  # others hold the lock for a moment when they look who has it
STORE: Final = "bus.db"
LOG: Final = "broker.log"
# A store on a network or pass-through file system breaks SQLite's locks (sqlite.org/faq.html#q5).
REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs"})


class AlreadyRunning(WakebusError):
    """Another broker holds the lock."""

    code = "already_running"


def run(folder: Path, *, ready: Callable[[], None] = lambda: None, console: bool = False) -> None:
    """
    Serve in this process until SIGTERM or SIGINT; `ready` is called when clients may connect.

    Raises CannotStart, AlreadyRunning, BadSettings or NewerStore before anything is served.
    """
    if sys.platform not in ("linux", "darwin"):
        raise CannotStart("wakebus runs on Linux and macOS; this system is not supported")
    os.umask(0o077)
    prepare(folder)
    try:
        lock = take_lock(folder)
    except OSError as exc:
        raise CannotStart(f"the lock cannot be taken: {exc}") from exc
    try:
        _serve(folder, ready, console)
    finally:
        os.close(lock)


def prepare(folder: Path) -> None:
    """Make the bus folder, private to its user."""
    make_folder(folder)
    if (kind := _file_system(folder)) in REMOTE:
        raise CannotStart(
            f"{folder} lies on {kind}, where a store is not safe; set HERMES_BUS_ROOT"
        )


def _file_system(folder: Path) -> str:
    best, kind = "", ""
    for part in psutil.disk_partitions(all=True):
        mount = part.mountpoint.rstrip("/") + "/"
        if f"{folder.resolve()}/".startswith(mount) and len(mount) > len(best):
            best, kind = mount, part.fstype
    return kind


def take_lock(folder: Path) -> int:
    """Return the descriptor of the held lock, or raise AlreadyRunning."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    deadline = time.monotonic() + PEEK_S
    while not _try_lock(lock, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            os.close(lock)
            raise AlreadyRunning(f"a broker is running in {folder}")
        time.sleep(0.01)
    text = f"{os.getpid()}\n".encode()
    os.pwrite(lock, text, 0)  # first, so that a reader at no time finds it empty
    os.ftruncate(lock, len(text))
    return lock


def _try_lock(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def lock_holder(folder: Path) -> int | None:
    """Return the pid of the broker that holds the lock, or None when none does."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _try_lock(lock, fcntl.LOCK_SH):
            return None
        text = os.read(lock, 32).strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(lock)


def _serve(folder: Path, ready: Callable[[], None], console: bool) -> None:
    chosen = settings.load(folder / "wakebus.toml", os.environ)
    _start_log(folder / LOG, chosen, console)
    address = _socket_path(folder)
    store = open_store(folder / STORE, machine_boot())
    context = zmq.Context()
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    hub = Hub(chosen, Clock(), f"{machine_boot()}/{secrets.token_hex(4)}")
    try:
        _bind(socket, address)
        router = Router(hub, socket, store)
    except BaseException:
        context.destroy(linger=0)
        store.abandon()
        raise
    try:
        _run(folder, router, _address(hub, address), ready, chosen.services)
    except BaseException:
        # Nothing in here is in a state to wait for: a mute broker is worse than none.
        log.critical("the router failed; the broker ends", exc_info=True)
        logging.shutdown()
        os._exit(70)
    socket.close(linger=500)  # the last receipts; a frozen peer must not hold the exit
    context.term()
    _remove_socket(folder, address)
    log.info("stopped: pid %d", os.getpid())


def _run(
    folder: Path,
    router: Router,
    address: dict[str, object],
    ready: Callable[[], None],
    services: bool,
) -> None:
    _on_signals(router)
    paths.write_address(folder, address)
    log.info("started: pid %d, version %s, %s", os.getpid(), __version__, address["router"])
    paths.stop_mark(folder).unlink(missing_ok=True)
    ready()
    children = Services(folder) if services else None
    router.run()
    (folder / paths.ADDRESS_FILE).unlink(missing_ok=True)  # from here on it is no running broker
    router.finish()
    if children:
        children.stop()


def _remove_socket(folder: Path, address: Path) -> None:
    address.unlink(missing_ok=True)
    if address.parent != folder:
        address.parent.rmdir()


def _address(hub: Hub, address: Path) -> dict[str, object]:
    versions = {"version": __version__, "protocol": wire.VERSION}
    return {"router": f"ipc://{address}", "pid": os.getpid(), "boot": hub.boot, **versions}


def _remove_left_folder(folder: Path) -> None:
    """Remove what a killed broker left under the temporary folder (PROTOCOL-1.4)."""
    try:
        left = Path(str(paths.read_address(folder)["router"]).removeprefix("ipc://"))
        found, socket = left.parent.lstat(), left.lstat()
    except (WakebusError, OSError):
        return
    ours = found.st_uid == socket.st_uid == os.getuid()
    ours = ours and stat.S_ISDIR(found.st_mode) and stat.S_ISSOCK(socket.st_mode)
    named = left.name == SOCKET and left.parent.name.startswith(SHORT)
    if ours and named and left.parent.parent == Path(_short_temp()):
        try:
            _remove_socket(folder, left)
        except OSError as exc:
            log.warning("%s was left by a killed broker and cannot be removed: %s", left, exc)


def _socket_path(folder: Path) -> Path:
    _remove_left_folder(folder)
    path = folder / SOCKET
    if len(os.fsencode(path)) > zmq.IPC_PATH_MAX_LEN:
        short = tempfile.mkdtemp(prefix=SHORT, dir=_short_temp())  # mkdtemp is 0700
        return Path(short) / SOCKET
    try:
        found = path.lstat()
    except FileNotFoundError:
        return path
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise CannotStart(
            f"{path} exists and is not a socket of this user; it was left alone: "
            "move it away and start again"
        )
    path.unlink()  # the lock is ours, so no live broker listens on it
    return path


def _short_temp() -> str:
    found = tempfile.gettempdir()  # $TMPDIR may be as long as the path that did not fit
    return found if len(os.fsencode(found)) < zmq.IPC_PATH_MAX_LEN - 40 else "/tmp"


def _bind(socket: zmq.Socket[bytes], path: Path) -> None:
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, 16 << 20)  # a wall; what is merely too big gets an answer
    socket.setsockopt(zmq.SNDHWM, 1000)
    socket.setsockopt(zmq.RCVHWM, 10_000)
    socket.setsockopt(zmq.BACKLOG, 1024)
    try:
        socket.bind(f"ipc://{path}")
    except zmq.ZMQError as exc:
        raise CannotStart(f"the socket {path} cannot be made: {exc}") from exc


def _on_signals(router: Router) -> None:
    signal.set_wakeup_fd(router.wake_fd, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: router.stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal is no order to stop


class _Log(logging.handlers.RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return os.fdopen(append_to(Path(self.baseFilename)), "a", encoding=self.encoding)


def _start_log(path: Path, chosen: settings.Settings, console: bool) -> None:
    handlers: list[logging.Handler] = [
        _Log(path, maxBytes=chosen.log_bytes, backupCount=chosen.log_files, encoding="utf-8")
    ]
    if console:
        handlers.append(logging.StreamHandler())
    root = logging.getLogger("wakebus")
    root.setLevel(logging.INFO)
    root.handlers = handlers
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in handlers:
        handler.setFormatter(form)


def machine_boot() -> str:
    """Return what changes at every boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(int(psutil.boot_time()))
