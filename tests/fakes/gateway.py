"""An endpoint in a look-alike of a Hermes gateway: real host, dispatch, context and broker."""

import io
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakes.host import Outcome, write_rules
from wakebus.broker import Client
from wakebus.plugin.hermes.gateway.host import GatewayHost
from wakebus.plugin.hermes.gateway.turn_end import Intervals
from wakebus.plugin.hermes.host_api.choose import gateway_api
from wakebus.plugin.hermes.host_api.protocol import GatewayApi
from wakebus.plugin.hermes.shared.turn_grant import TurnGrant
from wakebus.plugin.prompt.pending_context import Context, context_file
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.rules.load import RulesFile

QUICK = Intervals(look=0.01, settle=0.3, delivery=20.0)


class Granted(TurnGrant):
    """The owner's grant, `on` or not."""

    def __init__(self, on: bool = True) -> None:
        super().__init__(Path("/nobody/.hermes"))
        self.on = on

    def __call__(self) -> bool:
        return self.on


class Gateway:
    """
    `town`'s gateway as endpoint `name`. `grant.on`: whether it may start turns.

    `town`: a Town, or an IsolatedTown with its `hermes`.
    """

    def __init__(
        self,
        address: str,
        folder: Path,
        name: str,
        town: Any,
        *callbacks: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
        inject: Any = None,
        intervals: Intervals | None = None,
        runner: Any = None,
        hermes: GatewayApi | None = None,
    ) -> None:
        self.name, self.town, self.grant = name, town, Granted()
        self.stop, self.printed = threading.Event(), io.StringIO()
        self.client = Client(address)
        answers = Answers(self.client, name, self.stop)
        self.host = GatewayHost(
            hermes or gateway_api(runner or town.runner, inject),
            name,
            answers,
            town.tracker,
            self.grant,
            self.stop,
            environ or {},
            intervals or QUICK,
        )
        town.runner.host = self.host
        self.context = Context(context_file(folder, name))
        rules = RulesFile(write_rules(folder, *callbacks), required=True)
        self.dispatch = Dispatch(
            name,
            rules,
            self.host,
            answers,
            self.context,
            terminal=TerminalOutput(self.printed),
            environ={},
        )
        self.client.register(name, self.dispatch.handle)
        self.sender = Client(address)

    def close(self) -> None:
        """End as a gateway does that stops."""
        self.stop.set()
        self.dispatch.stop()
        self.client.close()
        self.sender.close()

    def send(self, text: str, **fields: Any) -> str:
        """Send it a message; return the id."""
        fields = {"type": "ci", "sender": "tester", **fields}
        return self.sender.send(self.name, text, **fields).id

    def outcome(self, id: str, state: str = "handled") -> Outcome:
        """Return the outcome of message `id`, once it is handled (or dead)."""
        receipt = self.sender.wait(id, 30)
        assert receipt.state == state, receipt
        return dict(receipt.outcome or {})

    def do(self, text: str, **fields: Any) -> Outcome:
        """Send and return the outcome."""
        return self.outcome(self.send(text, **fields))

    def failed(self, id: str) -> str:
        """Return the reason why message `id`, worked on, failed; its outcome has the same error."""
        receipt = self.sender.wait(id, 30)
        assert receipt.failed and receipt.outcome, receipt
        assert receipt.reason == f"the turn failed: {receipt.outcome['turn']['error']}"
        return receipt.reason

    def steps(self, id: str, what: str) -> list[dict[str, Any]]:
        """Return the steps of this kind that message `id` has taken."""
        found = next(m for m in self.sender.trace(id) if m["id"] == id)
        return [step for step in found["steps"] if step["what"] == what]

    def answers(self, id: str) -> list[str]:
        """Return the types of the messages that this gateway sent because of `id`."""
        return [m["type"] for m in self.sender.trace(id) if m.get("cause") == id]
