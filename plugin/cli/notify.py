"""
`notify-hermes`: send one message and print the honest receipt (seed 004, section 2).

Rule 1: it imports zmq, json, argparse and nothing else of weight; people call it in every hook
and prompt (hermes-notify takes over a second). Rule 2: it never starts a broker. Rule 3: it says
"queued", "handled" or why not; never a bare "OK".
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from wakebus.broker import __version__
from wakebus.broker.client import Answer, Client, Receipt
from wakebus.broker.errors import (
    BadFrame,
    BadMessage,
    BadName,
    BadToken,
    NotRunning,
    TimedOut,
    TooBig,
    Undecided,
    UnknownTarget,
    WakebusError,
)
from wakebus.plugin.cli import who

CONNECT_S: Final = 2.0  # a broker that is being restarted is back by then
OK, FAILED, USAGE, UNKNOWN_TARGET, LATE, UNDECIDED = range(6)


class Usage(WakebusError):
    """The command line or the body cannot be sent as it is."""

    code = "usage"


def main(argv: list[str] | None = None) -> int:
    """Entry point of `notify-hermes`."""
    return guarded("notify-hermes", run, parser().parse_args(argv))


def guarded(name: str, run: Any, args: argparse.Namespace) -> int:
    """Run a sending command; turn errors into one line on stderr and the exit status."""
    try:
        return int(run(args))
    except WakebusError as exc:
        as_json = getattr(args, "json", False)
        if as_json:
            print(json.dumps({"error": exc.to_wire()}))
        print(f"{name}: {hint(exc)}", file=sys.stderr)
        return status_of(exc)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter complains at exit
        return FAILED


def status_of(error: WakebusError) -> int:
    """Return the exit status that tells a script what to do."""
    if isinstance(error, Usage | BadMessage | BadName | TooBig | BadFrame):
        return USAGE
    kinds = ((UnknownTarget, UNKNOWN_TARGET), (TimedOut, LATE), (Undecided, UNDECIDED))
    return next((status for kind, status in kinds if isinstance(error, kind)), FAILED)


def hint(error: WakebusError) -> str:
    """Return the error with the next step."""
    if isinstance(error, NotRunning):
        return f"{error.text}\nStart the bus: hermes-busd start"
    if isinstance(error, UnknownTarget):
        return f"{error.text}\nKnown names: wakebus endpoints. To keep it for later: --queue"
    if isinstance(error, Undecided):
        return f"{error.text}\nSend it again to settle it, it is not doubled: --id {error.id}"
    if isinstance(error, TimedOut):
        return (
            f"{error.text}\nIt is not lost; follow it: wakebus trace {error.data.get('id', 'ID')}"
        )
    return error.text


def parser() -> argparse.ArgumentParser:
    """Return the parser of `notify-hermes`."""
    found = argparse.ArgumentParser(
        prog="notify-hermes",
        description="Send a message to an endpoint of the bus; prints what became of it.",
        epilog="exit status: 0 accepted (or handled, whatever the outcome); 1 bus not running, "
        "refused or dead; 2 usage; 3 unknown target; 4 not handled or answered in time; "
        "5 unknown (resend with --id)",
    )
    found.add_argument("--to", required=True, metavar="E", help="target endpoint")
    add_message(found)
    found.add_argument("--body", metavar="JSON", help="body as a JSON object; - reads stdin")
    found.add_argument("--version", action="version", version=f"wakebus {__version__}")
    waits = found.add_mutually_exclusive_group()
    waits.add_argument("--wait", type=seconds, metavar="S", help="wait until it is handled")
    waits.add_argument("--wait-reply", type=seconds, metavar="S", help="wait for the answer")
    return found


def add_message(to: argparse.ArgumentParser) -> None:
    """Add what every sending command takes."""
    to.add_argument("text", nargs="?", metavar="TEXT", help="the text; - reads stdin")
    to.add_argument("--type", metavar="T", help="directive, ack, progress, task_done, …")
    to.add_argument("--channel", metavar="C", help="where the answer goes: platform:chat_id")
    to.add_argument("--from", dest="sender", metavar="N", help="sender (default: found)")
    to.add_argument("--session", metavar="K", help="session at the receiver")
    to.add_argument("--queue", action="store_true", help="keep it even if nobody knows the target")
    to.add_argument("--id", metavar="I", help="message id: resend what was undecided")
    to.add_argument("--key", metavar="K", help="send once per key in 24 h")
    to.add_argument("--socket", metavar="P", help="the broker's socket")
    to.add_argument("--config", metavar="F", help="another bus-rules.yaml")
    to.add_argument("--json", action="store_true", help="print the receipt as JSON")


def seconds(text: str) -> float:
    """Return a number of seconds from 0 to 86400, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to 86400")
    return value


