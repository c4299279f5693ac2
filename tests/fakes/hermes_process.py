"""
What wakebus sees of a process of Hermes: look-alikes of hermes-agent 0.19.0, each named by the line
of its original, and a Runtime in them.
"""

import asyncio
import io
import threading
from types import SimpleNamespace
from typing import Any

from fakes.broker import until
from fakes.hermes_ctx import Manager
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.host_api.choose import find_live
from wakebus.plugin.hermes.host_api.protocol import LiveHost
from wakebus.plugin.hermes.runtime import Runtime
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.host import TurnRequest
from wakebus.plugin.receive.listen_host import Listener
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.receive.turn_queue import Job


class Loop:
    """An asyncio loop, as far as choose.py looks."""

    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self.closed


class Process:
    """`sys.modules` of a process of Hermes, as far as choose.py looks; empty for one that ends."""

    def __init__(self) -> None:
        self.modules: dict[str, Any] = {}

    def find(self) -> LiveHost | None:
        """What is alive in this process."""
        return find_live(self.modules)

    def gateway(self) -> SimpleNamespace:
        """A gateway that runs (gateway/run.py:3072-3140, 7294)."""
        runner = SimpleNamespace(_gateway_loop=Loop(), _shutdown_event=asyncio.Event())
        self.modules["gateway.run"] = SimpleNamespace(_gateway_runner_ref=lambda: runner)
        return runner

    def cli(self) -> SimpleNamespace:
        """An interactive terminal (cli.py:13093-13098)."""
        cli = SimpleNamespace(_should_exit=False)
        manager = Manager()
        manager._cli_ref = cli
        self.modules["hermes_cli.plugins"] = SimpleNamespace(get_plugin_manager=lambda: manager)
        return cli

    def tui(self, server: Any) -> Any:
        """A process that serves the TUI (tui_gateway/entry.py:297 of 0.22.2)."""
        manager = Manager()
        manager.has_tui_message_injector = True
        self.modules["hermes_cli.plugins"] = SimpleNamespace(get_plugin_manager=lambda: manager)
        self.modules["tui_gateway.server"] = server
        return manager


class ListenerHost(Listener):
    """A stand-in for GatewayHost and CliHost: prints, and knows the chat of the session."""

    chat = ""

    def __init__(self, name: str, answers: Answers) -> None:
        super().__init__(name, answers)
        self.remembered: list[str] = []

    def channel(self, session_id: str = "") -> str:
        """The chat of the session that calls."""
        return self.chat

    def remember_sent(self, id: str, session_id: str = "") -> None:
        """Keep it."""
        self.remembered.append(id)


class Station:
    """A Runtime in a process of its own, with a stand-in for the host; `printed`: its terminal."""

    def __init__(self) -> None:
        self.process, self.printed = Process(), io.StringIO()
        self.runtime = Runtime(self.process.find, self._make_host)

    def _make_host(
        self, found: LiveHost, name: str, answers: Answers, stop: threading.Event
    ) -> tuple[Any, Any]:
        return ListenerHost(name, answers), TerminalOutput(self.printed)

    def start(self) -> "Station":
        """Start its thread."""
        self.runtime.start()
        return self

    def join(self, mode: str) -> "Station":
        """Become a gateway or a CLI, and wait until it is on the bus."""
        getattr(self.process, mode)()
        self.start()
        until(lambda: self.runtime.receiving)
        return self

    def turn(self, message: Message, session_id: str = "s1", task_id: str = "t1") -> Any:
        """Return a `tracker.tracking` of a turn on `message`; begin it with `begin`."""
        delivery = SimpleNamespace(message=message)
        job = Job(delivery, None, PromptItem(message, message.text))  # type: ignore[arg-type]
        marker = "0123456789abcdef01234567"
        return self.runtime.tracker.tracking(
            TurnRequest("s", [job], marker, marker, "tok", Cancel())
        )

    def begin(self, session_id: str = "s1", task_id: str = "t1") -> None:
        """Have Hermes begin that turn."""
        marker = "0123456789abcdef01234567"
        self.runtime.tracker.on_begin(marker, session_id=session_id, task_id=task_id, turn_id="u1")
