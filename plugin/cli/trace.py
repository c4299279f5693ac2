"""`wakebus trace ID`: what became of a message and of all that hangs together with it."""

import argparse
import json
import sys
from typing import Any

from wakebus.plugin.cli import notify
from wakebus.plugin.receive.story import tell


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus trace`."""
    parser = commands.add_parser(
        "trace",
        help="show what became of a message, step by step",
        description="Show each step of a message with its time and process, and of what it led "
        "to: accepted, queued, held, started, rule, actions, turn, answer, channel result.",
    )
    parser.add_argument("id", metavar="ID", help="a message id, as a receipt prints it")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the trace."""
    with notify.connect(None) as client:
        found: list[dict[str, Any]] = list(client.trace(args.id))
    if args.json:
        print(json.dumps({"id": args.id, "messages": found}, indent=2))
        return 0
    color = sys.stdout.isatty()
    print(notify.safe("\n".join(tell(found, args.id))) if not color else _colored(found, args.id))
    return 0


def _colored(found: list[dict[str, Any]], id: str) -> str:
    lines = notify.safe("\n".join(tell(found, id))).splitlines()
    return "\n".join(f"\033[1m{line}\033[0m" if "→" in line else line for line in lines)
