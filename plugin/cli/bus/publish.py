"""
`wakebus publish TOPIC [JSON|-]`: one event, confirmed by the broker, so that it is not lost on the
way there. Who subscribes and keeps up gets it; nobody else, and not later.
"""

import argparse
from typing import Final

from wakebus.plugin.cli import message_body, notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, echo, echo_json

EXAMPLES: Final = """\
examples:
  wakebus publish ci.build.done '{"branch": "main", "ok": true}'
  make report.json && wakebus publish ci.report - < report.json

An event is for whoever listens now (wakebus tail, rules with match_topic). What must not be lost
is a message: notify-hermes.

exit status: 0 published; 1 bus not running, refused or not now; 2 usage; 5 unknown"""


def _options(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="dotted name, e.g. ci.build.done")
    parser.add_argument(
        "fields", nargs="?", metavar="JSON", help="the event's fields, an object; - reads stdin"
    )


def run(args: argparse.Namespace) -> int:
    """Publish and print."""
    fields = {} if args.fields is None else message_body.json_object(args.fields, "the event")
    with notify.connect(None) as client:
        client.publish(args.topic, fields, confirm=True, token=notify.turn_token())
    if args.json:
        echo_json({"topic": args.topic})
    else:
        echo(f"published {args.topic}")
    return OK


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Publish an event; return once the broker has handed it on.",
    epilog=EXAMPLES,
    json="print one JSON object, errors too",
)
