"""
Where the broker's sockets lie (PROTOCOL.md section 1).

Rule 1: used under the lock, so no live broker listens on a socket that is found. Rule 2: what is
not ours is named and left alone. Rule 3: where a path is too long for a socket, all lie in a new
private folder under the temporary one.
"""

import logging
import os
import stat
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import zmq

from wakebus.broker.address import read_address
from wakebus.broker.errors import WakebusError
from wakebus.broker.server.connection_limit import moved_path
from wakebus.broker.system.private_files import CannotStart

log = logging.getLogger("wakebus.process")

SOCKET: Final = "broker.sock"
EVENTS_IN: Final = "pub.sock"  # publishers connect here
EVENTS_OUT: Final = "sub.sock"
SHORT: Final = "wakebus-"  # a socket's folder where the path is too long


class SocketPaths(NamedTuple):
    """The paths of the sockets."""

    router: Path
    events_in: Path
    events_out: Path


def _in(folder: Path) -> SocketPaths:
    return SocketPaths(folder / SOCKET, folder / EVENTS_IN, folder / EVENTS_OUT)


def choose_paths(folder: Path) -> SocketPaths:
    """Return where to bind, cleared of what a killed broker left; raises CannotStart."""
    remove_left_folder(folder)
    sockets = _in(folder)
    if len(os.fsencode(sockets.router)) > zmq.IPC_PATH_MAX_LEN:
        return _in(Path(tempfile.mkdtemp(prefix=SHORT, dir=_short_temp())))  # mkdtemp is 0700
    left = [one for path in sockets for one in (path, moved_path(path)) if _is_left(one)]
    for path in left:
        path.unlink()
    return sockets


def _is_left(path: Path) -> bool:
    """Whether a socket of ours is there; raises CannotStart where something else is."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise CannotStart(
            f"{path} exists and is not a socket of this user; it was left alone: "
            "move it away and start again"
        )
    return True


def _short_temp() -> str:
    found = tempfile.gettempdir()  # $TMPDIR may be as long as the path that did not fit
    return found if len(os.fsencode(found)) < zmq.IPC_PATH_MAX_LEN - 40 else "/tmp"


def remove_sockets(folder: Path, sockets: SocketPaths) -> None:
    """Remove the sockets, also where they were moved, and the folder made for them."""
    for path in sockets:
        path.unlink(missing_ok=True)
        moved_path(path).unlink(missing_ok=True)
    if sockets.router.parent != folder:
        sockets.router.parent.rmdir()


def remove_left_folder(folder: Path) -> None:
    """Remove what a killed broker left under the temporary folder (PROTOCOL-1.4)."""
    try:
        left = Path(str(read_address(folder)["router"]).removeprefix("ipc://"))
        found = left.parent.lstat()
        socket = (left if os.path.lexists(left) else moved_path(left)).lstat()
    except (WakebusError, OSError):
        return
    ours = found.st_uid == socket.st_uid == os.getuid()
    ours = ours and stat.S_ISDIR(found.st_mode) and stat.S_ISSOCK(socket.st_mode)
    named = left.name == SOCKET and left.parent.name.startswith(SHORT)
    if ours and named and left.parent.parent == Path(_short_temp()):
        try:
            remove_sockets(folder, _in(left.parent))
        except OSError as exc:
            log.warning("%s was left by a killed broker and cannot be removed: %s", left, exc)
