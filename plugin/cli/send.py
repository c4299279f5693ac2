"""
`wakebus send CHANNEL "text"`: through the courier to a chat, and what became of it.

Exit status: 0 sent, 1 rejected or not sent, 2 usage, 5 uncertain.
"""

import argparse
from typing import Final

from wakebus.adapters.base import explain
from wakebus.adapters.send import address
from wakebus.adapters.settings import Environment
from wakebus.broker.client import Client, Receipt
from wakebus.broker.errors import TimedOut
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.output import Usage, tell, tell_json

COURIER: Final = "courier"
WAIT_S: Final = 30.0


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus send`."""
    parser = commands.add_parser(
        "send",
        help="send a text to a chat and print the result",
        description="Send a text to a chat through the courier; print what the chat's platform "
        "said. To send to an agent instead: notify-hermes, or wakebus ask.",
        epilog="exit status: 0 sent; 1 rejected or not sent, or the bus is not running; 2 usage; "
        "5 uncertain: it may have been accepted",
    )
    parser.add_argument("channel", metavar="CHANNEL", help="platform:chat_id, e.g. console:demo")
    parser.add_argument("text", metavar="TEXT", help="the text; - reads stdin")
    parser.add_argument(
        "--wait",
        type=notify.seconds,
        default=WAIT_S,
        metavar="S",
        help=f"seconds to wait for the result (default {WAIT_S:g})",
    )
    parser.add_argument("--from", dest="sender", metavar="N", help="sender (default: found)")
    parser.add_argument("--id", metavar="I", help="message id: resend what was undecided")
    parser.add_argument("--key", metavar="K", help="send once per key in 24 h")
    parser.add_argument("--json", action="store_true", help="print one JSON object, errors too")
    parser.set_defaults(
        **dict.fromkeys(("body", "type", "session", "socket", "config")), to=COURIER, queue=True
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check the channel, hand the text to the courier, wait, print."""
    if not args.channel.strip():
        raise Usage("the channel is empty; write platform:chat_id, as console:demo")
    body = {**notify.body_of(args), "type": "say", "channel": args.channel}
    address(args.channel, Environment()())  # a wrong channel is told before anything is queued
    with notify.connect(None) as client:
        receipt = notify.send(client, args, body)
        try:
            receipt = client.wait(receipt.id, args.wait)
        except TimedOut as exc:
            raise _late(client, receipt, exc) from exc
    return show(receipt, as_json=args.json)


class NotSentYet(TimedOut):
    """The courier has not come to it; it goes on trying."""


def _late(client: Client, receipt: Receipt, error: TimedOut) -> NotSentYet:
    """Return what to tell of a text that is still waiting. Without an id: exit status 1."""
    live = {one["name"] for one in client.list() if one["state"] == "live"}
    why = "the courier goes on trying" if COURIER in live else "no courier is running"
    step = f"Follow it: wakebus trace {receipt.id}"
    if COURIER not in live:
        step += "\nStart one: hermes-busd restart, or here: wakebus courier"
    return NotSentYet(f"not sent yet, {why}: {error.text}\n{step}", message=receipt.id)


def show(receipt: Receipt, *, as_json: bool) -> int:
    """Print the channel result; return the exit status."""
    outcome = dict(receipt.outcome or {})
    if receipt.state == "dead" and "channel" not in outcome:
        outcome["channel"] = {"result": "rejected", "reason": receipt.reason}
    status, line = explain(outcome)
    if as_json:
        tell_json({"id": receipt.id, "state": receipt.state, **outcome})
    else:
        tell(line, error=status != 0)
    return status
