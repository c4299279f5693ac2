"""
A rule's `command`: run by the shell, with the message in its environment and on its input.

Rule 1: the message is never part of the command line; text that holds `$(…)` stays text. Rule 2:
what a command does is an outcome, never a loss. Rule 3: a command is finished when its shell has
exited; what it leaves running lives on and holds nobody up. Rule 4: at most 8 at once.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol import wire
from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes import environment
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.run import run_process
from wakebus.plugin.receive.message_file import message_file
from wakebus.plugin.rules.model import Rule
from wakebus.plugin.rules.sanitize import sanitize

AT_ONCE: Final = 8
MAX_TAIL: Final = 4096
_SHELL: Final = ("/bin/sh", "-c")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """
    What became of a command; `started`, `ended` are Unix seconds.

    `status`: exit status, None if a `signal` ended it or it never started. `error`: why it did not
    start, or that its time was over. `tail`: the end of what it printed.
    """

    status: int | None = None
    signal: str = ""
    timed_out: bool = False
    cancelled: bool = False
    tail: str = ""
    tail_cut: bool = False
    started: float = 0.0
    ended: float = 0.0
    error: str = ""

    @property
    def ok(self) -> bool:
        """True if the command exited by itself with status 0."""
        return self.status == 0 and not (self.timed_out or self.cancelled or self.error)

    def to_outcome(self) -> dict[str, Any]:
        """Return the fields that say something, as JSON."""
        values = {name: getattr(self, name) for name in self.__slots__}
        always = ("status", "started", "ended")
        return {name: value for name, value in values.items() if value or name in always}


class Commands:
    """Runs commands, some at once; thread-safe. One per process."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._room = threading.Condition()
        self._left = at_once
        self._stopping = False
        self._running: set[Cancel] = set()

    def run(
        self,
        rule: Rule,
        message: Message,
        *,
        environ: Mapping[str, str] = os.environ,
        cancel: Cancel | None = None,
    ) -> CommandResult:
        """Run the rule's command for `message` and wait for its end; never raises."""
        if rule.command is None:
            return CommandResult(error="the rule has no command")
        cancel = cancel or Cancel()
        with self._place(cancel) as free:
            if not free:
                return CommandResult(cancelled=True, error="stopped before it started")
            return _run(rule, rule.command, message, environ, cancel)

    def end_command(self, cancel: Cancel) -> None:
        """End the command that runs or waits under `cancel`."""
        cancel.cancel()
        with self._room:
            self._room.notify_all()

    def stop_all(self) -> None:
        """End every running and waiting command; none starts afterwards."""
        with self._room:
            self._stopping = True
            for cancel in self._running:
                cancel.cancel()
            self._room.notify_all()

    @contextmanager
    def _place(self, cancel: Cancel) -> Iterator[bool]:
        with self._room:
            self._room.wait_for(lambda: self._left > 0 or self._stopping or cancel.asked)
            free = not (self._stopping or cancel.asked)
            self._left -= free
            self._running.add(cancel)
        try:
            yield free
        finally:
            with self._room:
                self._left += free
                self._running.discard(cancel)
                self._room.notify()


def _run(
    rule: Rule, command: str, message: Message, environ: Mapping[str, str], cancel: Cancel
) -> CommandResult:
    data, started = wire.dumps(message.to_wire()), time.time()
    timeout = rule.command_timeout_s
    try:
        with message_file(data) as file:
            done = run_process(
                [*_SHELL, command],
                env=_environment(rule, message, data, file, environ),
                stdin=data,
                timeout=timeout,
                stderr_limit=MAX_TAIL,
                merged=True,
                cancel=cancel,
            )
    except (WakebusError, OSError) as exc:
        return CommandResult(started=started, ended=time.time(), error=str(exc))
    return CommandResult(
        status=done.status,
        signal=done.signal,
        timed_out=done.timed_out,
        cancelled=done.cancelled,
        tail=sanitize(done.stderr.decode(errors="replace")).strip(),
        tail_cut=done.stderr_cut,
        started=started,
        ended=time.time(),
        error=f"ended after its time limit of {timeout:g} s" if done.timed_out else "",
    )


def _environment(
    rule: Rule, message: Message, data: bytes, file: str, environ: Mapping[str, str]
) -> environment.ChildEnvironment:
    fields = environment.message_fields(message) | {"MESSAGE": data.decode(), "MESSAGE_FILE": file}
    return environment.base_environment(environ, rule.env) | environment.encode_values(fields)