def run(args: argparse.Namespace) -> int:
    """Send as `args` say, print, return the exit status."""
    body = body_of(args)
    if args.wait_reply is not None:
        return show_answer(ask(args, body, args.wait_reply), args.json)
    with connect(args.socket) as client:
        receipt = send(client, args, body)
        if args.wait is not None and receipt.state not in ("handled", "dead"):
            receipt = client.wait(receipt.id, args.wait)._replace(to=args.to)
    return show(receipt, args.json)


def ask(args: argparse.Namespace, body: Mapping[str, Any], wait: float) -> Answer:
    """Send and wait for the answer."""
    with connect(args.socket) as client:
        receipt = send(client, args, body, asks=True)
        if receipt.state == "dead":
            return Answer(receipt, None)
        return client.wait_answer(receipt.id, wait)


def connect(socket: str | None) -> Client:
    """Return a client that is connected, or raise NotRunning."""
    client = Client(socket)
    if not client.connected(CONNECT_S):
        where = client.address
        client.close()
        raise NotRunning(f"no broker answers at {where}; nothing was sent")
    return client


def send(
    client: Client, args: argparse.Namespace, body: Mapping[str, Any], *, asks: bool = False
) -> Receipt:
    """Send `body` under the name that `args` and the environment give."""
    name, token = who.sender(args.sender, os.environ, args.config)
    fields = {"session": args.session, "key": args.key, "id": args.id}
    fields |= {"queue": args.queue, "asks": asks}
    if token is not None:
        try:
            return client.send(args.to, body, sender=name, token=token, **fields)
        except BadToken:
            # A job that outlives its turn still has something to say, only unproven.
            print("note: this turn is over; sent without its proof", file=sys.stderr)
    return client.send(args.to, body, sender=name, **fields)


def body_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the body: `--body` or the text, with flags over fields. Raises Usage."""
    raw = getattr(args, "body", None)
    if (raw is None) == (args.text is None):
        raise Usage("give either a text or --body JSON" + (", not both" if raw else ""))
    fields: dict[str, Any] = {}
    if raw is not None:
        fields = _json_object(_stdin() if raw == "-" else raw)
    else:
        fields["text"] = _stdin() if args.text == "-" else args.text
        if not fields["text"]:
            raise Usage("the text is empty")
    flags = {"type": args.type, "channel": args.channel}
    return fields | {name: value for name, value in flags.items() if value is not None}


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Usage(f"--body is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise Usage(f"--body is a JSON {type(value).__name__}, not an object {{…}}")
    return value


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as exc:
        raise Usage(f"standard input is not UTF-8 (byte {exc.start})") from exc


def show(receipt: Receipt, as_json: bool) -> int:
    """Print the receipt; return the exit status."""
    if as_json:
        print(json.dumps({k: v for k, v in receipt._asdict().items() if v not in (None, "")}))
    elif receipt.state == "dead":
        print(safe(f"dead {receipt.id}: {receipt.reason}"), file=sys.stderr)
    else:
        print(safe(sentence(receipt)))
    return FAILED if receipt.state == "dead" else OK


def sentence(receipt: Receipt) -> str:
    """Return the receipt in words."""
    again = " (again: this id or key was sent before)" if receipt.duplicate else ""
    if receipt.state == "handled":
        outcome = f": {json.dumps(receipt.outcome, ensure_ascii=False)}" if receipt.outcome else ""
        return f"handled {receipt.id}{again}{outcome}"
    if receipt.state == "delivered":
        return f"delivered {receipt.id} to {receipt.to}{again}"
    ahead = f", {receipt.ahead} ahead of it" if receipt.ahead else ""
    where = "" if receipt.live else " is away; it is kept until it comes"
    return f"queued {receipt.id} for {receipt.to}{where}{ahead}{again}"


def show_answer(answer: Answer, as_json: bool) -> int:
    """Print the answer; return the exit status."""
    receipt, message = answer
    if message is None:
        if receipt.state == "dead":
            return show(receipt, as_json)
        if as_json:
            print(json.dumps({"id": receipt.id, "state": receipt.state, "answer": None}))
        why = json.dumps(receipt.outcome, ensure_ascii=False)
        print(safe(f"handled {receipt.id}, but there is no answer: {why}"), file=sys.stderr)
        return LATE
    print(json.dumps(message.to_wire()) if as_json else safe(message.text))
    return OK


def safe(text: str) -> str:
    """Return a peer's text without what could steer this terminal."""
    from wakebus.plugin.rules.clean import clean

    return clean(text)
