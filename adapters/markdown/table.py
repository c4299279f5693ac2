"""
A table as text: columns aligned by the width that a terminal or a code block gives each character.

Rule 1: pure. Rule 2: Chinese and emoji take two columns, accents none (Unicode UAX 11).
Rule 3: a wide cell does not widen its column without end: the output stays a small multiple.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

_WIDEST: Final = 40  # columns; a longer cell stands out of its column


def width(text: str) -> int:
    """Return how many columns `text` takes in a font of fixed width."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def aligned(rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
    """Return rows, of which the first is the head, as lines; `aligns`: "", left, right, center."""
    short = [_without_empty_end(row) for row in rows]
    widths = [0] * max(map(len, short), default=0)
    for row in short:
        for i, cell in enumerate(row):
            widths[i] = max(widths[i], min(width(cell), _WIDEST))
    right = {i for i, align in enumerate(aligns) if align == "right"}
    lines = [
        " | ".join(_padded(cell, widths[i], i in right) for i, cell in enumerate(row)).rstrip()
        for row in short
    ]
    return "\n".join([*lines[:1], "-+-".join("-" * wide for wide in widths), *lines[1:]])


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _without_empty_end(row: Sequence[str]) -> Sequence[str]:
    filled = next((i for i in range(len(row), 0, -1) if row[i - 1]), 0)
    return row[:filled]


def _padded(cell: str, wide: int, right: bool) -> str:
    room = " " * (wide - width(cell))
    return room + cell if right else cell + room
