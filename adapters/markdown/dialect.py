"""
What a dialect of markup has to say about each mark; by itself: none, text that people read.

Rule 1: pure. Rule 2: what arrives as words is the text's own, unescaped; what arrives as
rendered is this dialect's already. Rule 3: a dialect overrides what its platform does otherwise.
Rule 4: in a table as text Chinese and emoji take two columns, accents none (Unicode UAX 11); a wide
cell does not widen its column without end: the output stays a small multiple.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from wakebus.adapters.markdown.parser import pieces
from wakebus.broker.system.text_width import display_width

# After this a platform's parser sees no mention, link or mark; a reader sees nothing. Cleaning
# (sanitize.plain) has taken it out of what came in.
ZWSP: Final = "\u200b"
# Where a line of code begins that stays at the line's beginning; taken out in the end.
FIXED: Final = "\x05"
_FIRST: Final = re.compile(rf"^(?=[^\n{FIXED}])", re.MULTILINE)
_AT: Final = re.compile(r"(?<![A-Za-z0-9])@")
_CALLS: Final = re.compile(
    r"<(?=users/|at[\s>]|/at>|!(?:channel|here|everyone|subteam))", re.IGNORECASE
)

# `:name:` beside a letter or a colon: an address, a path of Rust, a time; numbers are no emoji.
_NAME: Final = r"(?=(?!(?!1(?:00|234):)\d+:)[a-z0-9_+-]{1,64}:"
_EMOJI: Final = re.compile(rf"(?<=[\w:]):{_NAME})|:{_NAME}[\w:/])")
_WIDEST: Final = 40  # columns; a longer cell of a table stands out of its column


def without_emoji(words: str) -> str:
    """Return words in which `::key::` and `2a14:6f42:c::` show none; `:tada:` by itself is one."""
    return _EMOJI.sub(f":{ZWSP}", words)


class Dialect:
    """Plain text, and the base of all others."""

    # What is written before and after; an absent kind (strong, em, s) is not shown.
    MARKS: ClassVar[Mapping[str, str]] = {}
    NEWLINE: ClassVar = "\n"
    BULLET: ClassVar = "• "
    BOXES: ClassVar = ("☐ ", "☑ ")  # of a task, open and done
    CODED_TABLES: ClassVar = True  # a table is a block of code: its cells have no marks
    FLAT: ClassVar = True  # code in a list is not nested: indented, it would be other code

    def text(self, words: str) -> str:
        """Return words so that the platform shows them, and nothing more."""
        return words

    def code(self, words: str) -> str:
        """Return code within a line."""
        return words

    def fence(self, words: str, language: str) -> str:
        """Return a block of code; `words` end without a newline."""
        return words

    def link(self, rendered: str, url: str) -> str:
        """Return a link; `url` is http, https or mailto, and free of quotes and brackets <>."""
        shown = self.bare(url)
        return f"{rendered} ({shown})" if rendered.strip() else shown

    def bare(self, url: str) -> str:
        """Return an address that stands in the text as it is."""
        return url

    def mark(self, kind: str, rendered: str, written: str) -> str:
        """Return emphasis; kind: strong, em or s; `written`: the text's own mark."""
        mark = self.MARKS.get(kind, "")
        return f"{mark}{rendered}{mark}"

    def line(self, rendered: str) -> str:
        """Return what a paragraph's, a heading's or a cell's parts make together."""
        return rendered

    def starts(self, rendered: str) -> str:
        """Return words' lines so that none begins as another block would."""
        return rendered

    def paragraph(self, rendered: str) -> str:
        """Return a paragraph; in a list without empty lines there is none."""
        return rendered

    def heading(self, rendered: str, level: int) -> str:
        """Return a heading of level 1 to 6."""
        return self.mark("strong", rendered, "")

    def quote(self, rendered: str, depth: int) -> str:
        """Return a quote; `depth`: 1, or more in another quote."""
        return "\n".join(f"> {line}" if line.strip(FIXED) else ">" for line in rendered.split("\n"))

    def items(self, items: Sequence[str], start: int | None, tight: bool) -> str:
        """Return a list; `start`: the first number, None for bullets."""
        shown = []
        for at, item in enumerate(items):
            bullet = self.BULLET if start is None else f"{start + at}. "
            room = " " * len(bullet)
            shown.append(bullet + _behind(room, item).removeprefix(room))
        return ("\n" if tight else "\n\n").join(shown)

    def rule(self) -> str:
        """Return a line across."""
        return "———"

    def table(self, rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
        """Return a table, its head first; cells are bare words where CODED_TABLES, else lines."""
        return self.fence(aligned_table(rows, aligns), "")

    def blocks(self, blocks: Sequence[str], close: Sequence[bool]) -> str:
        """Return blocks below each other; `close[i]`: no empty line behind block i."""
        gaps = ["\n" if near else "\n\n" for near in close]
        return "".join(block + gap for block, gap in zip(blocks, [*gaps, ""], strict=False))

    def words(self, text: str) -> str:
        """Return a text without marks as it stands, addresses in it made safe."""
        shown: list[Callable[[str], str]] = [self.text, self.bare]
        return "".join(shown[at % 2](piece) for at, piece in enumerate(pieces(text)) if piece)


class Quiet(Dialect):
    """
    Words as they are for services that we do not know, none of which mentions anybody.

    Zulip, Mastodon and Rocket.Chat look for an `@` that no name stands before, Google Chat for
    `<users/…>`, others for `<!…>` and `<at>`.
    """

    def text(self, words: str) -> str:
        """Return words; an e-mail's address stays one."""
        return _CALLS.sub("＜", _AT.sub(f"@{ZWSP}", words))

    def bare(self, url: str) -> str:
        """Return the address, which leads to the same place without `@name` in it."""
        return _AT.sub("%40", url)


def _behind(room: str, lines: str) -> str:
    """Return `lines`, each that is not empty behind `room`."""
    return _FIRST.sub(room, lines)


def aligned_table(rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
    """Return rows, of which the first is the head, as lines; `aligns`: "", left, right, center."""
    short = [_without_empty_end(row) for row in rows]
    widths = [0] * max(map(len, short), default=0)
    for row in short:
        for i, cell in enumerate(row):
            widths[i] = max(widths[i], min(display_width(cell), _WIDEST))
    right = {i for i, align in enumerate(aligns) if align == "right"}
    lines = [
        " | ".join(_padded(cell, widths[i], i in right) for i, cell in enumerate(row)).rstrip()
        for row in short
    ]
    return "\n".join([*lines[:1], "-+-".join("-" * wide for wide in widths), *lines[1:]])


def _without_empty_end(row: Sequence[str]) -> Sequence[str]:
    filled = next((i for i in range(len(row), 0, -1) if row[i - 1]), 0)
    return row[:filled]


def _padded(cell: str, wide: int, right: bool) -> str:
    room = " " * (wide - display_width(cell))
    return room + cell if right else cell + room
