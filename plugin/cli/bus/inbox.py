"""`wakebus inbox E`: what waits for an endpoint and what it has in its hands; takes nothing."""

import argparse
from typing import Any, Final

from wakebus.plugin.cli import notify
from wakebus.plugin.cli.bus.dead import ago
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, echo, echo_json


def _options(parser: Parser) -> None:
    parser.add_argument("endpoint", metavar="E", help="an endpoint's name")
    parser.add_argument("--all", action="store_true", help="also all that has ended and is kept")
    parser.add_argument(
        "--uncertain",
        action="store_true",
        help="only what a chat may have or not (for `courier`): look there, then send it again",
    )


def run(args: argparse.Namespace) -> int:
    """Print the box."""
    with notify.connect(None) as client:
        rows = client.inbox(args.endpoint, all=args.all or args.uncertain)
        found = (one for one in rows if not args.uncertain or one.get("result") == "uncertain")
        if args.json:
            echo_json({"endpoint": args.endpoint, "messages": [*found]})
            return OK
        empty = True
        for one in found:
            empty = False
            echo(_line(one))
    if empty:
        echo(f"nothing is {'uncertain' if args.uncertain else 'there'} for {args.endpoint}")
    return OK


def _line(one: dict[str, Any]) -> str:
    state = "silent" if one.get("silent") else one["state"]
    state = "uncertain" if one.get("result") == "uncertain" else state
    sender = f"{one['from']} (claimed)" if one["claimed"] else one["from"]
    what = "  ".join(filter(None, (one["type"] or "untyped", one.get("channel"))))
    return f"{one['id']:22} {ago(one['age_s']):>4}  {state:8} {sender}  {what}  {one['text']}"


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show what waits for endpoint E and what is in its hands, oldest first, then "
    "what it took silently (wake: silent) and is still kept. Nothing is taken. "
    "A whole text: wakebus trace ID --text",
    json="for scripts, errors too",
)
