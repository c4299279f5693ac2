"""
The one part of wakebus in a process of Hermes: `runtime()`.

Rule 1: its thread waits until the process turns out to be one that listens (host_api/choose.py),
and opens nothing before. Rule 2: what goes wrong is one line in the log, is tried again, and stops
neither Hermes nor the thread. Rule 3: it ends when its gateway or CLI does, at exit within 2 s, and
gives back what was not finished. Rule 4: a forked child has no part in it.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from wakebus.broker.errors import NameTaken, WakebusError
from wakebus.plugin.hermes.host_api.choose import Inject, find_live
from wakebus.plugin.hermes.host_api.protocol import LiveHost
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
    What hooks, tools and /bus know of this process. Thread-safe.

    `profile`, `inject`: what Hermes gave at `register`. `tracker`: which of its turns are ours.
    `membership`: this process on the bus, None where it does not listen, or not yet. `sent`: how
    many messages the tools have sent. `error`: what went wrong last, "" once it is well.
    `find_live`, `make_host` are replaced by tests.
    """

    def __init__(
        self, find_live: FindLive = find_live, make_host: "MakeHost | None" = None
    ) -> None:
        self.profile, self.inject = "", None
        self.tracker = TurnTracker()
        self.sent = 0
        self.error = ""
        self._find_live, self._make_host = find_live, make_host
        self.membership: Membership | None = None
        self._reset()
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.stop)

    inject: Inject | None

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._retry = threading.Event()
        self._thread: threading.Thread | None = None

    def _forked(self) -> None:
        self._reset()
        self.membership, self.error = None, ""
        self.tracker = TurnTracker()

    # --- what others ask ------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`gateway` or `cli`; "" in a process that does not listen, or not yet."""
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
        """The GatewayHost or CliHost, None until registered."""
        return self.membership.host if self.membership else None

    @property
    def context(self) -> "Context | None":
        """What waits for sessions, None until registered."""
        return self.membership.context if self.membership else None

    # --- its thread -----------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread, unless it runs, or this is a forked child."""
        with self._lock:
            ours = os.getpid() == self._pid and not self._stopping.is_set()
            if self._thread is None and ours:
                self._thread = threading.Thread(target=self._run, name="wakebus", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Leave the bus; return when that is done, or after 2 s."""
        if os.getpid() != self._pid:
            return
        self._stopping.set()
        self._retry.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._ended.wait(STOP_S)

    def retry_now(self) -> None:
        """Try again now what is waiting to be tried again: somebody needs it."""
        self._retry.set()

    def _run(self) -> None:
        try:
            while (found := self._wait_for_life()) is not None:
                self._live(found)
        except Exception as exc:
            self._fail(f"{type(exc).__name__}: {exc}")
        finally:
            self._ended.set()

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

        member = Membership(
            found, self.profile, self.inject, self.tracker, self._fail, self._make_host
        )
        self.membership = member
        try:
            if self._join(member):
                self._stay(member)
        except Exception as exc:  # a slip of ours must not end the thread
            self._fail(f"{type(exc).__name__}: {exc}")
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
                self._fail(member.explain(exc))
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
        found = self._alive()
        return found is None or found.object is not member.live.object

    def _alive(self) -> LiveHost | None:
        try:
            return self._find_live()
        except Exception as exc:  # another Hermes, other objects: looked at again, told once
            self._fail(f"cannot see whether Hermes listens: {type(exc).__name__}: {exc}")
            return None

    def _fail(self, text: str) -> None:
        text = "; ".join(filter(None, map(str.strip, text.splitlines())))
        if text != self.error:  # once, however often it is tried
            self.error = text
            log.warning("%s", text)


_made = threading.Lock()
_runtimes: list[Runtime] = []


def runtime() -> Runtime:
    """Return the process's one Runtime; made at the first call."""
    with _made:
        if not _runtimes:
            _runtimes.append(Runtime())
        return _runtimes[0]
