"""
Why the system does not let this process reach the bus, and what would.

Rule 1: it is asked once something has failed: no sender that succeeds loads this file. Rule 2: a
broker that cannot be reached from here may be well: nothing in here advises to end it. Rule 3: a
sandbox is named by what it sets in the environment; where it sets nothing, the kinds are named.
"""

import errno
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.broker.errors import NotRunning, WakebusError

OWN_ROOT: Final = "The bus of your own: unset HERMES_BUS_ROOT, or set it to a folder of your own."


class Denial(NamedTuple):
    """What is denied and by whom, in one line; `step`: what lets it through."""

    text: str
    step: str


class Sandbox(NamedTuple):
    """A sandbox that this process is in; `step`: the setting that lets it reach the bus."""

    name: str
    step: str


def current_sandbox() -> Sandbox | None:
    """Return the sandbox that says so in the environment, None where none does."""
    environ = os.environ
    if environ.get("CODEX_SANDBOX") or environ.get("CODEX_SANDBOX_NETWORK_DISABLED"):
        # Codex 0.171: its list of Unix sockets is without effect on Linux; this works everywhere.
        return Sandbox(
            "Codex's sandbox",
            "To let it through, in ~/.codex/config.toml: [sandbox_workspace_write] network_access "
            "= true (of a permission profile: network.enabled = true); or run this command outside "
            "of the sandbox",
        )
    if environ.get("SANDBOX_RUNTIME"):
        # Sockets by their path on macOS alone: seccomp sees no path.
        on_macos = sys.platform == "darwin"
        sockets = '"allowUnixSockets": ["PATH"]' if on_macos else '"allowAllUnixSockets": true'
        return Sandbox(
            "Claude's sandbox",
            'To let it through, in ~/.claude/settings.json: {"sandbox": {"network": '
            f'{{{sockets}}}}}}}; to run it outside: {{"sandbox": {{"excludedCommands": '
            '["notify-hermes *", "wakebus *"]}}',
        )
    if environ.get("container") == "firejail":
        return Sandbox("firejail", "To let it through: --protocol=unix,inet,inet6, and --whitelist")
    return None


KINDS: Final = (
    "Run it outside, or let it connect to Unix sockets: in bubblewrap and seccomp the calls "
    "socket(AF_UNIX) and connect; firejail --protocol=unix; systemd RestrictAddressFamilies="
    "AF_UNIX; AppArmor and SELinux tell in the system's log"
)


def step_for_start() -> str:
    """Return what to do where the system does not let a broker start here."""
    if sandbox := current_sandbox():
        return f"Start it outside of {sandbox.name}: hermes-busd start. {sandbox.step}"
    return "Set HERMES_BUS_ROOT to a folder that you may write"


def not_running(address: str, text: str, consequence: str) -> NotRunning:
    """Return the error `text; consequence`, or what keeps this process from asking `address`."""
    if denial := denial_of_connection(address):
        return NotRunning(f"{denial.text}; {consequence}", step=denial.step)
    return NotRunning(f"{text}; {consequence}")


def denied(path: str, error: OSError, what: str) -> NotRunning:
    """Return the error of a file that this process may not use; the rest as in denial_of_path."""
    denial = denial_of_path(path, error, what)
    return NotRunning(denial.text, step=denial.step)


def system_error(error: OSError) -> WakebusError:
    """Return an error of the system that nobody expected, in one line, with the next step."""
    path = error.filename if isinstance(error.filename, str) else ""
    if path and isinstance(error, PermissionError):
        return denied(path, error, "be used")
    what = f"{path}: {error.strerror}" if path else str(error)
    steps = {
        errno.ENOSPC: "Make room on that disk",
        errno.EROFS: "That file system is read-only: set HERMES_BUS_ROOT to a folder on another",
        errno.EMFILE: "Raise the limit of open files: ulimit -n",
    }
    return WakebusError(what, step=steps.get(error.errno or 0, "Look further: wakebus doctor"))


def denial_of_connection(address: str) -> Denial | None:
    """Return why this process may not connect to `address`, None where it may, or nobody is."""
    scheme, _, path = address.partition("://")
    if scheme != "ipc":
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(f"\0{path[1:]}" if path.startswith("@") else os.fsencode(path))
    except OSError as exc:
        if exc.errno in (errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT):
            return denial_of_path(path, exc, "be connected to")
    return None


def denial_of_path(path: str, error: OSError, what: str) -> Denial:
    """Return who denies it that `path` is used. `what`: cannot `be read`, `be connected to`."""
    denied = f"{path} cannot {what} ({os.strerror(error.errno or 0)})"
    place, found = _nearest(path)
    if found is not None and found.st_uid != os.getuid() and error.errno == errno.EACCES:
        return Denial(f"{denied}: {place} belongs to another user (uid {found.st_uid})", OWN_ROOT)
    if found is not None and error.errno == errno.EACCES and not _is_open(found):
        mode = stat.S_IMODE(found.st_mode)
        return Denial(f"{denied}: {place} has mode {mode:04o}", f"chmod u+rwX {place}")
    if sandbox := current_sandbox():
        return Denial(f"{denied}: {sandbox.name} forbids it", sandbox.step)
    return Denial(f"{denied}: a sandbox or a security policy forbids it", KINDS)


def _nearest(path: str) -> tuple[Path, os.stat_result | None]:
    """Return `path`, or the first folder above it that this process may look at, and its state."""
    for place in (Path(path), *Path(path).parents):
        try:
            return place, place.stat()
        except OSError:
            pass
    return Path(path), None


def _is_open(found: os.stat_result) -> bool:
    """Whether its owner may read and write, and enter it if it is a folder."""
    wanted = stat.S_IRUSR | stat.S_IWUSR | (stat.S_IXUSR if stat.S_ISDIR(found.st_mode) else 0)
    return found.st_mode & wanted == wanted
