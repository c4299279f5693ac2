"""
A process in which Hermes runs nothing but plugins (`plugins.isolation: host`), and its gateway.

Read in hermes_cli/plugin_host_child.py and gateway/control_socket.py of 0.22.2. Every process of
Hermes has such a child for each profile, also those that end at once. Rule 1: its parent is a
gateway when that says so itself: its socket answers with our parent's pid, or it has let a person's
message in; nothing else proves it. Rule 2: what stands in gateway_state.json counts if our gateway
wrote it: a gateway that was killed leaves one that says `running`. Rule 3: nothing of Hermes is
imported.
"""

import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from wakebus.broker.paths import hermes_home
from wakebus.plugin.hermes.host_api.protocol import LiveHost
from wakebus.plugin.hermes.isolated.told_by_hooks import ToldByHooks

PAUSED: Final = "ESTOP"  # a file of `hermes pause` (agent/estop.py:27)
STATE: Final = "gateway_state.json"
SOCKET: Final = "gateway.sock"
POINTER: Final = "gateway.sock.path"  # holds the socket's path, where the home's is too long
ANSWER_S: Final = 2.0
MAX_ANSWER: Final = 512 * 1024  # bytes, as Hermes's own client

Ask = Callable[[Path], Mapping[str, Any]]


class IsolatedProcess:
    """
    A plugin host of the profile at `home`, child of process `parent`. Thread-safe.

    `told`: what its hooks have told; `has_hooks`: whether there are any. `ask`: identifies a
    gateway by the path of its socket.
    """

    def __init__(self, home: Path, parent: int, ask: Ask | None = None) -> None:
        above = home.parent
        self.home, self.told = home, ToldByHooks()
        self.profile = home.name if above.name == "profiles" else "default"
        # A gateway of several profiles has one socket, in the home in which it was launched.
        self._homes = (home, above.parent) if above.name == "profiles" else (home,)
        self._parent, self._ask = parent, ask or identify
        self._lock = threading.Lock()
        self._strangers: set[tuple[int, int]] = set()
        self._answered, self._launched = False, None
        self.has_hooks = False

    _launched: Path | None

    def forget_hooks(self) -> None:
        """Hermes has unloaded the plugin that they are of."""
        self.has_hooks = False

    def of_gateway(self) -> bool:
        """Return whether our parent is a gateway; what is known once stays so."""
        with self._lock:
            if not self._answered:
                self._answered = any(self._answers(home) for home in self._homes)
            return self._answered or self.told.has_admitted

    def _answers(self, home: Path) -> bool:
        path = socket_of(home)
        try:
            found = path.stat()
        except OSError:
            return False
        stamp = (found.st_ino, found.st_ctime_ns)
        if stamp in self._strangers:  # asked once: it is another process's for as long as it is
            return False
        pid = self._ask(path).get("pid")
        if pid is not None and pid != self._parent:
            self._strangers.add(stamp)
        if pid == self._parent:
            self._launched = home
        return pid == self._parent

    def state(self) -> dict[str, Any]:
        """Return what our gateway last wrote of itself; empty: nothing yet."""
        found = [_json(home / STATE) for home in self._homes]
        if self._answered:
            found = [one for one in found if one.get("pid") == self._parent]
        return next(filter(None, found), {})

    @property
    def is_paused(self) -> bool:
        """Whether the owner has stopped all new work, of this profile or of all."""
        return any((home / PAUSED).exists() for home in self._homes)

    @property
    def among_others(self) -> bool:
        """Whether our gateway serves this profile among others."""
        return self.profile in (self.state().get("served_profiles") or ())

    @property
    def launched_here(self) -> bool:
        """Whether our gateway was started for this profile: so its environment is ours."""
        return self._launched in (None, self.home)

    def all_platforms(self) -> tuple[str, ...]:
        """Return the names of the platforms of all of the gateway's profiles."""
        names = (str(name).rpartition(":")[2] for name in _mapping(self.state().get("platforms")))
        return tuple(dict.fromkeys(names))

    def platforms(self) -> dict[str, str]:
        """Return the states of this profile's platforms (gateway/status.py:1376), by name."""
        state = self.state()
        entries = {
            str(name): str(one.get("state") or "")
            for name, one in _mapping(state.get("platforms")).items()
            if isinstance(one, Mapping)
        }
        prefix = f"{self.profile}:"
        own = {n.removeprefix(prefix): said for n, said in entries.items() if n.startswith(prefix)}
        if self.profile != "default" and self.among_others:
            return own
        return {name: said for name, said in entries.items() if ":" not in name} | own


@cache
def this_process() -> IsolatedProcess:
    """Return this process; only where `is_isolated`."""
    return IsolatedProcess(hermes_home(), os.getppid())


def find_gateway() -> LiveHost | None:
    """Return the gateway whose child this process is, or None."""
    found = this_process()
    if not found.of_gateway():
        return None
    return LiveHost("gateway", found, launched=found.launched_here)


def socket_of(home: Path) -> Path:
    """Return where the socket of a gateway launched in `home` is, if it is."""
    try:
        pointed = (home / POINTER).read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeError):
        pointed = ""
    direct = home / SOCKET
    return Path(pointed) if pointed and not direct.exists() else direct


def identify(path: Path) -> Mapping[str, Any]:
    """Return what the gateway behind a socket says of itself; empty where none answers."""
    request = json.dumps({"verb": "identify", "id": 1, "protocol": 1}).encode() + b"\n"
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(str(path))
            connection.sendall(request)
            while not answer.endswith(b"\n") and len(answer) < MAX_ANSWER:
                if not (more := connection.recv(65536)):
                    break
                answer += more
        return _mapping(_mapping(json.loads(answer)).get("result"))
    except (OSError, ValueError, AttributeError):  # AttributeError: a system without such sockets
        return {}


def _json(file: Path) -> dict[str, Any]:
    try:
        return dict(_mapping(json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
