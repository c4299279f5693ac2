"""
`wakebus dead list | show | retry | purge`: messages that were given up.

Rule 1: what was not done is told with its reason, and is exit 1. Rule 2: `purge --all` asks, or
wants `--yes`: nothing is deleted for good by a slip. Rule 3: what died after the command began is
left alone.
"""

import argparse
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from wakebus.broker.client.calls import ReplyRow
from wakebus.broker.client.client import Client
from wakebus.broker.duration import UNITS
from wakebus.broker.errors import Refused
from wakebus.broker.system.text_table import Column
from wakebus.plugin import sender_identity
from wakebus.plugin.cli import notify
from wakebus.plugin.cli.bus.trace_text import trace_lines
from wakebus.plugin.cli.command import Command, add_action
from wakebus.plugin.cli.facts_text import facts_text, outcome_text
from wakebus.plugin.cli.output import (
    FAILED,
    OK,
    Parser,
    Usage,
    agreed,
    echo,
    echo_json,
    echo_table,
    one_line,
)

SHOWN: Final = 50
STEP: Final = 200
JSON: Final = "for scripts, errors too"
COLUMNS: Final = (
    Column("ID", whole=True),
    Column("AGE", right=True),
    Column("FROM"),
    Column("TO"),
    Column("TYPE"),
    Column("CHANNEL"),
    Column("REASON", text=True),
)


def _options(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="list|show|retry|purge", required=True)

    listing = add_action(actions, "list", "show them, newest first", run_list, json=JSON)
    listing.add_argument("--to", metavar="E", help="only those for endpoint E")
    listing.add_argument("--from", dest="sender", metavar="N", help="only those from N")
    _add_channel(listing, "only those for this platform, or chat of it")
    listing.add_argument(
        "--limit", type=_count, default=SHOWN, metavar="N", help=f"at most N (default {SHOWN})"
    )

    show = add_action(
        actions, "show", "show one with its steps, outcome and body", run_show, json=JSON
    )
    show.add_argument("id", metavar="ID", help="a message id, as `dead list` prints it")

    retry = add_action(
        actions, "retry", "send them again, to the end of their lanes", run_retry, json=JSON
    )
    _add_which(retry)
    retry.add_argument("--force", action="store_true", help="also where work may have been done")
    retry.add_argument("--from", dest="sender", metavar="N", help="who retries (default: found)")

    purge = add_action(
        actions, "purge", "delete them with their bodies, for good", run_purge, json=JSON
    )
    _add_which(purge)
    purge.add_argument(
        "--older-than", type=duration, metavar="AGE", help="dead for so long: 90s, 30m, 12h, 7d"
    )
    purge.add_argument("--yes", action="store_true", help="with --all: do not ask")


def _add_which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="these messages")
    parser.add_argument("--to", metavar="E", help="all that were for endpoint E")
    _add_channel(parser, "all that were for this platform, or chat of it")
    parser.add_argument("--all", action="store_true", help="all dead letters")


def _add_channel(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--channel", type=_token, metavar="PLATFORM[:CHAT]", help=text)


def _token(text: str) -> str:
    if not text.strip():  # an empty variable of a script must not mean those without a channel
        raise argparse.ArgumentTypeError("write PLATFORM or PLATFORM:CHAT")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:9]) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000000")
    return int(text)


def duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `12h`, `7d`, for argparse."""
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhd])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write 90s, 30m, 12h or 7d")
    return float(found[1]) * UNITS[found[2]]


def age_text(seconds: float) -> str:
    """Return an age in its largest unit: `42s`, `3h`, `6d`."""
    unit = next((u for u in UNITS if seconds >= UNITS[u]), "s")
    return f"{seconds / UNITS[unit]:.0f}{unit}"


# --- list and show --------------------------------------------------------------------------


def run_list(args: argparse.Namespace) -> int:
    """Print dead letters."""
    with notify.connect(None) as client:
        most = args.limit + 1 if args.channel is None else None
        every = client.dead_letters(to=args.to, sender=args.sender, limit=most)
        found = [*itertools.islice(_for(args.channel, every), args.limit + 1)]
    shown, more = found[: args.limit], len(found) > args.limit
    if args.json:
        echo_json({"letters": shown, "more": more})
        return OK
    if shown:
        echo_table(COLUMNS, map(_row, shown))
    else:
        echo("no dead letters")
    if more:
        echo(f"There are more: --limit {args.limit * 10}", error=True)
    return OK


def _for(channel: str | None, letters: Iterable[ReplyRow]) -> Iterator[ReplyRow]:
    """Yield those for a platform, for a chat in any of its threads, or for just this thread."""
    for letter in letters:
        told = str(letter.get("channel", ""))
        if channel is None or channel in (told, told.partition("?")[0], re.split("[:?]", told)[0]):
            yield letter


def _row(letter: ReplyRow) -> list[str]:
    doubt = " (work may have been done)" if letter["in_doubt"] else ""
    unreadable = letter.get("unreadable")
    lost = f" (unreadable: {', '.join(map(str, unreadable))})" if unreadable else ""
    again = f" (retried {letter['retried']}×)" if letter["retried"] else ""
    return [
        letter["id"],
        age_text(letter["age_s"]),
        letter["from"],
        letter["to"],
        letter["type"],
        letter.get("channel", ""),
        f"{letter['reason']}{doubt}{again}{lost}",
    ]


def run_show(args: argparse.Namespace) -> int:
    """Print one dead letter: its head, steps, outcome, reason and body."""
    with notify.connect(None) as client:
        one = next(row for row in client.trace(args.id) if row["id"] == args.id)
        if one["state"] != "dead":
            step = f"What became of it: wakebus trace {args.id}"
            raise Refused(f"{args.id} is {one['state']}, not a dead letter", step=step)
        lost = "message" in one.get("unreadable", ())
        body = {} if lost else dict(client.read(args.id).body)
    if args.json:
        echo_json({**one, "body": body})
        return OK
    lines = [*trace_lines([one], args.id), f"  reason: {one.get('reason', '')}"]
    if one.get("outcome"):
        lines.append(f"  outcome: {outcome_text(one['outcome'])}")
    text = body.pop("text", "")
    if more := {key: value for key, value in body.items() if key not in ("type", "channel")}:
        lines.append(f"  body: {facts_text(more)}")
    echo("\n".join([*map(one_line, lines), "", text]))
    return OK


# --- retry and purge ------------------------------------------------------------------------


def run_retry(args: argparse.Namespace) -> int:
    """Send dead letters again."""
    _check_which(args, False)
    by = sender_identity.find_sender(args.sender, os.environ).name
    token = notify.turn_token()  # also of a turn that is over: its doing all the same
    with notify.connect(None) as client:
        total: ReplyRow = {"retried": [], "kept": []}
        for ids in _steps(_ids(client, args)):
            _add(total, client.retry(ids, force=args.force, by=by, token=token))
    return _told(args, total, "retried")


def run_purge(args: argparse.Namespace) -> int:
    """Delete dead letters."""
    _check_which(args, args.older_than is not None)
    if args.all and not args.yes and not _agreed():
        echo("nothing was deleted", error=True)
        return FAILED
    with notify.connect(None) as client:
        total: ReplyRow = {"purged": [], "kept": []}
        for ids in _steps(_ids(client, args)):
            _add(total, client.purge(ids))
    return _told(args, total, "purged")


def _check_which(args: argparse.Namespace, chosen: bool) -> None:
    older = ", --older-than AGE" if args.action == "purge" else ""
    chosen = chosen or args.to is not None or args.channel is not None
    if sum((bool(args.ids), chosen, args.all)) != 1:
        raise Usage(f"which ones: ids, --to E, --channel PLATFORM[:CHAT]{older}, or --all")


def _agreed() -> bool:
    if (said := agreed("Delete all dead letters with their bodies, for good?")) is None:
        raise Usage("--all deletes every dead letter for good; where nobody can be asked: --yes")
    return said


def _ids(client: Client, args: argparse.Namespace) -> Iterator[str]:
    """Yield the ids that are meant, in the order of their deaths."""
    if args.ids:
        yield from dict.fromkeys(args.ids)
        return
    # 0: what dies once more because of this command must not be met again.
    age = getattr(args, "older_than", None) or 0.0
    for letter in _for(args.channel, client.dead_letters(to=args.to, older_than=age, oldest=True)):
        yield letter["id"]


def _steps(ids: Iterator[str]) -> Iterator[list[str]]:
    while step := list(itertools.islice(ids, STEP)):
        yield step


def _add(total: ReplyRow, more: ReplyRow) -> None:
    for name, found in more.items():
        total[name] += found


def _told(args: argparse.Namespace, total: ReplyRow, what: str) -> int:
    done, kept = total[what], total["kept"]
    if args.json:
        echo_json(total)
    else:
        echo(f"{what}: {_named(done)}" if done or not kept else f"{what}: none")
        for one in kept:
            echo(one_line(f"not {what}: {one['id']}: {one['why']}"), error=True)
    return FAILED if kept else OK


def _named(ids: Iterable[str]) -> str:
    found = list(ids)
    return ", ".join(found) if 0 < len(found) <= 10 else str(len(found))


COMMAND: Final = Command(
    options=_options,
    description="Dead letters are messages that were given up: expired, refused by their "
    "receiver, failed in its hands, out of attempts, or cancelled. They are kept for 7 days.",
)
