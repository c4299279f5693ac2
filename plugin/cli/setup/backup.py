"""`wakebus backup FILE`: the whole bus in one file, also while the broker runs and writes."""

import argparse
from pathlib import Path
from typing import Final

from wakebus.broker.backup.backup_file import write_backup
from wakebus.broker.paths import bus_dir
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import OK, Parser, echo, echo_json

EPILOG: Final = """\
FILE is a new file (mode 0600; nothing is overwritten), there once it is
complete and checked. In it: all messages that had a receipt when this began,
with bodies; endpoints; dead letters; what the courier has sent; notes that
wait for a turn; copies of files on their way; wakebus.toml. Not in it: logs,
console-NAME.log, and what lies elsewhere (bus-rules.yaml, .env).

The way back: wakebus restore FILE

exit status: 0 done; 1 no backup was made, and why; 2 usage"""


def file_name(given: str) -> Path:
    """Return the file that was named. Raises ArgumentTypeError for what is no name of one."""
    if not given.strip() or given == "-":
        raise argparse.ArgumentTypeError("name a file")
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _options(parser: Parser) -> None:
    parser.add_argument("file", type=file_name, metavar="FILE", help="the file to make")


def run(args: argparse.Namespace) -> int:
    """Make a backup."""
    counts = write_backup(bus_dir(), args.file)
    size = args.file.stat().st_size
    if args.json:
        echo_json({"file": str(args.file), "bytes": size, **counts._asdict()})
    else:
        echo(f"{args.file}: {counts.in_words()}, {size / 1024:,.0f} KiB, checked")
        echo(f"The way back: wakebus restore {args.file}")
    return OK


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Copy the whole bus into one file. The broker goes on meanwhile.",
    epilog=EPILOG,
    json="print one JSON object",
)
