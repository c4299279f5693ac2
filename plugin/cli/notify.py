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
from wakebus.broker.client.client import Client
from wakebus.broker.errors import BadToken, NotRunning, TimedOut, WakebusError
from wakebus.broker.paths import root_of
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.dead_letter import MAY_BE_DONE, next_steps
from wakebus.broker.protocol.outcome import left_open
from wakebus.broker.protocol.receipt import Answer, Receipt
from wakebus.broker.protocol.wire import MAX_BODY
from wakebus.plugin import sender_identity
from wakebus.plugin.cli.output import (
    FAILED,
    LATE,
    OK,
    WORK_FAILED,
    Parser,
    Usage,
    echo,
    echo_json,
    guarded,
    one_line,
)

CONNECT_S: Final = 2.0  # a broker that is being restarted is back by then
MAX_STDIN: Final = 16 * MAX_BODY  # JSON may be written widely; more than that is no message

EXAMPLES: Final = """\
examples:
  notify-hermes --to lead-agent "build is green"
  notify-hermes --to lead-agent --type task_done --channel "$WAKEBUS_CHANNEL" "done"
  notify-hermes --to worker-alpha --type directive --wait-reply 600 "run the tests"
  make 2>&1 | tail -50 | notify-hermes --to lead-agent --type task_error -

A text that begins with "-" goes behind "--".

exit status:
  0  accepted; with --wait: handled, and the outcome is printed (what was done, not how well)
  1  the bus is not running, or the message was refused or is dead
  2  usage: the command line or the body cannot be sent as it is
  3  nobody knows the target
  4  accepted, but not handled or answered in time
  5  unknown: no receipt came; send the same again with --id to settle it
  6  worked on, but failed: it is dead, and the reason is printed"""


def main(argv: list[str] | None = None) -> int:
    """Entry point of `notify-hermes`."""
    return guarded("notify-hermes", run, parser().parse_args(argv))


def parser() -> Parser:
    """Return the parser of `notify-hermes`."""
    found = Parser(
        prog="notify-hermes",
        description="Send a message to an endpoint of the bus; print what became of it.",
        epilog=EXAMPLES,
    )
    found.add_argument("--to", required=True, metavar="ENDPOINT", help="target endpoint")
    found.add_argument("text", nargs="?", metavar="TEXT", help="the text; - reads stdin")
    add_message(found)
    found.add_argument(
        "--body",
        metavar="JSON",
        help="the whole body as a JSON object, instead of TEXT; - reads stdin; "
        "--type and --channel beat its fields",
    )
    found.add_argument("--version", action="version", version=f"wakebus {__version__}")
    waits = found.add_mutually_exclusive_group()
    waits.add_argument("--wait", type=seconds, metavar="S", help="wait until it has ended")
    waits.add_argument(
        "--wait-reply", type=seconds, metavar="S", help="wait for the answer and print it"
    )
    return found


def add_message(to: argparse.ArgumentParser) -> None:
    """Add the options that every sending command takes."""
    to.add_argument("--type", metavar="T", help="directive, ack, progress, task_done, …")
    to.add_argument(
        "--channel", metavar="C", help="where the answer goes: platform:chat_id; empty: nowhere"
    )
    to.add_argument(
        "--from",
        dest="sender",
        metavar="N",
        help="sender; default: the turn's endpoint, HERMES_BUS_ENDPOINT, tmux session, cli",
    )
    to.add_argument("--session", metavar="K", help="session at the receiver; empty: the channel's")
    to.add_argument("--queue", action="store_true", help="keep it even if nobody knows the target")
    to.add_argument("--id", metavar="I", help="message id: resend what was undecided")
    to.add_argument("--key", metavar="K", help="send once per key in 24 h")
    to.add_argument(
        "--socket", metavar="P", help="the broker's socket; default: from $HERMES_BUS_ROOT"
    )
    to.add_argument(
        "--config", metavar="F", help="another bus-rules.yaml (role_map, default_sender)"
    )
    to.add_argument("--json", action="store_true", help="print one JSON object, errors too")


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
    check_reply_channel(args, body)
    if args.wait_reply is not None:
        return show_answer(ask(args, body, args.wait_reply), args.json)
    with connect(args.socket) as client:
        receipt = send(client, args, body)
        if args.wait is not None and receipt.state not in ("handled", "dead"):
            ended = client.wait(receipt.id, args.wait, token=turn_token())
            receipt = ended._replace(to=args.to, duplicate=receipt.duplicate)
    return show(receipt, args.json)


