"""`wakebus restore FILE`: the bus as it was when a backup was made."""

import argparse
import time
from collections.abc import Iterator
from typing import Final

from wakebus.broker.backup.restore import Restored, restore_backup
from wakebus.broker.paths import bus_dir
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, echo, echo_json
from wakebus.plugin.cli.setup.backup import file_name

EPILOG: Final = """\
The broker must be stopped (hermes-busd stop). The store that is here is kept
under another name, and is replaced in one step; other files of the backup
are taken where none of the name is here.

The bus is then as it was: what was sent since the backup is not in it, and
what waited then is delivered again, labelled as redelivered, also where it
was handled since. Texts to chats that went out since may go out twice; not
those that the courier here still remembers (for a day).

exit status: 0 done; 1 nothing was restored, and why; 2 usage"""


def _options(parser: Parser) -> None:
    parser.add_argument("file", type=file_name, metavar="FILE", help="what wakebus backup made")


def run(args: argparse.Namespace) -> int:
    """Restore a backup."""
    found = restore_backup(args.file, bus_dir())
    if args.json:
        kept = str(found.kept) if found.kept else None
        facts = {"made": found.made, "kept": kept, "files": found.files}
        echo_json({"folder": str(bus_dir()), **found.counts._asdict(), **facts})
    else:
        for line in _lines(found):
            echo(line)
    return OK


def _lines(found: Restored) -> Iterator[str]:
    counts, made = found.counts, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.made))
    yield f"{bus_dir()} is as it was at {made}: {counts.in_words('then')}"
    if found.kept:
        yield f"The store that was here: {found.kept}"
    if counts.waiting:
        yield (
            f"What was not handled then ({counts.waiting}) is delivered again, labelled as "
            "redelivered, also where it was handled since."
        )
    yield "Start the bus: hermes-busd start"


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Make the bus what it was when a backup was made.",
    epilog=EPILOG,
    json="print one JSON object",
)
