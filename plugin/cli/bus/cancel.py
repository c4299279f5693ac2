"""`wakebus cancel ID`: take back a message that nobody has in hand yet."""

import argparse
import os
from typing import Final

from wakebus.broker.errors import Refused, UnknownId
from wakebus.plugin import sender_identity
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, echo, echo_json


def _options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="a message id, as a receipt prints it")
    parser.add_argument("--from", dest="sender", metavar="N", help="who cancels (default: found)")


def run(args: argparse.Namespace) -> int:
    """Take it back, or say why not."""
    by = sender_identity.find_sender(args.sender, os.environ).name
    with notify.connect(None) as client:
        try:
            receipt = client.cancel(args.id, by=by)
        except UnknownId:
            raise
        except Refused as exc:
            step = f"What became of it: wakebus trace {args.id}"
            raise Refused(exc.text, step=step) from exc
    if args.json:
        echo_json({"id": receipt.id, "state": receipt.state, "reason": receipt.reason})
    else:
        echo(
            f"{receipt.id} is {receipt.reason}; to send it all the same: "
            f"wakebus dead retry {receipt.id}"
        )
    return OK


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Take back a message that is still queued; it becomes a dead letter. What is "
    "in its receiver's hands, or has ended, stays as it is: exit 1 and where it is.",
    json="for scripts, errors too",
)
