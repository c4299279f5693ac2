"""
`notify-hermes`: send one message and print the honest receipt (seed 004, section 2).

Rule 1: it imports zmq, json, argparse and nothing else of weight; people call it in every hook
and prompt (hermes-notify takes over a second). Rule 2: it never starts a broker. Rule 3: it says
"queued", "handled" or why not; never a bare "OK".
"""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from wakebus.broker import __version__
from wakebus.broker.client.client import Client
from wakebus.broker.errors import BadToken, NotRunning, TimedOut, WakebusError
from wakebus.broker.paths import root_of
from wakebus.broker.protocol import message as messages
from wakebus.broker.protocol.dead_letter import MAY_BE_DONE, next_steps
from wakebus.broker.protocol.receipt import Answer, Receipt
from wakebus.plugin import sender_identity
from wakebus.plugin.cli.message_body import body_of
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
    path_text,
)
from wakebus.plugin.cli.receipt_text import goes_out, obstacle_to_chat, sentence
from wakebus.plugin.cli.targets import EachTarget, check_known, targets_of

CONNECT_S: Final = 2.0  # a broker that is being restarted is back by then
CHAT_S: Final = 2.0  # the answer comes just before the message's end
MAX_WAIT_S: Final = 86400.0  # the broker waits no longer (PROTOCOL.md section 9)

