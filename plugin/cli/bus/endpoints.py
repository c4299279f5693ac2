"""`wakebus endpoints [add NAME | remove NAME]`: the names that the bus knows."""

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from wakebus.broker.system.text_table import Column
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import Parser, echo, echo_json, echo_table

COLUMNS: Final = (
    Column("ENDPOINT", whole=True),
    Column("STATE", colors={"live": "32", "silent": "33"}),
    Column("PID", right=True),
    Column("QUEUED", right=True),
    Column("NOTE"),
)


def _options(parser: Parser) -> None:
    # Two optional words would not do: argparse takes no word for them behind an option.
    actions = parser.add_subparsers(dest="action", metavar="add|remove", title="instead of listing")
    for action, text in (("add", "make a name known"), ("remove", "make it unknown again")):
        part = actions.add_parser(action, help=text, description=text)
        part.add_argument("name", metavar="NAME", help="1 to 64 of A-Z a-z 0-9 _ -")
        part.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """List, add or remove."""
    with notify.connect(None) as client:
        if args.action == "add":
            client.declare(args.name)
            return _done(args, f"added {args.name}: messages for it are kept")
        if args.action == "remove":
            client.forget(args.name)
            return _done(args, f"removed {args.name}")
        found = client.list()
    if args.json:
        echo(json.dumps(list(found), indent=2))
    elif found:
        echo_table(COLUMNS, map(_row, found))
    else:
        echo("no endpoint yet; `wakebus listen NAME` registers one")
    return 0


def _done(args: argparse.Namespace, text: str) -> int:
    if args.json:
        echo_json({"name": args.name, "done": args.action})
    else:
        echo(text)
    return 0


def _row(one: Mapping[str, Any]) -> list[str]:
    note = "ephemeral" if one.get("ephemeral") else ""
    return [one["name"], one["state"], str(one.get("pid", "")), str(one["queued"]), note]


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="List the endpoints; add one, so that messages for it are kept before anybody "
    "listens; remove one that nobody holds and nothing waits for. An ephemeral one got its "
    "suffix from the bus, and ends soon after its session.",
    json="for scripts, errors too",
)
