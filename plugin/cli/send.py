"""
`wakebus send CHANNEL "text"`: through the courier to a chat, and what became of it.

`--dry-run` shows the requests instead, masked: no network, no bus. Exit status: 0 sent (or shown),
1 rejected or not sent, 2 usage, 5 uncertain.
"""

import argparse
import time
from collections.abc import Mapping
from typing import Any, Final

from wakebus.adapters.base import explain
from wakebus.adapters.send import address
from wakebus.adapters.settings import Environment
from wakebus.broker.client import Client, Receipt
from wakebus.broker.errors import TimedOut
from wakebus.broker.message import from_wire, new_id
from wakebus.broker.paths import bus_dir
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
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the requests that would be sent, secrets masked; send nothing",
    )
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
    env = Environment()()
    adapter, target = address(args.channel, env)  # a wrong one is told before anything is queued
    if args.dry_run:
        from wakebus.adapters.preview import preview

        now = time.time()
        key = checked_id(args, body, now)
        return show_requests(
            preview(adapter, target, body["text"], key, now, env), as_json=args.json
        )
    with notify.connect(None) as client:
        receipt = notify.send(client, args, body)
        try:
            receipt = client.wait(receipt.id, args.wait)
        except TimedOut as exc:
            raise _late(client, receipt, exc) from exc
    return show(receipt, as_json=args.json)


def checked_id(args: argparse.Namespace, body: Mapping[str, Any], now: float) -> str:
    """Return the id the message would have; raises what `send` would say of it."""
    id_ = new_id(now) if args.id is None else args.id
    sender = COURIER if args.sender is None else args.sender  # any good name: none is looked up
    message = {"id": id_, "ts": now, "from": sender, "to": COURIER, "body": body}
    return from_wire(message | ({} if args.key is None else {"key": args.key})).id


class NotSentYet(TimedOut):
    """The courier has not come to it; it goes on trying."""


def _late(client: Client, receipt: Receipt, error: TimedOut) -> NotSentYet:
    """Return what to tell of a text that is still waiting. Without an id: exit status 1."""
    live = {one["name"] for one in client.list() if one["state"] == "live"}
    why = "the courier goes on trying" if COURIER in live else "no courier is running"
    step = f"Follow it: wakebus trace {receipt.id}"
    if COURIER not in live:
        step += f"\nWhy: {bus_dir() / 'courier.log'}"
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


def show_requests(shown: Mapping[str, Any], *, as_json: bool) -> int:
    """Print what a dry run found; return the exit status."""
    if as_json:
        tell_json({"dry_run": True, **shown})
        return 0
    total = len(shown["parts"])
    tell(f"dry run: nothing is sent. {shown['chat']}, {total} part{'s' * (total > 1)}")
    for number, request in enumerate(shown["tokens"]):
        tell(_block("access token, fetched once and kept" if not number else "", request))
    for part in shown["parts"]:
        size = f"{part['size']} of {shown['limit']} {shown['unit']}"
        for number, request in enumerate(part["requests"]):
            first = f"part {part['part']} of {total} ({size})"
            tell(_block(first if not number else "if that way is closed or fails", request))
    return 0


def _block(title: str, request: Mapping[str, Any]) -> str:
    way = f"way {request['way']}" if request["way"] else ""
    head = f"\n# {', '.join(filter(None, (title, way)))}"
    if "error" in request:
        return f"{head}\nnot this way: {request['error']}"
    headers = "".join(f"\n{name}: {value}" for name, value in request["headers"].items())
    return f"{head}\n{request['method']} {request['url']}{headers}\n\n{request['body']}"