EXAMPLES: Final = """\
examples:
  notify-hermes --to lead-agent "build is green"
  notify-hermes --to lead-agent --type task_done --channel "$WAKEBUS_CHANNEL" "done"
  notify-hermes --to worker-alpha --type directive --wait-reply 600 "run the tests"
  notify-hermes --to worker-alpha,worker-beta --at 18:00 "stop now, report"
  make 2>&1 | tail -50 | notify-hermes --to lead-agent --type task_error -

A text that begins with "-" goes behind "--".

exit status (of several targets the highest):
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
    found.add_argument(
        "--to",
        required=True,
        action="append",
        metavar="ENDPOINT",
        help="target endpoint; several: --to a1,a2 or --to a1 --to a2",
    )
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
    to.add_argument("--key", metavar="K", help="send once per key in 24 h (and target)")
    add_delivery(to)
    to.add_argument("--wake", choices=messages.WAKES, help="the most it may disturb the receiver")
    to.add_argument(
        "--socket", metavar="P", help="the broker's socket; default: from $HERMES_BUS_ROOT"
    )
    to.add_argument(
        "--config",
        type=path_text,
        metavar="F",
        help="another bus-rules.yaml (role_map, default_sender)",
    )
    to.add_argument(
        "--json", action="store_true", help="print one JSON object a target, errors too"
    )


def add_delivery(to: argparse.ArgumentParser) -> None:
    """Add the options that say when a message goes out, and how long it may wait."""
    when = to.add_mutually_exclusive_group()
    when.add_argument(
        "--in",
        dest="not_before",
        type=_when("after"),
        metavar="SPAN",
        help="send it in 10m, 1h30m, 2d; until then the broker keeps it",
    )
    when.add_argument(
        "--at",
        dest="not_before",
        type=_when("moment"),
        metavar="TIME",
        help="send it at 18:00 (tomorrow if that is past), or at 2026-12-01T18:00",
    )
    to.add_argument(
        "--ttl",
        type=_when("ttl"),
        metavar="SPAN",
        help="give it up when it has waited so long: 90s, 10m, 12h (default 7d)",
    )
    to.add_argument(
        "--priority",
        choices=messages.PRIORITIES,
        help="before or after others that wait for the same endpoint",
    )


def _when(name: str) -> Callable[[str], float]:
    """Return a reader of times for argparse, which is loaded when it is needed."""

    def read(text: str) -> float:
        from wakebus.plugin.cli import when

        found: float = getattr(when, name)(text)
        return found

    return read


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
    each = EachTarget("notify-hermes", targets_of(args.to), as_json=args.json)
    if args.wait_reply is not None:
        return ask(args, body, each, args.wait_reply)
    until = end_of_wait(args, args.wait or 0.0)
    with connect(args.socket) as client:
        found = send_to(client, args, body, each)
        if args.wait is not None:
            tell_delay(found)
            found = each.run(lambda name: _ended(client, found[name], until, args.json))
        each.run(lambda name: each.note_status(show(found[name], args.json, each.label(name))))
    return each.status


def ask(args: argparse.Namespace, body: Mapping[str, Any], each: EachTarget, wait: float) -> int:
    """Send, wait for the answers, print them; return the exit status."""
    until = end_of_wait(args, wait)
    with connect(args.socket) as client:
        asked = send_to(client, args, body, each, asks=True)
        tell_delay(asked)
        tell_asked(asked, wait, args.json)

        def show_one(name: str) -> None:
            again = "" if each.several else f"with --id {asked[name].id}"
            answer = _answered(client, asked[name], until, again, as_json=args.json)
            each.note_status(show_answer(answer, args.json, each.label(name)))
            if answer.message is not None and (channel := body.get("channel")):
                _tell_chat(client, asked[name].id, str(channel), each.label(name))

        each.run(show_one)
    return each.status


def send_to(
    client: Client,
    args: argparse.Namespace,
    body: Mapping[str, Any],
    each: EachTarget,
    *,
    asks: bool = False,
) -> dict[str, Receipt]:
    """Send to each; return the receipts by name. Raises where nothing may be sent to anybody."""
    if each.several and args.id is not None:
        raise Usage("--id names one message; give it with one target")
    if each.several and not args.queue:
        check_known(client, each.names)

    def send_one(name: str) -> Receipt:
        # By its key the broker would take the second one for the first, sent again.
        key = f"{args.key} {name}" if args.key and each.several else args.key
        one = argparse.Namespace(**(vars(args) | {"to": name, "key": key}))
        return send(client, one, body, asks=asks)

    return each.run(send_one)


def end_of_wait(args: argparse.Namespace, wait: float) -> float:
    """Return until when (monotonic) one waits `wait` seconds for what may go out later."""
    total = wait + max(0.0, (args.not_before or 0.0) - time.time())
    if wait and total > MAX_WAIT_S:
        raise Usage(
            "it would be waited for longer than a day; send it without waiting, and ask later: "
            "wakebus trace ID"
        )
    return time.monotonic() + total


def tell_delay(sent: Mapping[str, Receipt]) -> None:
    """Say that the wait is for what goes out later."""
    for receipt in sent.values():
        if receipt.not_before:
            when = goes_out(receipt.not_before)
            echo(f"note: {receipt.id} goes out {when}; the wait begins then", error=True)


def tell_asked(asked: Mapping[str, Receipt], wait: float, as_json: bool) -> None:
    """Say by which ids was asked, and how long the answers are waited for."""
    from wakebus.broker.duration import seconds_text  # who does not wait does not pay for it

    for name, receipt in ({} if as_json else asked).items():
        if receipt.state != "dead":
            line = f"asked {name} by {receipt.id}; waiting {seconds_text(wait)} for the answer"
            echo(line, error=True)


def _ended(client: Client, receipt: Receipt, until: float, as_json: bool) -> Receipt:
    from wakebus.plugin.cli.progress import waiting

    if receipt.state in ("handled", "dead"):
        return receipt
    id, wait = receipt.id, seconds_left(until)
    step = f"What becomes of it: wakebus trace {id}\nTo take it back: wakebus cancel {id}"
    with waiting(client, id, wait, step=step, as_json=as_json):
        ended = client.wait(id, wait, token=turn_token())
    return ended._replace(to=receipt.to, duplicate=receipt.duplicate)


def _answered(
    client: Client, receipt: Receipt, until: float, again: str, *, as_json: bool
) -> Answer:
    from wakebus.plugin.cli.progress import waiting

    if receipt.state == "dead":
        return Answer(receipt, None)
    id, wait = receipt.id, seconds_left(until)
    follow = f"Follow it: wakebus trace {id}"
    later = f"Its answer, now or later: the same command {again}" if again else ""
    step = f"{later or follow}\nTo take it back: wakebus cancel {id}"
    try:
        with waiting(client, id, wait, step=step, as_json=as_json):
            return client.wait_answer(id, wait, token=turn_token())
    except TimedOut as exc:
        step = f"The wait is over, and it is not lost. {follow}\n{later}".rstrip()
        raise TimedOut(exc.text, **(exc.data | {"step": step})) from exc


def _tell_chat(client: Client, id: str, channel: str, who: str) -> None:
    """Say that the answer is not for the message's chat as well, where that is so."""
    try:
        ended = client.wait(id, CHAT_S, token=turn_token())
    except WakebusError:
        return  # nobody knows yet: `trace` tells it
    if why := obstacle_to_chat(ended.outcome):
        echo(one_line(f"note: {who}{channel} gets nothing of this answer: {why}"), error=True)


