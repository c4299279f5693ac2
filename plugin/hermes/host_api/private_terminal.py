"""
An interactive CLI of hermes-agent 0.19.0: does it rest, its queue, ending its turn, its printer.

Rule 1: the object is Hermes's and may change or be half built: every name is looked up with a
default. Rule 2: what a person typed is neither taken, merged nor overtaken: our text is one entry
of the queue of prompts, never of `_interrupt_queue`, which Hermes joins into one prompt
(cli.py:12473). Rule 3: any thread may call.
"""

import queue
import sys
import time
from collections.abc import Callable
from typing import Any, Final

POLL_S: Final = 0.1
PATIENCE_S: Final = (
    15.0  # until an interrupted turn is over; Hermes itself gives it 10 (cli.py:12201)
)
# What is asked in place of the prompt (cli.py:13579).
_MODALS: Final = (
    "_approval_state",
    "_clarify_state",
    "_clarify_freetext",
    "_connection_state",  # 0.22: hermes_cli/cli_tui_mixin.py
    "_secret_state",
    "_slash_confirm_state",
    "_sudo_state",
    "_model_picker_state",
)


class PrivateTerminal:
    """See protocol.TerminalApi. `cli`: the HermesCLI of this process."""

    def __init__(self, cli: Any) -> None:
        self._cli = cli

    @property
    def running(self) -> bool:
        """Whether a turn runs, a person's or ours."""
        return bool(self._of("_agent_running"))

    @property
    def idle(self) -> bool:
        """Whether a prompt would be taken at once: no turn, command, question, nothing typed."""
        waiting = self._queue()
        return not (
            self.running
            or waiting is None
            or not waiting.empty()
            or self._of("_command_running")
            or any(self._of(name) for name in _MODALS)
        )

    @property
    def leaving(self) -> bool:
        """Whether the window was closed or a signal came: Hermes then interrupts its turn itself,
        seconds before it ends (cli.py:1138, 15196)."""
        return getattr(sys.modules.get("cli"), "_signal_watchdog_armed", False) is True

    @property
    def gone(self) -> str:
        """A terminal is one conversation, and ends with it."""
        return ""

    def printer(self) -> Callable[[str], object] | None:
        """
        Return cli.py:2685: it prints through the prompt's own event loop, from any thread, and
        keeps the lines for when the terminal changes its size.
        """
        found = getattr(sys.modules.get("cli"), "_cprint", None)
        return found if callable(found) else None

    def session_ids(self) -> set[str]:
        """Return Hermes's own names of the conversation; two while its history is compressed."""
        agent = self._of("agent")
        found = (self._of("session_id"), getattr(agent, "session_id", None))
        return {str(id) for id in found if id}

    def enqueue(self, text: str) -> bool:
        """Hand over a prompt: it is run after what was typed before; False: there is no queue."""
        waiting = self._queue()
        if waiting is None:
            return False
        waiting.put(text)
        return True

    def is_queued(self, text: str) -> bool:
        """Whether `text` still waits to be run."""
        waiting = self._queue()
        if waiting is None:
            return False
        with waiting.mutex:
            return text in waiting.queue

    def withdraw(self, text: str) -> bool:
        """Take `text` back; False when it is there no more."""
        waiting = self._queue()
        if waiting is None:
            return False
        with waiting.mutex:
            try:
                waiting.queue.remove(text)
            except ValueError:
                return False
            return True

    def interrupt(self, over: Callable[[], bool]) -> None:
        """End the running turn as Ctrl-C does; return when it is `over`, or after PATIENCE_S."""
        until = time.monotonic() + PATIENCE_S
        asked: Any = None
        while self.running and not over() and time.monotonic() < until:
            if asked is None and self._at_work():
                asked = self._ask()
            time.sleep(POLL_S)
        # Heard by nobody, it would end the next turn at its beginning (cli.py:12357).
        stale = asked is not None and not self._at_work()
        if stale and getattr(asked, "_interrupt_requested", False):
            asked.clear_interrupt()

    def _ask(self) -> Any:
        """As at Ctrl-C (cli.py:13662): questions of the turn are answered with no."""
        agent = self._of("agent")
        clear = self._of("_clear_active_overlays_for_interrupt")
        if callable(clear):
            clear()
        if callable(getattr(agent, "interrupt", None)):
            agent.interrupt()
        return agent

    def _at_work(self) -> bool:
        """Whether the agent's thread is alive: cli.py:12141 sets the time, 12232 clears it."""
        started = getattr(self._cli, "_prompt_start_time", 0.0)
        return self.running and started is not None and self._of("agent") is not None

    def _queue(self) -> "queue.Queue[Any] | None":
        found = self._of("_pending_input")
        return found if isinstance(found, queue.Queue) else None

    def _of(self, name: str) -> Any:
        return getattr(self._cli, name, None)
