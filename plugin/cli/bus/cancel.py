"""`wakebus cancel ID`: take back a message that has not ended, also out of its receiver's hands."""

import argparse
import os
from typing import Final

from wakebus.broker.client.client import Client
from wakebus.broker.errors import Refused, TimedOut, UnknownId
from wakebus.broker.protocol.dead_letter import MAY_BE_DONE, next_steps
from wakebus.broker.protocol.receipt import Receipt
from wakebus.plugin import sender_identity
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import LATE, OK, Parser, echo, echo_json, one_line

END_S: Final = 10.0  # an agent has 2 s after SIGTERM (processes/run.py), Hermes 10 (cli.py:12201)


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
        ended = _until_ended(client, receipt)
    if args.json:
        echo_json({"id": ended.id, "state": ended.state, "reason": ended.reason})
    else:
        echo(one_line(_sentence(receipt, ended)))
    return LATE if ended.state == "delivered" else OK


def _until_ended(client: Client, receipt: Receipt) -> Receipt:
    """Return the receipt once its holder, which was told, has ended it; at most after END_S."""
    if not receipt.told:
        return receipt
    try:
        return client.wait(receipt.id, END_S)
    except TimedOut:
        return receipt


def _sentence(receipt: Receipt, ended: Receipt) -> str:
    if ended.state == "dead":
        steps = next_steps(ended.id, ended.reason, in_doubt=ended.in_doubt)
        return f"{ended.id} is {ended.reason}{_how_far(receipt, ended)}. {steps}"
    if ended.state == "handled":
        return f"{ended.id} was shown to a person, who need not answer it any more: {ended.reason}"
    why = "was told and has not ended it yet" if receipt.told else "cannot be told, and goes on"
    hands = f"{ended.id} is in the hands of {receipt.to}, which {why}"
    return f"{hands}; once it has, it is dead: {receipt.reason}"


def _how_far(receipt: Receipt, ended: Receipt) -> str:
    """Return what is known of the work on a message that is dead by now, "" for nothing."""
    who = "" if receipt.state == "dead" else f"; {receipt.to}, which had it, has ended its work"
    return who + (f"; {MAY_BE_DONE}" if ended.in_doubt else "")


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Take back a message that has not ended; it becomes a dead letter. What is in its "
    "receiver's hands is ended there: an agent's or a command's process, the bus's own turn in "
    "Hermes, never a person's. A question that was shown to a person waits for no answer any more.",
    epilog="exit status: 0 it is dead, or no person need answer it; 1 it had ended, or the bus is "
    "not running; 2 usage; 4 its receiver has not ended it yet, and it is dead when that has",
    json="for scripts, errors too",
)
