"""
`wakebus logs`: where the broker's and the courier's logs are, their last lines, and what comes.

Rule 1: it asks no broker: that one may have died, and its log says why. Rule 2: a log that rotates
is followed into the new file. Rule 3: a log holds what peers wrote: it is cleaned.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from wakebus.broker.paths import bus_dir
from wakebus.plugin.cli.command import Command
from wakebus.plugin.cli.output import FAILED, OK, Parser, Usage, echo, echo_json

NAMES: Final = ("broker", "courier")
LINES: Final = 20
BLOCK: Final = 64 << 10  # bytes: what is read of a log's end
LOOK_S: Final = 0.2


def _options(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", choices=NAMES, metavar="broker|courier", help="only one")
    parser.add_argument("-f", "--follow", action="store_true", help="show what comes, until Ctrl-C")
    parser.add_argument(
        "-n", dest="lines", type=int, default=LINES, metavar="N", help=f"lines (default {LINES})"
    )
    parser.floating = ("name",)


def run(args: argparse.Namespace) -> int:
    """Show the logs."""
    if args.lines < 0:
        raise Usage(f"-n {args.lines}: a number of lines, from 0")
    if args.json and args.follow:
        raise Usage("--json says where the logs are; it follows nothing")
    paths = [bus_dir() / f"{name}.log" for name in ([args.name] if args.name else NAMES)]
    there = [path for path in paths if path.exists()]
    if args.json:
        echo_json({"logs": [{"path": str(path), "bytes": path.stat().st_size} for path in there]})
        return OK
    if not there:
        echo(f"no log yet: {' and '.join(map(str, paths))}; the broker makes them", error=True)
        return FAILED
    for path in there:
        echo(f"==> {path} <==")
        for line in last_lines(path, args.lines):
            echo(line)
    if args.follow:
        _follow(there)
    return OK


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, at most those of its last 64 KiB."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - BLOCK))
        lines = file.read().decode("utf-8", "replace").splitlines()
    whole = lines[1:] if size > BLOCK else lines
    return whole[-count:] if count else []


def _follow(paths: list[Path]) -> None:
    followed = [FollowedLog(path) for path in paths]
    while True:
        for one in followed:
            for line in one.new_lines():
                echo(f"{one.path.stem}: {line}" if len(followed) > 1 else line)
        time.sleep(LOOK_S)


class FollowedLog:
    """What is written to the log at `path` from now on, also into a new file of this name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb")
        self._file.seek(0, 2)
        self._begun = b""  # a line whose end has not come

    def new_lines(self) -> Iterator[str]:
        """Yield the whole lines that have come since the last call."""
        yield from self._read()
        try:
            replaced = self.path.stat().st_ino != self._number()
        except FileNotFoundError:
            return  # between two files
        if replaced:
            yield from self._read()
            self.close()
            self._file = self.path.open("rb")
            yield from self._read()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _number(self) -> int:
        return os.fstat(self._file.fileno()).st_ino

    def _read(self) -> Iterator[str]:
        *lines, self._begun = (self._begun + self._file.read()).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


COMMAND: Final = Command(
    options=_options,
    run=run,
    description="Show where the logs of the broker and the courier are, and their last lines.",
    epilog="exit status: 0 done; 1 there is no log; 2 usage",
    json="where they are, and how long",
)