def ask(args: argparse.Namespace, body: Mapping[str, Any], wait: float) -> Answer:
    """Send and wait for the answer."""
    with connect(args.socket) as client:
        receipt = send(client, args, body, asks=True)
        if receipt.state == "dead":
            return Answer(receipt, None)
        again = f"Its answer, now or later: the same command with --id {receipt.id}"
        try:
            return client.wait_answer(receipt.id, wait, token=turn_token())
        except TimedOut as exc:
            step = f"It is not lost; follow it: wakebus trace {receipt.id}\n{again}"
            raise TimedOut(exc.text, **(exc.data | {"step": step})) from exc
        except KeyboardInterrupt:
            echo(f"{receipt.id} goes on without you. {again}", error=True)
            raise


def turn_token() -> str | None:
    """Return what shows the broker that a turn does this, whoever it says to be; None outside."""
    return os.environ.get("WAKEBUS_TOKEN") or None


def connect(socket: str | None) -> Client:
    """Return a client that is connected, or raise NotRunning."""
    if socket is not None and (not socket or not socket.isprintable()):
        raise Usage(f"--socket {socket!r} is no path of a socket; without it the broker is found")
    given = {"step": "Is --socket right? Without it the broker is found by itself."}
    step = given if socket else {}
    try:
        client = Client(socket)
    except NotRunning as exc:
        raise NotRunning(exc.text, **step) from exc
    if not client.connected(CONNECT_S):
        where = client.address
        client.close()
        raise NotRunning(f"no broker answers at {where}; nothing was sent", **step)
    return client


def send(
    client: Client, args: argparse.Namespace, body: Mapping[str, Any], *, asks: bool = False
) -> Receipt:
    """Send `body` under the name that `args` and the environment give."""
    try:
        name, token, note = sender_identity.find_sender(args.sender, os.environ, args.config)
    except WakebusError as exc:
        raise Usage(exc.text) from exc
    if note:
        echo(f"note: sent as {name}; {note}", error=True)
    fields = {"session": args.session or None, "key": args.key, "id": args.id}
    fields |= {"queue": args.queue, "asks": asks}
    if token is not None:
        try:
            return client.send(args.to, body, sender=name, token=token, **fields)
        except BadToken:
            # A job that outlives its turn still has something to say, only unproven.
            echo(f"note: this turn is over; sent as {name}, without its proof", error=True)
            # Still the turn's doing: unproven, but a loop by way of such jobs is seen.
            if messages.NAME.match(cause := os.environ.get("WAKEBUS_ID", "")):
                fields |= {"cause": cause, "hops": 1}
    return client.send(args.to, body, sender=name, **fields)


def body_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the body: `--body` or the text, with flags over fields. Raises Usage."""
    raw, text = getattr(args, "body", None), args.text
    if raw is not None and text is not None:
        raise Usage("give either a text or --body JSON, not both")
    if raw is None and text is None:
        raise Usage("give a text, or - to read it from standard input")
    fields = _body(raw) if raw is not None else {"text": _text(text)}
    # An empty channel is what "$WAKEBUS_CHANNEL" gives in a turn without one.
    flags = {"type": args.type, "channel": args.channel or None}
    return fields | {name: value for name, value in flags.items() if value is not None}


def check_reply_channel(args: argparse.Namespace, body: Mapping[str, Any]) -> None:
    """Say what the sender should know of the body's channel. Raises Usage for one that is none."""
    token = body.get("channel")
    if not token or not isinstance(token, str):  # the message's own check names what is no text
        return
    if token == os.environ.get("WAKEBUS_CHANNEL"):  # an agent carries it; it did not write it
        return
    from wakebus.adapters.courier.channel_check import check_channel  # 3 ms

    try:
        # Beside another socket stands another courier's file.
        folder = "" if args.socket is not None else f"{root_of('HERMES_BUS_ROOT')}/bus"
        note = check_channel(token, folder)
    except WakebusError as exc:
        raise Usage(exc.text, **exc.data) from exc
    if note:
        echo(f"note: {note}", error=True)


