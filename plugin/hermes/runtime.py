"""
The part of wakebus in a process of Hermes, one for each profile that it is registered for.

Rule 1: its thread waits until the process turns out to be one that listens for this profile
(host_api/choose.py), and opens nothing before. Rule 2: what goes wrong is one line in the log, is
tried again, and stops neither Hermes nor the thread. Rule 3: it ends when its gateway or CLI does,
or Hermes unloads the plugin; at exit all end within 2 s; what was not finished is given back. Rule
4: a forked child has no part in it. Rule 5: nothing is shared between profiles but the process.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from wakebus.broker.errors import NameTaken, WakebusError
from wakebus.plugin.hermes.host_api.choose import Inject, find_live
from wakebus.plugin.hermes.host_api.protocol import LiveHost
from wakebus.plugin.hermes.isolated.isolation import is_isolated
from wakebus.plugin.hermes.profile_home import ProfileHome, profile_home
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker

if TYPE_CHECKING:  # loaded once the process is known to listen
    from wakebus.broker import Client
    from wakebus.plugin.hermes.membership import MakeHost, Membership
    from wakebus.plugin.prompt.pending_context import Context

log = logging.getLogger("wakebus")

LOOK_S: Final = 0.25
CALM_S: Final = 1.0  # between looks, when nothing has come alive for a while
EAGER_LOOKS: Final = 240  # a minute: starting a gateway may take that long
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
TAKEN_S: Final = 2.0  # until a name that is taken is asked for again
STOP_S: Final = 2.0

FindLive = Callable[[], LiveHost | None]


class Runtime:
    """
    What hooks, tools and /bus know of a profile in this process. Thread-safe.

    `home`: the profile's. `told_name`, `inject`: what Hermes gave at `register`. `tracker`: which
    of its turns are ours. `membership`: the profile on the bus, None where it does not listen, or
    not yet. `sent`: how many messages the tools have sent. `error`: what went wrong last, "" once
    it is well. `find_live`, `make_host` are replaced by tests.
    """

    def __init__(
        self,
        find_live: FindLive | None = None,
        make_host: "MakeHost | None" = None,
        home: ProfileHome | None = None,
    ) -> None:
        self.home = home or profile_home(None)
        self.told_name, self.inject = "", None
        self.tracker = TurnTracker()
        self.sent = 0
        self.error = ""
        self._find_live, self._make_host = find_live or self._find_here, make_host
        self.membership: Membership | None = None
        self._reset()
        self._pid = os.getpid()
        _everywhere.add(self)

    inject: Inject | None

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._wanted = False
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._retry = threading.Event()
        self._thread: threading.Thread | None = None

    def forget_parent(self) -> None:
        """In a forked child: nothing of it is here."""
        self._reset()
        self.membership, self.error = None, ""
        self.tracker = TurnTracker()

    def _find_here(self) -> LiveHost | None:
        if is_isolated():
            from wakebus.plugin.hermes.isolated.process import find_gateway

            return find_gateway()
        return find_live(home=self.home.key)

    # --- what others ask ------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`gateway`, `cli` or `tui`; "" in a process that does not listen, or not yet."""
        return self.membership.live.mode if self.membership else ""

    @property
    def endpoint(self) -> str:
        """The name on the bus, "" until it is registered."""
        return self.membership.endpoint if self.membership else ""

    @property
    def listens(self) -> bool:
        """Whether this process is one that listens, on the bus or about to be."""
        alive = os.getpid() == self._pid and not self._stopping.is_set()
        return alive and (self.membership is not None or self._alive() is not None)

    @property
    def receiving(self) -> bool:
        """Whether messages arrive here: registered, and the name not lost."""
        return bool(self.endpoint) and not self.lost

    @property
    def lost(self) -> str:
        """Why the name is no longer ours; "" while it is, or before."""
        return self.membership.lost if self.membership else ""

    @property
    def client(self) -> "Client | None":
        """The connection, None until there is one."""
        return self.membership.client if self.membership else None

    @property
    def host(self) -> Any:
        """The GatewayHost, CliHost or TuiHost, None until registered."""
        return self.membership.host if self.membership else None

    @property
    def context(self) -> "Context | None":
        """What waits for sessions, None until registered."""
        return self.membership.context if self.membership else None

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of this profile: the process's, unless that is of another one."""
        if self.home.launched:
            return os.environ
        from wakebus.plugin.hermes.profile_environ import ProfileEnviron

        return ProfileEnviron(self.home)

    def endpoint_of(self, profile: str) -> str:
        """Return the endpoint of another profile of this process, "" where it has none."""
        members = (one.membership for one in all_runtimes() if one is not self)
        return next((m.endpoint for m in members if m and m.live.profile == profile), "")

    # --- its thread -----------------------------------------------------------------------

    def start(self) -> None:
        """Be on the bus from now on; does nothing twice, nor in a forked child."""
        with self._lock:
            if os.getpid() != self._pid:
                return
            self._wanted = True
            if self._thread is None:
                self._stopping.clear()
                self._ended.clear()
                self._thread = threading.Thread(target=self._run, name="wakebus", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """
        Leave the bus, until `start`; return when that is done, or after 2 s.

        Hermes's event loop is not kept waiting.
        """
        self.begin_to_leave()
        if not _runs_a_loop():
            self.wait_until_left(STOP_S)

    def begin_to_leave(self) -> None:
        """Begin to leave the bus."""
        with self._lock:
            if os.getpid() == self._pid:
                self._wanted = False
                self._stopping.set()
                self._retry.set()

    def wait_until_left(self, seconds: float) -> None:
        """Return once it has left the bus, or after so many seconds."""
        if self._thread not in (None, threading.current_thread()) and os.getpid() == self._pid:
            self._ended.wait(seconds)

    def retry_now(self) -> None:
        """Try again now what is waiting to be tried again: somebody needs it."""
        self._retry.set()

    def _run(self) -> None:
        again = True
        while again:
            try:
                while (found := self._wait_for_life()) is not None:
                    self._live(found)
            except Exception as exc:
                self.tell_failure(f"{type(exc).__name__}: {exc}")
            again = self._is_wanted_again()

    def _is_wanted_again(self) -> bool:
        """Whether it was started while it left; else the thread is no more."""
        with self._lock:
            again = self._wanted and self._stopping.is_set()
            if again:
                self._stopping.clear()
            else:
                self._thread = None
                self._ended.set()
            return again

    def _wait_for_life(self) -> LiveHost | None:
        looks = 0
        while not self._stopping.is_set():
            if (found := self._alive()) is not None:
                return found
            looks += 1
            self._stopping.wait(LOOK_S if looks < EAGER_LOOKS else CALM_S)
        return None

    def _live(self, found: LiveHost) -> None:
        """Be on the bus for as long as `found` lives."""
        from wakebus.plugin.hermes.membership import Membership

        _stop_first_at_exit()
        member = Membership(found, self, self._make_host)
        self.membership = member
        try:
            if self._join(member):
                self._stay(member)
        except Exception as exc:  # a slip of ours must not end the thread
            self.tell_failure(f"{type(exc).__name__}: {exc}")
            self._stopping.wait(FIRST_PAUSE_S)
        finally:
            member.close()
            self.membership = None

    def _join(self, member: "Membership") -> bool:
        """Try until the member is on the bus; False when there is no use in it any more."""
        pause = FIRST_PAUSE_S
        while not self._over(member):
            try:
                member.join()
                self.error = ""
                return True
            except WakebusError as exc:
                self.tell_failure(member.explain(exc))
                wait = TAKEN_S if isinstance(exc, NameTaken) else pause
            self._pause(member, wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)
        return False

    def _pause(self, member: "Membership", seconds: float) -> None:
        """Wait, in steps, until it is time, or over, or `retry_now`."""
        self._retry.clear()
        while seconds > 0 and not self._over(member) and not self._retry.wait(LOOK_S):
            seconds -= LOOK_S

    def _stay(self, member: "Membership") -> None:
        while not self._over(member):
            member.maintain()
            self._stopping.wait(LOOK_S)

    def _over(self, member: "Membership") -> bool:
        if self._stopping.is_set():
            return True
        found, live = self._alive(), member.live
        return found is None or found.object is not live.object or found.profile != live.profile

    def _alive(self) -> LiveHost | None:
        try:
            return self._find_live()
        except Exception as exc:  # another Hermes, other objects: looked at again, told once
            self.tell_failure(f"cannot see whether Hermes listens: {type(exc).__name__}: {exc}")
            return None

    def tell_failure(self, text: str) -> None:
        """Keep what went wrong, and log it once, however often it is tried."""
        text = "; ".join(filter(None, map(str.strip, text.splitlines())))
        if text != self.error:
            self.error = text
            log.warning("%s", text)


_made = threading.Lock()
_runtimes: dict[Path, Runtime] = {}
_everywhere: "WeakSet[Runtime]" = WeakSet()


def runtime_of(home: Path | None) -> Runtime:
    """Return the Runtime of a profile, made at the first call. `home`: None for the process's."""
    found = profile_home(home)
    with _made:
        if found.key not in _runtimes:
            _runtimes[found.key] = Runtime(home=found)
        return _runtimes[found.key]


def all_runtimes() -> list[Runtime]:
    """Return the Runtimes of this process's profiles."""
    with _made:
        return list(_runtimes.values())


def client_of(home: Path | None) -> "Client | None":
    """Return the connection of the profile at `home` (None: any), or of who speaks for all."""
    known = all_runtimes()
    of_home = [one for one in known if home in (None, one.home.key)]
    of_all = [one for one in known if one.membership and not one.membership.live.profile]
    return next((one.client for one in (*of_home, *of_all)), None)


def _runs_a_loop() -> bool:
    import asyncio  # not in those that end at once

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _stop_all() -> None:
    until = time.monotonic() + STOP_S
    running = list(_everywhere)
    for one in running:
        one.begin_to_leave()
    for one in running:
        one.wait_until_left(max(0.0, until - time.monotonic()))


def _stop_first_at_exit() -> None:
    """Leave before what was loaded until now ends children: a command of ours would have failed."""
    atexit.unregister(_stop_all)
    atexit.register(_stop_all)


def _forget_parents() -> None:
    for one in list(_everywhere):
        one.forget_parent()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_forget_parents)
