"""Look-alikes of the CLI and the TUI on a real bus; what is of wakebus is real."""

import io
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakes.broker import until
from fakes.gateway import Granted
from fakes.hermes_cli import Cli
from fakes.hermes_tui import TuiServer
from fakes.host import Outcome, write_rules
from wakebus.broker import Client
from wakebus.plugin.hermes.hooks import Hooks
from wakebus.plugin.hermes.host_api.private_terminal import PrivateTerminal
from wakebus.plugin.hermes.host_api.private_tui import PrivateTui
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.hermes.terminal.host import CliHost
from wakebus.plugin.hermes.tui.host import TuiHost
from wakebus.plugin.hermes.tui.tui_output import TuiOutput
from wakebus.plugin.prompt.pending_context import Context, context_file
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.rules.load import RulesFile


class Bus:
    """What hooks.py sees of runtime.py's Runtime, and what hermes_cli/plugins.py has of hooks."""

    def __init__(self) -> None:
        self.tracker = TurnTracker()
        self.host: Any = None
        self.context: Any = None
        self.endpoint = self.mode = ""
        self.errors: list[str] = []
        self.callbacks: dict[str, list[Any]] = {}

    def register_hook(self, name: str, callback: Any) -> None:
        """hermes_cli/plugins.py:1158."""
        self.callbacks.setdefault(name, []).append(callback)

    def fire(self, name: str, **fields: Any) -> list[Any]:
        """hermes_cli/plugins.py:1892, where nothing may raise."""
        fields["telemetry_schema_version"] = 1
        found = [callback(**fields) for callback in self.callbacks.get(name, [])]
        return [one for one in found if one is not None]

    def tell_failure(self, text: str) -> None:
        """runtime.py: what the log and /bus tell."""
        self.errors.append(text)

    def registered(self) -> "Bus":
        """Register the hooks, after all that were there before are forgotten."""
        self.callbacks.clear()
        Hooks(self).register(self)  # type: ignore[arg-type]
        return self


class Seat:
    """
    A process of Hermes in front of which a person sits, on the bus; `mode`: as of a LiveHost.

    Each kind makes its Hermes and its host in `sit_down`.
    """

    mode = ""

    def __init__(
        self, address: str, folder: Path, name: str, *callbacks: Mapping[str, Any]
    ) -> None:
        self.name, self.stop = name, threading.Event()
        self.bus = Bus().registered()
        self.client, self.sender = Client(address), Client(address)
        answers = Answers(self.client, name, self.stop)
        self.context = Context(context_file(folder, name))
        self.bus.context, self.bus.endpoint, self.bus.mode = self.context, name, self.mode
        host, terminal = self.sit_down(answers)
        self.bus.host = host
        rules = RulesFile(write_rules(folder, *callbacks), required=True)
        self.dispatch = Dispatch(name, rules, host, answers, self.context, terminal=terminal)
        self.client.register(name, self.dispatch.handle)

    def sit_down(self, answers: Answers) -> tuple[Any, TerminalOutput]:
        """Return the host, and what its prints go to."""
        raise NotImplementedError

    def end_hermes(self) -> None:
        """End what there is of Hermes."""
        raise NotImplementedError

    def close(self) -> None:
        """End as the runtime does."""
        self.stop.set()
        self.dispatch.stop()
        self.end_hermes()
        self.client.close()
        self.sender.close()

    def send(self, text: str, **fields: Any) -> str:
        """Send it a message; return the id."""
        return self.sender.send(self.name, text, **{"sender": "tester", **fields}).id

    def outcome(self, id: str) -> Outcome:
        """Return the outcome of message `id`, once it is handled."""
        receipt = self.sender.wait(id, 60)
        assert receipt.state == "handled", receipt
        return dict(receipt.outcome or {})

    def do(self, text: str, **fields: Any) -> Outcome:
        """Send and return the outcome."""
        return self.outcome(self.send(text, **fields))

    def failed(self, id: str) -> str:
        """Return the reason why message `id`, worked on, failed; its outcome has the same error."""
        receipt = self.sender.wait(id, 60)
        assert receipt.failed and receipt.outcome, receipt
        assert receipt.reason == f"the turn failed: {receipt.outcome['turn']['error']}"
        return receipt.reason

    def held(self, id: str) -> bool:
        """Whether message `id` has arrived here and waits, with no work on it begun."""
        found = next(m for m in self.sender.trace(id) if m["id"] == id)
        return found["state"] == "delivered" and not any(
            step["what"] == "started" for step in found["steps"]
        )


class Terminal(Seat):
    """An interactive `hermes` on the bus; `printed`: what stands above its prompt."""

    mode = "cli"

    def sit_down(self, answers: Answers) -> tuple[Any, TerminalOutput]:
        """Start the CLI."""
        self.printed, self.cli = io.StringIO(), Cli(self.bus.fire)
        hermes = PrivateTerminal(self.cli)
        host = CliHost(hermes, self.name, answers, self.bus.tracker, self.stop)
        return host, TerminalOutput(self.printed)

    def end_hermes(self) -> None:
        """Leave the CLI."""
        self.cli.close()

    def turn(self, text: str) -> str:
        """Have the person start a turn, once; return what the model saw of it, after its end."""
        self.cli.person(text)
        until(lambda: text in self.cli.agent.ended, 30)
        return next(seen for seen in self.cli.agent.seen if seen.startswith(text))


class TuiSeat(Seat):
    """The TUI's server on the bus, with no session yet; `granted`: the owner's grant."""

    mode = "tui"

    def sit_down(self, answers: Answers) -> tuple[Any, TerminalOutput]:
        """Start the server."""
        self.server, self.granted = TuiServer(self.bus.fire), Granted(True)
        hermes = PrivateTui(self.server, lambda text, **named: self.server.inject(text, **named))
        host = TuiHost(hermes, answers, self.bus.tracker, self.granted, self.stop)
        return host, TuiOutput(hermes)

    def end_hermes(self) -> None:
        """End the server."""
        self.server.end()

    def speak(self, id: str, text: str = "hello") -> str:
        """Have a person start a turn in a session; return what the model saw, after its end."""
        agent = self.server.agent(id)
        self.server.person(id, text)
        until(lambda: text in agent.ended, 30)
        self.server.rested(id)
        return next(seen for seen in agent.seen if seen.startswith(text))