def _text(given: str) -> str:
    text = _stdin() if given == "-" else given
    if not text.strip():
        raise Usage("the text is empty")
    return text


def _body(given: str) -> dict[str, Any]:
    value = json_object(given, "--body")
    if not value:
        where = "standard input" if given == "-" else "--body"
        raise Usage(f'{where} is an empty object; write at least {{"text": "…"}}')
    return value


def json_object(given: str, what: str) -> dict[str, Any]:
    """Return the JSON object in `given`, or on standard input for `-`. Raises Usage."""
    where, text = ("standard input", _stdin()) if given == "-" else (what, given)
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise Usage(f"{where} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise Usage(f"{where} is JSON, but not an object {{…}}: {_KINDS[type(value)]}")
    return value


_KINDS: Final[dict[type, str]] = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _stdin() -> str:
    if sys.stdin is None:
        raise Usage("standard input is closed, there is nothing to read")
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise Usage(f"standard input goes on after {MAX_STDIN >> 20} MiB; a body has at most 1 MiB")
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError as exc:
        raise Usage(f"standard input is not UTF-8 (byte {exc.start})") from exc


_IF_TRUE: Final = ("claimed", "told", "in_doubt")


def show(receipt: Receipt, as_json: bool) -> int:
    """Print the receipt; return the exit status."""
    if as_json:
        # What has ended waits for nobody.
        gone = ("live", "ahead") if receipt.state in ("handled", "dead") else ()
        fields = [(k, v) for k, v in receipt._asdict().items() if k not in gone]
        echo_json({k: v for k, v in fields if v not in (None, "") and (v or k not in _IF_TRUE)})
    if receipt.state == "dead":
        doubt = f"; {MAY_BE_DONE}" if receipt.in_doubt else ""
        echo(one_line(f"dead {receipt.id}: {receipt.reason}{doubt}"), error=True)
        echo(next_steps(receipt.id, receipt.reason, in_doubt=receipt.in_doubt), error=True)
        return WORK_FAILED if receipt.failed else FAILED
    if not as_json:
        echo(one_line(sentence(receipt)))
    return OK


def sentence(receipt: Receipt) -> str:
    """Return the receipt in words."""
    again = " (again: this id or key was sent before)" if receipt.duplicate else ""
    if receipt.state == "handled":
        outcome = f": {json.dumps(receipt.outcome, ensure_ascii=False)}" if receipt.outcome else ""
        pending = f"; {words}" if (words := left_open(receipt.outcome)) else ""
        return f"handled {receipt.id}{again}{pending}{outcome}"
    if receipt.state == "delivered":
        return f"delivered {receipt.id} to {receipt.to}{again}"
    away = "" if receipt.live else f"; {receipt.to} is away and gets it when it comes"
    ahead = f", {receipt.ahead} ahead of it" if receipt.ahead else ""
    return f"queued {receipt.id} for {receipt.to}{ahead}{away}{again}"


def show_answer(answer: Answer, as_json: bool) -> int:
    """Print the answer; return the exit status."""
    receipt, message = answer
    if message is not None:
        if as_json:
            echo_json(message.to_wire())
        else:
            echo(message.text)
        return OK
    if receipt.state == "dead":
        return show(receipt, as_json)
    if as_json:
        facts = {"id": receipt.id, "state": receipt.state, "outcome": receipt.outcome}
        echo_json({**facts, "answer": None})
    why = _why(receipt.outcome)
    echo(one_line(f"handled {receipt.id}, but there is no answer: {why}"), error=True)
    return LATE


def _why(outcome: Mapping[str, Any] | None) -> str:
    """Return an outcome without an answer in words; what is no turn's, as it is."""
    turn = outcome.get("turn") if outcome else None
    if not isinstance(turn, dict) or not (how := turn.get("error") or turn.get("note")):
        return json.dumps(outcome, ensure_ascii=False)
    said = str(turn.get("stderr") or turn.get("stdout") or "").strip()
    return f"the agent: {how}" + (f": {said[-500:]}" if said else "")
