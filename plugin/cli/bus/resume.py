"""
`wakebus resume [FROM TO | NAME | --all]`: which loops are paused, and a person's way to go on.

Rule: a turn lifts no pause: it would be its own.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wakebus.broker.errors import Refused
from wakebus.broker.protocol.message import check_name
from wakebus.broker.system.text_table import Column
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, Usage, echo, echo_json, echo_table

COLUMNS: Final = (Column("FROM"), Column("TO"), Column("UNTIL"), Column("WHY"))


def _options(parser: Parser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="an endpoint, or sender and target"
    )
    parser.add_argument("--all", action="store_true", help="lift every pause")


def run(args: argparse.Namespace) -> int:
    """List what is paused, or lift it."""
    names = [check_name(name, "endpoint") for name in args.names]
    if len(names) > 2 or (names and args.all):
        raise Usage("resume takes FROM TO, or one NAME, or --all; nothing: what is paused")
    if not names and not args.all:
        with notify.connect(None) as client:
            return _list(client.status().get("paused", []), as_json=args.json)
    if notify.turn_token():
        raise Refused("this is a turn, which lifts no pause; only a person does, outside of it")
    asked = {"sender": names[0], "to": names[1]} if len(names) == 2 else {"name": [*names, None][0]}
    with notify.connect(None) as client:
        found = client.resume(**asked)
    if not found and not args.all:
        raise Refused(f"{' → '.join(names)} is not paused", step="What is: wakebus resume")
    if args.json:
        echo_json({"resumed": [*found]})
    else:
        lines = [f"resumed {one['from']} → {one['to']}" for one in found]
        echo("\n".join(lines or ["nothing is paused"]))
    return OK


def _list(paused: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    if as_json:
        echo_json({"paused": [*paused]})
    elif paused:
        echo_table(COLUMNS, map(_row, paused))
        limits = "the limits are settings: loop_* of wakebus settings list"
        echo(f"To go on: wakebus resume FROM TO; {limits}", error=True)
    else:
        echo("nothing is paused")
    return OK


def _row(one: Mapping[str, Any]) -> list[str]:
    until = time.strftime("%H:%M:%S", time.localtime(float(one["until"])))
    return [str(one["from"]), str(one["to"]), until, str(one["reason"])]


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show which messages are paused because turns went round in a loop; with FROM TO, "
    "or a NAME for all that it is in, let them go on.",
    json="for scripts, errors too",
)
