"""
`wakebus inbox E`: what waits for an endpoint and what it has in its hands; takes nothing.

Rule 1: with `--uncertain` what a chat may have or not, of endpoint E or of all: the courier's and
what a gateway says by itself.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from wakebus.broker import Client
from wakebus.broker.system.text_table import Column
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.bus.dead import age_text
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import (
    OK,
    Parser,
    Usage,
    echo,
    echo_json,
    echo_sentence,
    echo_table,
)
from wakebus.plugin.cli.when import moment_text

COLUMNS: Final = (
    Column("ID", whole=True),
    Column("AGE", right=True),
    Column(
        "STATE",
        colors={
            "queued": "33",
            "started": "34",
            "delivered": "34",
            "uncertain": "31",
            "unanswered": "33",
        },
    ),
    Column("FROM"),
    Column("TYPE"),
    Column("CHANNEL"),
    Column("TEXT", text=True),
)
SHOWN: Final = 5  # lanes that wait
WHOSE: Final = Column("ENDPOINT")


def _options(parser: Parser) -> None:
    parser.add_argument("endpoint", metavar="E", nargs="?", help="an endpoint's name")
    parser.add_argument("--all", action="store_true", help="also all that has ended and is kept")
    parser.add_argument(
        "--uncertain",
        action="store_true",
        help="only what a chat may have or not, without E of all endpoints: look there, then send"
        " it again",
    )


def run(args: argparse.Namespace) -> int:
    """Print the box."""
    if args.endpoint is None and not args.uncertain:
        raise Usage("whose? wakebus inbox E (wakebus endpoints lists them), or --uncertain for all")
    with notify.connect(None) as client:
        names = [args.endpoint] if args.endpoint else [row["name"] for row in client.list()]
        found = [one for name in names for one in _rows(client, name, args)]
        if args.json:
            echo_json({"endpoint": args.endpoint, "messages": found})
            return OK
    if found:
        whose = [] if args.endpoint else [WHOSE]
        echo_table((*whose, *COLUMNS), [[one["to"]] * len(whose) + _row(one) for one in found])
        for line in (*held_up(found), *_why_lines(found)):
            echo_sentence(line)
    else:
        of = f" for {args.endpoint}" if args.endpoint else ""
        echo(f"nothing is {'uncertain' if args.uncertain else 'there'}{of}")
    return OK


def _rows(client: Client, name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    rows = client.inbox(name, all=args.all or args.uncertain)
    maybe = (one for one in rows if not args.uncertain or one.get("result") == "uncertain")
    return [{**one, "to": name} for one in maybe]


def held_up(found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each that was put off, with why and how many wait for it; most first."""
    behind = Counter(one["behind"] for one in found if one.get("behind"))
    why = {one["id"]: one["put_off"] for one in found if one.get("put_off")}
    why |= {one["behind"]: one["behind_why"] for one in found if one.get("behind_why")}
    ids = sorted(why, key=lambda id: -behind[id])
    for id in ids[:SHOWN]:
        others = f", {behind[id]} behind it" if behind[id] else ""
        yield f"{id} waits{others}: {why[id]}"
    if len(ids) > SHOWN:
        yield f"… and {len(ids) - SHOWN} more; all of one: wakebus trace ID"


def _why_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why others wait, as their receiver says or is away: each reason once."""
    told = {one["behind"] for one in found if one.get("behind_why")}
    reasons: dict[str, list[str]] = {}
    for one in found:
        if (why := one.get("why")) and not one.get("put_off") and one["id"] not in told:
            reasons.setdefault(str(why), []).append(one["id"])
    for why, (first, *more) in reasons.items():
        others = f" and {len(more)} more wait" if more else " waits"
        yield f"{first}{others}: {why}"


def _row(one: dict[str, Any]) -> list[str]:
    state = "silent" if one.get("silent") else one["state"]
    state = "unanswered" if one.get("awaits") else state
    if "not_before" in one:
        state = f"at {moment_text(one['not_before'], time.time())}"
    lost = ", ".join(map(str, one.get("unreadable", ())))
    return [
        one["id"],
        age_text(one["age_s"]),
        "uncertain" if one.get("result") == "uncertain" else state,
        f"{one['from']} (claimed)" if one["claimed"] else one["from"],
        one["type"],
        one.get("channel", ""),
        f"(unreadable: {lost}) {one['text']}".rstrip() if lost else one["text"],
    ]


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show what waits for endpoint E and what is in its hands, oldest first, then "
    "what it took silently (wake: silent) and is still kept, and questions that a person has not "
    "answered (wakebus reply). A message that goes out later has its time as its state. Nothing is "
    "taken. "
    "A whole text: wakebus trace ID --text",
    json="for scripts, errors too",
)
