"""
Tables for people and for pipes: a header, then a line a row.

Rule 1: on a terminal a table is no wider than that: a cell that is too long goes on in the next
line, a text for which no column is left stands below its row, columns without a value are left out.
Rule 2: in a pipe nothing is wrapped, cut or coloured, and every column is there: a cell without a
value is `-`. Rule 3: a cell is text: no control character and no line break in it means anything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple, TextIO

from wakebus.broker.system.standard_files import takes_color
from wakebus.broker.system.text_width import display_width

LEAST_TEXT: Final = 24  # characters of a column for texts; in a narrower one nobody reads
LEAST: Final = 6  # characters of any other column, however narrow the terminal is
INDENT: Final = 4  # of a text below its row
BOLD: Final = "1"
_GAP: Final = "  "
_NO_CONTROLS: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")


class Column(NamedTuple):
    """
    A column's title and kind. `right`: numbers. `whole`: never wrapped, for what is copied; in the
    first column a value that leaves no room for the others has a line of its own.

    `text`: sentences; only the last column. `grouped`, from the left: on a terminal a value is
    written only where the row above has another, there or further left. `colors`: SGR codes of
    its values.
    """

    title: str
    right: bool = False
    whole: bool = False
    text: bool = False
    grouped: bool = False
    colors: Mapping[str, str] = {}

    @property
    def shrinks(self) -> bool:
        """Whether its values may go on in the next line."""
        return not (self.whole or self.right)


def text_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], stream: TextIO | None
) -> str:
    """Return the table as `stream` takes it: a terminal, or a pipe, a file or None."""
    cells = [[_one_line(cell) for cell in row] for row in rows]
    if stream is None or not stream.isatty():
        return "\n".join(_for_pipe(columns, cells))
    from shutil import get_terminal_size  # 5 ms

    color = takes_color(stream)
    return "\n".join(for_terminal(columns, cells, get_terminal_size().columns, color=color))


def _one_line(cell: object) -> str:
    return " ".join(str(cell).translate(_NO_CONTROLS).split())


def _for_pipe(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [[column.title for column in columns], *([cell or "-" for cell in row] for row in rows)]
    widths = [max(map(display_width, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        yield _joined(columns, line, widths, [""] * len(columns))


def for_terminal(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, color: bool
) -> Iterator[str]:
    """Yield the lines of a table that is `width` characters wide at most."""
    used = [place for place, _ in enumerate(columns) if any(row[place] for row in rows)]
    columns = [columns[place] for place in used]
    rows = [[row[place] for place in used] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(display_width, cells)) for cells in zip(titles, *rows, strict=True)]
    beside = _fit(columns, widths, width)
    plain = [""] * len(columns)
    yield _joined(columns[:beside], titles, widths, [BOLD if color else ""] * beside)
    above: Sequence[str] = plain
    for row in rows:
        shown = _without_repeats(columns, row, above)
        codes = [column.colors.get(cell, "") for column, cell in zip(columns, row, strict=True)]
        wrapped = [[*_wrapped(cell, size)] for cell, size in zip(shown, widths, strict=True)]
        if columns and columns[0].whole and display_width(shown[0]) > widths[0]:
            code = codes[0] if color else ""
            yield _joined(columns[:1], [shown[0]], [0], [code])
            wrapped[0] = []
        for cells in zip_longest(*wrapped[:beside], fillvalue=""):
            yield _joined(columns[:beside], cells, widths, codes if color else plain)
        yield from (" " * INDENT + line for lines in wrapped[beside:] for line in lines if line)
        above = row


def _fit(columns: Sequence[Column], widths: list[int], width: int) -> int:
    """Make the widths fit; return how many columns stand beside each other, not below."""
    beside, gaps = len(columns), len(_GAP) * (len(columns) - 1)
    if columns and columns[-1].text:
        left = width - gaps - sum(widths[:-1])
        if widths[-1] > left < LEAST_TEXT:
            beside, gaps = beside - 1, gaps - len(_GAP)
            widths[-1] = max(width - INDENT, LEAST)
        else:
            widths[-1] = min(widths[-1], left)
    soft = {n: max(LEAST, len(columns[n].title)) for n in range(beside) if columns[n].shrinks}
    while sum(widths[:beside]) + gaps > width:
        wide = [place for place, least in soft.items() if widths[place] > least]
        if not wide:
            others = sum(widths[1:beside]) + gaps
            if columns and columns[0].whole:
                widths[0] = min(widths[0], max(width - others, display_width(columns[0].title)))
            break
        widths[max(wide, key=lambda place: widths[place])] -= 1
    return beside


def _without_repeats(
    columns: Sequence[Column], row: Sequence[str], above: Sequence[str]
) -> list[str]:
    shown, same = [], True
    for column, cell, before in zip(columns, row, above, strict=True):
        same = same and column.grouped and cell == before
        shown.append("" if same else cell)
    return shown


def _joined(
    columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], codes: Sequence[str]
) -> str:
    parts = []
    for column, cell, width, code in zip(columns, cells, widths, codes, strict=False):
        pad = " " * (width - display_width(cell))
        shown = f"\x1b[{code}m{cell}\x1b[0m" if code and cell else cell
        parts.append(f"{pad}{shown}" if column.right else f"{shown}{pad}")
    return _GAP.join(parts).rstrip()


def wrapped_text(text: str, stream: TextIO | None) -> str:
    """Return a sentence in lines that a terminal has room for, in one for anything else."""
    if stream is None or not stream.isatty():
        return text
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    if display_width(text) <= width:
        return text
    first, *rest = _wrapped(text, width - INDENT)
    return "\n".join([first, *(" " * INDENT + line for line in rest)])


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Yield `text` in lines of at most `width` cells, between words where that is possible."""
    line = ""
    for word in text.split():
        if line and display_width(f"{line} {word}") <= width:
            line = f"{line} {word}"
            continue
        if line:
            yield line
        line = ""
        for char in word:
            if line and display_width(line) + display_width(char) > width:
                yield line
                line = ""
            line += char
    yield line
