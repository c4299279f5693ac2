"""
What a receiver does beside its messages: keep a broker running, follow the rules and their topics.

Rule 1: a missing broker is started, again after 1 s, then up to 30 s apart; one that somebody
stopped (`hermes-busd stop`) is left alone. Rule 2: what goes wrong is said, and costs no message.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from wakebus.broker import Client
from wakebus.broker.address import read_address
from wakebus.broker.errors import NotRunning, WakebusError
from wakebus.broker.paths import bus_dir, stop_mark
from wakebus.broker.system.lock_file import lock_holder
from wakebus.plugin.receive.event_rules import RuleSubscriptions
from wakebus.plugin.rules.load import RulesFile
from wakebus.plugin.rules.model import Rules

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


class Maintenance:
    """Call `check` a few times a second; `say` tells people what it finds."""

    def __init__(
        self,
        client: Client,
        rules: RulesFile,
        events: RuleSubscriptions,
        say: Callable[[str], None],
    ) -> None:
        self._client, self._rules, self._events, self._say = client, rules, events, say
        self._pause, self._next_try = FIRST_PAUSE_S, 0.0
        self._found = rules.current()

    def check(self) -> None:
        """Start a broker that is missing, follow rules that have changed."""
        if (new := self._rules.current()) is not self._found:
            self._found = new
            self._say(f"the rules were read again: {new.source}")
            print_warnings(new, self._say)
        now = time.monotonic()
        if self._client.connected(0):
            self._pause, self._next_try = FIRST_PAUSE_S, now + FIRST_PAUSE_S
            self._follow()
        elif now >= self._next_try and _gone():
            self._start(now)

    def _start(self, now: float) -> None:
        try:
            start_broker()
        except WakebusError as exc:
            self._say(f"{exc}\nTrying again in {self._pause:g} s.")
        self._next_try = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)

    def _follow(self) -> None:
        try:
            self._events.follow()
        except WakebusError as exc:  # the broker went away just now: again at the next look
            self._say(f"events are not received yet: {exc.text}")


_starting: Final = threading.Lock()  # a process may be several endpoints


def start_broker() -> None:
    """Start the broker unless one is ready; raises NotRunning with its own words if it cannot."""
    with _starting:
        if not _ready():
            _start_one()


def _start_one() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "wakebus.broker", "start"],
        capture_output=True,
        text=True,
        errors="replace",
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise NotRunning(
            f"the broker does not start: {done.stderr.strip()}", step="By hand: hermes-busd start"
        )


def print_warnings(rules: Rules, say: Callable[[str], None]) -> None:
    """Say what a rules file holds that is allowed but does nothing."""
    for warning in rules.warnings:
        say(f"warning: {warning}")


def _ready() -> bool:
    """Whether a broker holds the lock and has written where it is."""
    holder = lock_holder(bus_dir())
    try:
        return holder is not None and read_address(bus_dir()).get("pid") == holder
    except NotRunning:
        return False


def _gone() -> bool:
    """Whether the broker is gone without anybody having stopped it (`hermes-busd stop`)."""
    return lock_holder(bus_dir()) is None and not stop_mark(bus_dir()).exists()
