"""A listening endpoint in this process, and deliveries without a broker."""

import io
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakes.broker import until
from wakebus.adapters.courier.preflight import Preflight
from wakebus.broker import Client, Delivery
from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.pending_context import Context, context_file
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.receive.dispatch import Dispatch
from wakebus.plugin.receive.listen_host import Listener
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.rules.load import RulesFile

Outcome = dict[str, Any]
Words = list[tuple[str, dict[str, Any]]]


def deliver(message: Message, words: Words | None = None, **flags: Any) -> Delivery:
    """Return a delivery of `message`; what is said of it goes to `words`."""

    def say(delivery: Delivery, verb: str, fields: dict[str, Any], wait: bool) -> None:
        if words is not None:
            words.append((verb, fields))

    payload = {"message": message.to_wire(), "epoch": 1, **flags}
    return Delivery(payload, message.to, say)


def write_rules(folder: Path, *callbacks: Mapping[str, Any]) -> Path:
    """Write a rules file (JSON is YAML) and return its path."""
    path = folder / "bus-rules.yaml"
    path.write_text(json.dumps({"callbacks": callbacks}))
    path.chmod(0o600)
    return path


class Host:
    """`wakebus listen NAME --agent COMMAND`, without its command line."""

    def __init__(
        self,
        address: str,
        folder: Path,
        name: str,
        *callbacks: Mapping[str, Any],
        command: str | None = None,
        takeover: bool = False,
        bus: Path | None = None,
    ) -> None:
        self.name, self.folder = name, folder
        self.stop, self.printed = threading.Event(), io.StringIO()
        self.client = Client(address)
        self.context = Context(context_file(bus or folder, name))
        self.rules = RulesFile(write_rules(folder, *callbacks), required=True)
        environ = {**os.environ, "FOLDER": str(folder)}
        answers = Answers(self.client, name, self.stop, Preflight(bus or folder))
        self.dispatch = Dispatch(
            name,
            self.rules,
            Listener(name, answers, command, environ),
            answers,
            self.context,
            terminal=TerminalOutput(self.printed),
            environ=environ,
        )
        self.client.register(name, self.dispatch.handle, takeover=takeover)
        self.sender = Client(address)

    def close(self) -> None:
        """End as `wakebus listen` does at Ctrl-C."""
        self.stop.set()
        self.dispatch.stop()
        self.client.close()
        self.sender.close()

    def send(self, text: str, **fields: Any) -> str:
        """Send it a message; return the id."""
        fields = {"sender": "tester", **fields}
        return self.sender.send(self.name, text, **fields).id

    def outcome(self, id: str, *, failed: bool = False) -> Outcome:
        """Return the outcome of message `id`, once it is handled, or has `failed`."""
        receipt = self.sender.wait(id, 30)
        assert receipt.state == ("dead" if failed else "handled"), receipt
        assert receipt.failed is failed
        return dict(receipt.outcome or {})

    def do(self, text: str, *, failed: bool = False, **fields: Any) -> Outcome:
        """Send and return the outcome."""
        return self.outcome(self.send(text, **fields), failed=failed)

    def steps(self, id: str, what: str) -> list[dict[str, Any]]:
        """Return the steps of this kind that message `id` has taken."""
        found = next(m for m in self.sender.trace(id) if m["id"] == id)
        return [step for step in found["steps"] if step["what"] == what]

    def until_started(self, id: str) -> None:
        """Wait until work on message `id` has begun."""
        until(lambda: self.steps(id, "started"))

    def sent(self, id: str) -> list[dict[str, Any]]:
        """Return the messages that this host sent because of `id`."""
        return [m for m in self.sender.trace(id) if m.get("cause") == id]
