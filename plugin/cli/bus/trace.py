"""`wakebus trace ID`: what became of a message and of all that hangs together with it."""

import argparse
import json
from typing import Any, Final

from wakebus.plugin.cli import notify
from wakebus.plugin.cli.bus.trace_text import trace_lines
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import Parser, colored, echo, one_line, safe


def _options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a message id, as a receipt prints it")
    parser.add_argument("--text", action="store_true", help="print the message's own text instead")


def run(args: argparse.Namespace) -> int:
    """Print the trace."""
    if args.text:
        return _text(args.id, args.json)
    with notify.connect(None) as client:
        found: list[dict[str, Any]] = list(client.trace(args.id))
    if args.json:
        echo(json.dumps({"id": args.id, "messages": found}, indent=2))
        return 0
    lines = map(one_line, trace_lines(found, args.id))
    bold = (_bold(line) if colored() and "→" in line else line for line in lines)
    echo("\n".join(bold), styled=True)
    return 0


def _text(id: str, as_json: bool) -> int:
    with notify.connect(None) as client:
        message = client.read(id)
    echo(json.dumps(message.to_wire()) if as_json else safe(message.text))
    return 0


def _bold(line: str) -> str:
    return f"\033[1m{line}\033[0m"


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show each step of a message with its time and process, and of what it led "
    "to: accepted, queued, held, started, rule, actions, turn, answer, channel result.",
    json="for scripts, errors too",
)
