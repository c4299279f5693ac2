"""
What a reader sees as one character: emoji of several code points, syllables of Indic scripts.

Rule 1: pure. Rule 2: Unicode's extended grapheme clusters (UAX 29), and no cut behind a virama,
also in the scripts for which they end there (Tamil, Kannada). Rule 3: decoration without end is no
character: it is cut somewhere.
"""

import unicodedata
from functools import cache
from typing import Any, Final

LONGEST: Final = 64  # code points; a flag of a region has 7, a kiss with skin colours 10
_VIRAMA: Final = 9  # canonical combining class
_JOINER: Final = "\u200d"


def boundary(text: str, at: int) -> int:
    """Return the last place up to `at` (from 1 on) between two characters that a reader sees."""
    if not 0 < at < len(text) or (text[at].isascii() and text[at - 1].isascii()):
        return at
    place = _begin(text, at)
    while (
        place > 1
        and text[place].isalpha()
        and _is_virama(text[max(place - 4, 0) : place].rstrip(_JOINER)[-1:])
    ):
        place = _begin(text, place - 1)
    return place if place > max(at - LONGEST, 0) else at


def _begin(text: str, at: int) -> int:
    """Return where the character begins that a cut at `at` would break; `at` for none."""
    # It is begun where a character may begin; flags are pairs, counted from the first of them.
    first = max(at - 4 * LONGEST, 0)
    if _is_flag(text[at]):
        first = at
        while first and _is_flag(text[first - 1]):
            first -= 1
    ends = (found for found in _clusters().finditer(text, first, at + LONGEST) if found.end() >= at)
    found = next(ends)
    return int(found.start() if found.end() > at else at)


@cache
def _clusters() -> Any:
    import regex  # 20 ms and more, and only for texts that are cut

    return regex.compile(r"\X")


def _is_virama(char: str) -> bool:
    return char != "" and unicodedata.combining(char) == _VIRAMA


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
