"""
`wakebus reply [ID ["text"]]`: a person answers a question that a listener has shown.

Rule 1: what is said of the asker is what the broker knows when the answer comes. Rule 2: nobody
answers by a slip: the command that is printed to be pasted has no text, and asks for it.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

from wakebus.broker.client.client import Client
from wakebus.broker.errors import Refused, TimedOut, UnknownId
from wakebus.broker.protocol.message import Message
from wakebus.broker.protocol.receipt import Receipt
from wakebus.broker.system.text_table import Column
from wakebus.plugin import sender_identity
from wakebus.plugin.cli import message_body, notify
from wakebus.plugin.cli.bus.dead import age_text
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, Usage, echo, echo_json, echo_table, one_line

SETTLE_S: Final = 2.0  # a listener shows a question just before it says so to the broker
COLUMNS: Final = (
    Column("ID", whole=True),
    Column("AGE", right=True),
    Column("FROM"),
    Column("FOR"),
    Column("TEXT", text=True),
)

EPILOG: Final = """\
examples:
  wakebus reply                      the questions that nobody has answered yet
  wakebus reply 1a22 "yes"           answer the one whose id begins so
  wakebus reply 1a22                 show it and ask for the answer
  git diff | wakebus reply 1a22 -    the answer from standard input

exit status: 0 answered (what it says of the asker is true when it is printed); 1 no question to a
person, answered already, dead, or the bus is not running; 2 usage; 5 unknown (resend with --id)"""


def _options(parser: Parser) -> None:
    parser.add_argument(
        "question", nargs="?", metavar="ID", help="the question's id, or enough of its beginning"
    )
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the answer; - reads stdin")
    parser.add_argument("--from", dest="sender", metavar="N", help="who was asked (default: found)")
    parser.add_argument("--id", metavar="I", help="the answer's id: resend what was undecided")
    parser.floating = ("question", "text")
    parser.set_defaults(body=None, type=None, channel=None)


def run(args: argparse.Namespace) -> int:
    """List questions, or answer one."""
    with notify.connect(None) as client:
        if args.question is None:
            return _list(client, as_json=args.json)
        asked = client.read(find_id(client, args.question))
        check_asked(asked, args.sender)
        text = _text(args, asked)
        try:
            client.wait(asked.id, SETTLE_S)
        except TimedOut:
            pass  # the broker says what it is about
        by = sender_identity.find_sender(args.sender, os.environ).name
        receipt = client.reply(asked.id, text, by=by, answer=args.id)
    if args.json:
        facts = {"id": receipt.id, "state": receipt.state, "to": asked.sender}
        echo_json({**facts, "reply_to": asked.id, "waiting": receipt.waiting})
    else:
        echo(one_line(sentence(asked, receipt)))
    return OK


def find_id(client: Client, given: str) -> str:
    """Return the id that is meant: `given`, or the one question that begins with it."""
    try:
        return client.read(given).id
    except UnknownId as exc:
        found = [one["id"] for one in questions(client) if given and one["id"].startswith(given)]
        if len(found) == 1:
            return str(found[0])
        step = "Questions that wait for an answer: wakebus reply"
        if found:
            raise Usage(f"{given} is the beginning of {', '.join(found[:5])}", step=step) from exc
        raise UnknownId(f"{exc.text}, and no question begins so", step=step) from exc


def check_asked(asked: Message, given: str | None) -> None:
    """Raise Refused where who replies is somebody else than who was asked."""
    id, to = asked.id, asked.to
    if turn := os.environ.get("WAKEBUS_TOKEN") and os.environ.get("WAKEBUS_ENDPOINT"):
        step = f"What a turn of {turn} prints is its answer; a person replies from outside of it."
        raise Refused(f"{id} is a question to a person, and this is a turn of {turn}", step=step)
    if (me := given or os.environ.get("HERMES_BUS_ENDPOINT") or to) != to:
        step = f"To answer it as {to}: wakebus reply --from {to} {id}"
        raise Refused(f"{id} is a question of {asked.sender} for {to}, and not for {me}", step=step)


def questions(client: Client) -> Iterator[dict[str, Any]]:
    """Yield the questions that wait for a person's answer, of each endpoint, oldest first."""
    for name in [row["name"] for row in client.list()]:
        yield from ({**one, "to": name} for one in client.inbox(name) if one.get("awaits"))


def _text(args: argparse.Namespace, asked: Message) -> str:
    if args.text is None and sys.stdin is not None and sys.stdin.isatty():
        echo(f"{asked.sender}: {asked.text}\nanswer (one line; Ctrl-C: none):", error=True)
        args.text = sys.stdin.buffer.readline().decode(errors="replace").rstrip("\n")
    return str(message_body.body_of(args)["text"])


def sentence(asked: Message, receipt: Receipt) -> str:
    """Return in words what became of an answer."""
    again = " (again: it was sent before)" if receipt.duplicate else ""
    who, id = asked.sender, asked.id
    if receipt.waiting:
        where = f"{who} waits for it and gets it"
    elif receipt.state == "handled":
        where = f"{who} does not wait for it now; it is kept for who asks again with --id {id}"
    elif receipt.state == "queued" and not receipt.live:
        where = f"{who} is away and gets it when it comes"
    else:
        where = f"{receipt.state} for {who}, which listens"
    return f"answered {id}{again}: {where} (answer {receipt.id})"


def _list(client: Client, *, as_json: bool) -> int:
    found = list(questions(client))
    if as_json:
        echo_json({"questions": found})
    elif found:
        keys = ("from", "to", "text")
        rows = ([one["id"], age_text(one["age_s"]), *map(one.get, keys)] for one in found)
        echo_table(COLUMNS, rows)
        echo(f"\nanswer one: wakebus reply {found[0]['id']}", error=True)
    else:
        echo("no question waits for a person's answer")
    return OK


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Answer a question that a listener without an agent has shown, and say whether the "
    "asker still waits. Without ID, list those that nobody has answered.",
    epilog=EPILOG,
    json="for scripts, errors too",
)
