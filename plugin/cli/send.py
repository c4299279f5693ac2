"""
`wakebus send CHANNEL "text"`: through the courier to a chat, and what became of it.

Exit status: 0 sent, 1 rejected or not sent, 2 usage, 5 uncertain.
"""

import argparse
import json
import sys
from typing import Final

from wakebus.adapters.base import explain
from wakebus.adapters.send import address
from wakebus.adapters.settings import Environment
from wakebus.broker.errors import TimedOut
from wakebus.plugin.cli import notify

COURIER: Final = "courier"
WAIT_S: Final = 30.0


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `wakebus send`."""
    parser = commands.add_parser(
        "send",
        help="send a text to a chat and print the result",
        description="Send a text to a chat through the courier.",
        epilog="exit status: 0 sent, 1 rejected or not sent, 2 usage, 5 uncertain",
    )
    parser.add_argument("channel", metavar="CHANNEL", help="platform:chat_id, e.g. console:demo")
    parser.add_argument("text", metavar="TEXT", help="the text; - reads stdin")
    parser.add_argument(
        "--wait", type=notify.seconds, default=WAIT_S, metavar="S", help="default 30"
    )
    parser.add_argument("--from", dest="sender", metavar="N", help="sender (default: found)")
    parser.add_argument("--id", metavar="I", help="message id: resend what was undecided")
    parser.add_argument("--key", metavar="K", help="send once per key in 24 h")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(
        **dict.fromkeys(("body", "type", "session", "socket", "config")), to=COURIER, queue=True
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check the channel, hand the text to the courier, wait, print."""
    body = {**notify.body_of(args), "type": "say"}
    address(args.channel, Environment()())  # a wrong channel is told before anything is queued
    with notify.connect(None) as client:
        receipt = notify.send(client, args, body)
        try:
            receipt = client.wait(receipt.id, args.wait)
        except TimedOut as exc:
            print(f"not sent yet: {exc.text}; the courier goes on trying", file=sys.stderr)
            print(f"Follow it: wakebus trace {receipt.id}", file=sys.stderr)
            return notify.FAILED
    outcome = dict(receipt.outcome or {})
    if receipt.state == "dead" and "channel" not in outcome:
        outcome["channel"] = {"result": "rejected", "reason": receipt.reason}
    status, line = explain(outcome)
    if args.json:
        print(json.dumps({"id": receipt.id, "state": receipt.state, **outcome}))
    else:
        print(notify.safe(line), file=sys.stderr if status else sys.stdout)
    return status
