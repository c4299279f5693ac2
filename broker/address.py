"""
Where the running broker is: the address file, written by the broker and read by its clients.

Rule 1: clients compute no address. Rule 2: of a file that is not this user's, or that tells of
another broker, nothing is taken; nor of sockets that others may replace. Rule 3: every sender
loads this file: it works on strings, as pathlib would cost a sender 5 % of its whole run.
"""

import json
import os
import stat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wakebus.broker import paths
from wakebus.broker.errors import NotRunning
from wakebus.broker.folder_trust import refusal_of_way

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS_FILE: Final = "address.json"
STEP: Final = "Or set HERMES_BUS_ROOT to a folder of your own, for commands and the broker alike."


class TopicAddresses(NamedTuple):
    """Where the events are: `events_in`, `events_out`; `bus_pub`, whose word `bus.**` is."""

    events_in: str
    events_out: str
    bus_pub: str


def router_address() -> str:
    """Return where clients connect, as the running broker wrote it. Raises NotRunning."""
    return checked_address(str(read_address(f"{paths.root_of('HERMES_BUS_ROOT')}/bus")["router"]))


def checked_address(address: str) -> str:
    """Return `address`. Raises NotRunning where others may put another socket in its place."""
    try:
        reason = refusal_of_address(address)
    except OSError:
        return address  # nobody is there
    if reason:
        path = address.partition("://")[2]
        raise NotRunning(f"the socket {path} is not safe: {reason}", step=STEP)
    return address


def refusal_of_address(address: str) -> str:
    """Return why others may put another socket in the place of this one, or "". Raises OSError."""
    scheme, _, path = address.partition("://")
    if scheme != "ipc" or path.startswith("@"):  # an abstract one is no file (unix(7))
        return ""
    return refusal_of_way(os.path.abspath(path), os.getuid())  # noqa: PTH100


def topic_addresses(router: str, *, explicit: bool) -> TopicAddresses:
    """
    Return where the events of the broker at `router` are. `explicit`: a caller gave its address.

    Raises NotRunning when the broker has written none, or wrote of another one.
    """
    own = os.path.dirname(router.removeprefix("ipc://"))  # noqa: PTH120
    folders: tuple[str, ...] = (own, str(paths.bus_dir())) if explicit else (str(paths.bus_dir()),)
    problem = f"the broker at {router} has written nowhere where its events are"
    for folder in folders:
        try:
            data = read_address(folder)
        except NotRunning as exc:
            problem = problem if explicit else exc.text
            continue
        if explicit and data["router"] != router:
            continue
        found = [data.get(field) for field in TopicAddresses._fields]
        if all(isinstance(value, str) for value in found):
            events_in, events_out, bus_pub = map(str, found)
            return TopicAddresses(checked_address(events_in), checked_address(events_out), bus_pub)
        problem = f"the broker at {router} is older than this client: it has no events"
        raise NotRunning(problem, step="Replace it by the new one: hermes-busd restart")
    raise NotRunning(problem)


def read_address(folder: "Path | str") -> dict[str, Any]:
    """
    Return what the running broker wrote about itself: `router`, `pid`, `boot`, versions.

    Raises NotRunning when there is no such file, it cannot be read, or is somebody else's.
    """
    path = f"{folder}/{ADDRESS_FILE}"
    try:
        # NONBLOCK: a pipe of this name must not hold anybody.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            found, user = os.fstat(descriptor), os.getuid()
            if not stat.S_ISREG(found.st_mode) or found.st_uid != user:
                raise _not_trusted(f"{path} is not a file of this user")
            if os.stat(folder).st_uid != user:  # noqa: PTH116
                raise _not_trusted(f"{folder} is not a folder of this user")
            if reason := refusal_of_way(os.path.abspath(folder), user):  # noqa: PTH100
                raise NotRunning(f"{path} is not safe: {reason}", step=STEP)
            data = json.load(file)
    except FileNotFoundError:
        raise NotRunning(f"no broker runs here ({path} does not exist)") from None
    except PermissionError as exc:
        from wakebus.broker.denial import denied

        raise denied(path, exc, "be read") from exc
    except OSError as exc:
        raise NotRunning(f"{path} cannot be read: {exc.strerror}") from exc
    except (ValueError, RecursionError):
        data = None  # empty after a cut of power, or damaged: a running broker soon mends it
    if not isinstance(data, dict) or not isinstance(data.get("router"), str):
        raise NotRunning(f"no broker runs here ({path} holds no address of one)")
    return data


def _not_trusted(text: str) -> NotRunning:
    from wakebus.broker.denial import OWN_ROOT

    return NotRunning(f"{text}; it is not trusted", step=OWN_ROOT)
