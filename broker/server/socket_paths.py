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
from wakebus.broker.folder_trust import refusal_of_way
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
    """
    Return where to bind, cleared of what a killed broker left; raises CannotStart.

    No link is on the way: whoever changes one later leads no client elsewhere.
    """
    remove_left_folder(folder)
    sockets = _in(folder.resolve())
    if len(os.fsencode(sockets.router)) > zmq.IPC_PATH_MAX_LEN:
        return _in(_short_folder(folder))
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


def _short_folder(folder: Path) -> Path:
    temp = _short_temp()
    if reason := refusal_of_way(str(temp), os.getuid()):
        raise CannotStart(
            f"the path of {folder} is too long for sockets, and {temp} is not safe for them: "
            f"{reason}, or set TMPDIR, or HERMES_BUS_ROOT to a shorter path"
        )
    return Path(tempfile.mkdtemp(prefix=SHORT, dir=temp))  # mkdtemp is 0700


def make_again(folder: Path) -> None:
    """Make a short folder that was removed. Raises CannotStart where it is another's by now."""
    try:
        folder.mkdir(0o700, exist_ok=True)
        reason = refusal_of_way(str(folder), os.getuid())
    except OSError as exc:
        raise CannotStart(f"the folder {folder} cannot be made: {exc.strerror}") from exc
    if reason:
        raise CannotStart(f"the sockets in {folder} are gone and it is not safe: {reason}")


def _short_temp() -> Path:
    found = Path(tempfile.gettempdir()).resolve()  # $TMPDIR may be as long as what did not fit
    fits = len(os.fsencode(found)) < zmq.IPC_PATH_MAX_LEN - 40
    return found if fits else Path("/tmp").resolve()


def remove_sockets(folder: Path, sockets: SocketPaths) -> None:
    """Remove the sockets, also where they were moved, and the folder made for them, if possible."""
    try:
        for path in sockets:
            path.unlink(missing_ok=True)
            moved_path(path).unlink(missing_ok=True)
        if sockets.router.parent != folder.resolve():
            sockets.router.parent.rmdir()
    except OSError as exc:  # it has gone, or something of another's lies there
        log.warning("the sockets' folder cannot be removed: %s", exc)


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
    if ours and named and left.parent.parent == _short_temp():
        remove_sockets(folder, _in(left.parent))
