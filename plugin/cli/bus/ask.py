"""`wakebus ask E "text"`: a directive, and its answer on standard output."""

import argparse
from typing import Final

from wakebus.plugin.cli import message_body, notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import Parser
from wakebus.plugin.cli.targets import EachTarget, targets_of

# Longer than most turns of an agent; a turn may take 30 minutes (`--wait 1800`).
WAIT_S: Final = 300.0


def _options(parser: Parser) -> None:
    parser.add_argument("to", metavar="ENDPOINT", help="who is asked; several: a1,a2")
    parser.add_argument("text", metavar="TEXT", help="the text; - reads stdin")
    notify.add_message(parser)
    parser.add_argument(
        "--wait",
        type=notify.seconds,
        default=WAIT_S,
        metavar="S",
        help=f"seconds to wait for the answer (default {WAIT_S:g})",
    )


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    body = {"type": "directive", **message_body.body_of(args)}
    notify.check_reply_channel(args, body)
    each = EachTarget("wakebus", targets_of([args.to]), as_json=args.json)
    return notify.ask(args, body, each, args.wait)


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Send a directive to an endpoint and print its answer on standard output.",
    epilog="exit status: 0 answered; 1 bus not running, refused or dead; 2 usage; 3 unknown "
    "target; 4 no answer (in time); 5 unknown (resend with --id); 6 worked on, but failed",
)
