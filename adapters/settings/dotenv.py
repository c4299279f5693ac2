"""
A `.env` as Hermes reads it, by the same parser: python-dotenv.

Rule 1: pure. Rule 2: a `${NAME}` is what stands above it in the file, else the process's, else the
default of `${NAME:-default}`; what was put in is not read once more. Rule 3: the parser has no
bound, so there is one here: text that would be read for minutes, or grow without end, is none.

Imported where a file is read: python-dotenv costs 14 ms and more.
"""

import io
import re
from collections import ChainMap
from collections.abc import Mapping
from typing import Final, NamedTuple

from dotenv.parser import parse_stream
from dotenv.variables import parse_variables

MAX_VARIABLES: Final = 100  # each `${` may be searched for its `}` to the end of a value
MAX_VALUES: Final = 1 << 20  # characters of all values, with what was put in
MAX_BLANKS: Final = 256  # in a row: of each it is asked whether a comment begins behind the others
_BLANKS: Final = re.compile(rf"[^\S\n]{{{MAX_BLANKS}}}")


class Parsed(NamedTuple):
    """The values of a `.env`, "" for an empty one, and the numbers of the lines that are none."""

    values: dict[str, str]
    bad_lines: list[int]


def parse(text: str, process: Mapping[str, str]) -> Parsed:
    """Return what a file says, with `process` for the names that only it has. Raises OSError."""
    # NUL: Hermes takes it out before it reads the file.
    text = text.removeprefix("\ufeff").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    if text.count("${") > MAX_VARIABLES:
        raise OSError(0, f"it has over {MAX_VARIABLES} ${{…}}")
    if blanks := _BLANKS.search(text):
        line = text.count("\n", 0, blanks.start()) + 1
        raise OSError(0, f"its line {line} has {MAX_BLANKS} blanks in a row")
    values: dict[str, str | None] = {}
    known, bad_lines, room = ChainMap[str, str | None](values, dict(process)), [], MAX_VALUES
    for found in parse_stream(io.StringIO(text)):
        if found.key is not None:
            value = "".join(atom.resolve(known) for atom in parse_variables(found.value or ""))
            room -= len(value)
            if room < 0:
                raise OSError(0, "its ${…} grow without end")
            values[found.key] = None if found.value is None else value
        if found.error or (found.key is not None and found.value is None):
            bad_lines.append(found.original.line + _empty_lines(found.original.string))
    return Parsed({key: value for key, value in values.items() if value is not None}, bad_lines)


def _empty_lines(entry: str) -> int:
    """Return how many lines stand empty before an entry."""
    return entry.count("\n", 0, len(entry) - len(entry.lstrip()))
