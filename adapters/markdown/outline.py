"""
The blocks of a text, line by line: what a cut would break, and what goes on behind it.

Rule 1: pure; the parser that renders has read them. Rule 2: what is behind a cut is a Markdown text
by itself: a fence and emphasis are opened again, a table has its head, a quote its `>`, and what
stood in a list begins at the beginning of a line (four blanks would make code of it). Rule 3: but
for that room at a line's beginning no character changes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from markdown_it.token import Token

from wakebus.adapters.markdown.parser import blocks
from wakebus.adapters.markdown.spans import Span, spans

# How much a cut breaks.
CLEAN: Final = 0
IN_EMPHASIS: Final = 1
IN_CODE_OR_LINK: Final = 2
BROKEN: Final = 3

_LEAVES: Final = frozenset(("fence", "code_block", "table", "inline", "hr"))
_QUOTE: Final = re.compile(r" {0,3}> ?")
_MARKER: Final = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])(?:[ \t]{1,4}(?=\S)|[ \t]|\Z)")
_ROOM: Final = re.compile(r"[ \t]*")
_PIPE: Final = re.compile(r"(?<!\\)\|")
# What the rest of a line must not begin with: it would be another block there.
_STARTS: Final = re.compile(
    r"[ \t]*(?:(?:[-+*]|\d{1,9}[.)]|#{1,6})(?:\s|\Z)|>|```|~~~|\||(?:[-_*=][ \t]*){3,}$)| {4}|\t",
    re.MULTILINE,
)
# What does not end a paragraph or a table above it: an item that is none of the first, or empty.
_JOINS: Final = re.compile(r" {0,3}(?:(?!1[.)])\d{1,9}[.)]|(?:[-+*]|\d{1,9}[.)])\s*\Z|.*\|)")
_DELIMITERS: Final = re.compile(r"[ \t]*[|:-][|:\- \t]*")  # below a table's head
_LONGEST_INFO: Final = 60
_LONGEST_FENCE: Final = 20


class Box(NamedTuple):
    """A quote, or an item of a list (`width`: columns before its text), in lines first … end."""

    quote: bool
    first: int
    end: int
    width: int = 0


class Leaf(NamedTuple):
    """What has no blocks in it, and the boxes around it, from outside."""

    token: Token
    first: int
    end: int
    boxes: tuple[Box, ...]
    heading: str = ""


class Cut(NamedTuple):
    """
    `head`: what begins the rest; `rest`: as it goes on; `tail`: closes what is before.

    trimmed: blanks before the tail would keep it from closing. quotes: of the text's own `>`, so
    many stand in the head.
    """

    tail: str
    head: str
    rest: str
    trimmed: bool = False
    quotes: int = 0


class Outline:
    """The structure of the beginning of a text, `window`; places are those of the whole text."""

    def __init__(self, window: str) -> None:
        self.window = window
        self._lines = window.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)][:-1]
        self._boxes: list[Box] = []
        self._blocks: dict[int, Leaf] = {}
        self._read: dict[str, tuple[list[Span], bytearray]] = {}
        self._texts: dict[int, list[tuple[str, int]]] = {}
        for block in self._found():
            self._blocks |= dict.fromkeys(range(block.first, block.end), block)

    def _found(self) -> Iterator[Leaf]:
        around: list[Box] = []
        heading = ""
        for token in blocks(self.window):
            first, end = token.map or (0, 0)
            if token.type in ("blockquote_open", "list_item_open"):
                quote = token.type == "blockquote_open"
                width = 0 if quote else self._width(first, around)
                around.append(Box(quote, first, end, width))
                self._boxes.append(around[-1])
            elif token.type in ("blockquote_close", "list_item_close"):
                around.pop()
            elif token.type == "heading_open":
                heading = f"{token.markup} "
            elif token.type == "paragraph_open":
                heading = ""
            elif token.type in _LEAVES and token.map and len(token.markup) <= _LONGEST_FENCE:
                yield Leaf(token, first, end, tuple(around), heading * (token.type == "inline"))

    def _width(self, at: int, around: Sequence[Box]) -> int:
        found = _MARKER.match(self._inside(at, around)[1])
        text = found[0].expandtabs(4) if found else "  "
        return len(text) + (not text[-1:].isspace())

    def _inside(self, at: int, boxes: Sequence[Box]) -> tuple[str, str]:
        """Return the quotes before a line's own text, and that text."""
        kept, rest = "", self._lines[at]
        for box in boxes:
            if box.quote:
                found = _QUOTE.match(rest)
                kept, rest = kept + "> ", rest[found.end() if found else 0 :]
            elif at == box.first:
                found = _MARKER.match(rest)
                rest = rest[found.end() if found else 0 :]
            else:
                rest = _shifted(rest, box.width)[0]
        return kept, rest

    # --- where -----------------------------------------------------------------------------

    def begins(self, after: int, upto: int, lines: int = 0) -> int:
        """
        Return where, behind `after`, the code or table begins that goes on at `upto`; 0: nowhere.

        lines: of so many lines at most, behind that with which it begins; 0: of any number.
        """
        at = self._line(upto)
        block = self._blocks.get(at)
        if not block or block.token.type not in ("fence", "table"):
            return 0
        if lines and at > block.first + lines:
            return 0
        start = self._starts[block.first]
        return start if after < start < upto else 0

    def harm(self, place: int) -> int:
        """Return how much a cut at `place` breaks: CLEAN … BROKEN."""
        at = self._line(place)
        column, block = place - self._starts[at], self._blocks.get(at)
        if not column and (block is None or block.first == at):
            return CLEAN
        if block is None:
            return BROKEN
        return self._harm_in(block, at, column)

    def _harm_in(self, block: Leaf, at: int, column: int) -> int:
        kind = block.token.type
        if kind == "fence":
            ends = not column and self._is_end(block, at)
            return BROKEN if at <= block.first + (not column) or ends else CLEAN
        if kind == "table":
            if not column:
                return CLEAN if at > block.first + 2 else BROKEN
            in_row = self._spans_of(self._lines[at])[1][column] if at > block.first + 1 else BROKEN
            return max(IN_CODE_OR_LINK, in_row)
        if kind == "code_block":
            return CLEAN if not column or self._lines[at][:column].strip() else BROKEN
        if kind == "hr":
            return BROKEN
        if column:
            starts = _STARTS.match(self._lines[at], column)
        else:
            text = self._inside(at, block.boxes)[1].lstrip(" \t")
            # Rows of a table that has no head are a paragraph, and stay one.
            starts = _STARTS.match(text)
            if text.startswith("|") and not self._is_head(block, at):
                starts = None
        if starts:
            return BROKEN
        place = self._in_text(block, at, column)
        return self._spans_of(block.token.content)[1][place] if place is not None else BROKEN

    def _is_head(self, block: Leaf, at: int) -> bool:
        """Whether this line of a paragraph and the one below would be a table's head elsewhere."""
        below = self._inside(at + 1, block.boxes)[1] if at + 1 < block.end else ""
        return _DELIMITERS.fullmatch(below) is not None

    def _line(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def _is_end(self, block: Leaf, at: int) -> bool:
        """Whether nothing of a fence's code stands from this line on."""
        mark = block.token.markup
        *code, last = [self._inside(i, block.boxes)[1].strip() for i in range(at, block.end)]
        return not any(code) and last.startswith(mark) and not last.strip(mark[0])

    def _in_text(self, block: Leaf, at: int, column: int) -> int | None:
        """Return the place in a paragraph's text, None where none is."""
        if block.first not in self._texts:
            texts = block.token.content.split("\n")
            ends = accumulate((len(text) + 1 for text in texts), initial=0)
            self._texts[block.first] = list(zip(texts, ends, strict=False))
        texts_and_places = self._texts[block.first]
        if len(texts_and_places) != block.end - block.first:
            return None
        (text, place), line = texts_and_places[at - block.first], self._lines[at]
        room = line.find(text) if block.heading else len(line.rstrip()) - len(text.rstrip())
        inside = column - room if column else 0
        return place + inside if bool(column) <= inside <= len(text) else None

    def _spans_of(self, text: str) -> tuple[list[Span], bytearray]:
        """Return the spans of a paragraph or a row, and what a cut at each place would break."""
        if text not in self._read:
            found, harms = spans(text), bytearray(len(text) + 1)
            for span in found:
                for place in range(span.start + 1, span.end):
                    good = span.inner < place < span.close
                    harms[place] = max(harms[place], span.level if good else BROKEN)
            self._read[text] = found, harms
        return self._read[text]

    # --- what then -------------------------------------------------------------------------

    def cut(self, text: str, place: int, most: int) -> Cut:
        """Return what a cut of the whole `text` leaves; a table's head of `most` is repeated."""
        at = self._line(place)
        column, block = place - self._starts[at], self._blocks.get(at)
        within = block is not None and (column > 0 or block.first < at)
        inner = [box for box in self._boxes if box.first < at + bool(column) and at < box.end]
        quotes, rest, more = self._behind(text, place, inner, bool(column))
        own = 0 if column else self._lines[at][: len(self._lines[at]) - len(rest)].count(">")
        if block is None or not within:
            return Cut("", quotes, rest + more, quotes=own)
        tail, head, trimmed = self._marks(block, at, column, most)
        if block.token.type in ("inline", "table"):
            rest = rest.lstrip(" \t") if trimmed or not column else rest
        head = self._heads(block, at, column, most) + quotes + head
        return Cut(tail, head, rest + more, trimmed, own)

    def _behind(
        self, text: str, place: int, boxes: Sequence[Box], within: bool
    ) -> tuple[str, str, str]:
        """Return quotes and text of the first line behind a cut, and all further lines."""
        first, newline, more = text[place:].partition("\n")
        kept, left = "> " * sum(box.quote for box in boxes), list(boxes)
        if not within:
            kept, first, left = _moved(first, boxes)
            kept = kept or "> " * sum(box.quote for box in boxes) * bool(first.strip())
        if any(not box.quote for box in left):
            more = _outdented(more, left, first)
        return kept, first, newline + more

    def _marks(self, block: Leaf, at: int, column: int, most: int) -> tuple[str, str, bool]:
        """Return what closes at a cut, what opens again in the line behind it, and if it trims."""
        kind = block.token.type
        if kind == "fence":
            room = "".join("> " if box.quote else " " * box.width for box in block.boxes)
            return "\n" * bool(column) + room + block.token.markup, "", False
        if kind == "code_block":
            return "", "    " * bool(column), False
        source, place, before = block.token.content, None, block.heading
        if kind == "inline":
            place = self._in_text(block, at, column)
        elif kind == "table" and column:
            source, place = self._lines[at], column
            cells = _PIPE.findall(source[:column].lstrip(" \t>").removeprefix("|"))
            before = "|" * (len(cells) + 1) + " "
        if place is None:
            return "", before, False
        broken = [one for one in self._spans_of(source)[0] if one.inner < place < one.close]
        tail = "".join(source[one.close : one.end] for one in reversed(broken))
        head = "".join(source[one.start : one.inner] for one in broken)
        if len(tail) + len(head) > most:
            return "", before, False
        return tail, before + head, bool(broken)

    def _heads(self, block: Leaf, at: int, column: int, most: int) -> str:
        """Return the lines that begin a block once more: a fence, the head of a table."""
        kind, token = block.token.type, block.token
        kept, first = self._inside(block.first, block.boxes)
        if kind == "fence":
            room = _ROOM.match(first)
            info = token.info if len(token.info) <= _LONGEST_INFO else ""
            return f"{kept}{room[0] if room else ''}{token.markup}{info}\n"
        if kind == "table" and at > block.first + 1:
            below = self._inside(block.first + 1, block.boxes)[1]
            head = f"{kept}{first.strip()}\n{kept}{below.strip()}\n"
            return head if len(head) <= most else ""
        return ""


def _shifted(line: str, width: int) -> tuple[str, int]:
    """Return a line without its first `width` columns of blanks, and how many it had of them."""
    column = at = 0
    while at < len(line) and column < width and line[at] in " \t":
        column += 4 - column % 4 if line[at] == "\t" else 1
        at += 1
    return " " * max(column - width, 0) + line[at:], min(column, width)


def _moved(line: str, boxes: Sequence[Box]) -> tuple[str, str, list[Box]]:
    """Return a line's quotes, the line without the room of lists, and the boxes that go on."""
    kept, left = "", list[Box]()
    for box in boxes:
        if not line.strip():
            return kept, line, list(boxes)
        if box.quote:
            if not (found := _QUOTE.match(line)):
                break
            kept, line = kept + "> ", line[found.end() :]
            left.append(box)
            continue
        line, width = _shifted(line, box.width)
        left += [box._replace(width=width)] if width else []
        if width < box.width:
            break
    return kept, line, left


def _outdented(text: str, boxes: Sequence[Box], before: str) -> str:
    """Return lines without the room of the lists that go on in them; `before`: the line above."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if not any(not box.quote for box in boxes):
            break
        if line.strip():
            kept, rest, left = _moved(line, boxes)
            # An item behind what was in another one: a paragraph or a table would go on with it.
            joins = len(left) < len(boxes) and before.strip(" \t>") and _JOINS.match(rest)
            lines[at], boxes = f"{kept.rstrip()}\n" * bool(joins) + kept + rest, left
        before = line
    return "\n".join(lines)