def seconds_left(until: float) -> float:
    """Return the seconds until `until` (monotonic), 0.0 where it is over."""
    return max(0.0, until - time.monotonic())


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
        raise NotRunning(exc.text, **(step | exc.data)) from exc
    if not client.connected(CONNECT_S):
        from wakebus.broker.denial import not_running

        where = client.address
        client.close()
        error = not_running(where, f"no broker answers at {where}", "nothing was sent")
        raise NotRunning(error.text, **(step | error.data))
    return client


def send(
    client: Client, args: argparse.Namespace, body: Mapping[str, Any], *, asks: bool = False
) -> Receipt:
    """Send `body` under the name that `args` and the environment give."""
    try:
        name, token, note = sender_identity.find_sender(args.sender, os.environ, args.config)
    except WakebusError as exc:
        raise Usage(exc.text, **exc.data) from exc
    if note:
        echo(f"note: sent as {name}; {note}", error=True)
    fields = {"session": args.session or None, "key": args.key, "id": args.id}
    fields |= {"queue": args.queue, "asks": asks, "wake": args.wake}
    fields |= {"not_before": args.not_before, "priority": args.priority}
    fields |= {} if args.ttl is None else {"ttl_s": args.ttl}
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


_IF_TRUE: Final = ("claimed", "told", "in_doubt", "waiting", "not_before")


def show(receipt: Receipt, as_json: bool, who: str = "") -> int:
    """Print the receipt; return the exit status. `who`: whose it is, where there are several."""
    if as_json:
        # What has ended waits for nobody.
        gone = ("live", "ahead") if receipt.state in ("handled", "dead") else ()
        fields = [(k, v) for k, v in receipt._asdict().items() if k not in gone]
        echo_json({k: v for k, v in fields if v not in (None, "") and (v or k not in _IF_TRUE)})
    if receipt.state == "dead":
        doubt = f"; {MAY_BE_DONE}" if receipt.in_doubt else ""
        echo(one_line(f"{who}dead {receipt.id}: {receipt.reason}{doubt}"), error=True)
        echo(next_steps(receipt.id, receipt.reason, in_doubt=receipt.in_doubt), error=True)
        return WORK_FAILED if receipt.failed else FAILED
    if not as_json:
        echo(one_line(f"{who if receipt.state == 'handled' else ''}{sentence(receipt)}"))
    return OK


def show_answer(answer: Answer, as_json: bool, who: str = "") -> int:
    """Print the answer; return the exit status. `who`: as for `show`."""
    receipt, message = answer
    if message is not None:
        if as_json:
            echo_json(message.to_wire())
        else:
            echo(f"{who}{message.text}")
        return OK
    if receipt.state == "dead":
        return show(receipt, as_json, who)
    if as_json:
        facts = {"id": receipt.id, "state": receipt.state, "outcome": receipt.outcome}
        echo_json({**facts, "answer": None})
    from wakebus.plugin.cli.no_answer import why_no_answer

    why = why_no_answer(receipt.outcome)
    echo(one_line(f"{who}handled {receipt.id}, but there is no answer: {why}"), error=True)
    return LATE
