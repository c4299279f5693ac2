"""
Whether a message's text holds a pattern of `match_text`.

Rule 1: Python's own `re` may take years over `(a+)+$`, and nobody could stop it: it is not used.
The package `regex` has the same syntax, lets other threads go on and ends in time; an engine
without backtracking (google-re2) would have no wheel on some systems. Rule 2: who needs longer than
MATCH_S counts as no match and is told: a sender must not choose how long a receiver thinks. Rule 3:
it is imported where a rule asks for it.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import regex

MATCH_S: Final = 0.1  # a usual pattern takes microseconds for a text of 1 MiB
LONGEST: Final = 1_000  # characters of a pattern


class TooSlow(Exception):
    """The pattern needs too long for this text."""


def finds(patterns: tuple[str, ...], text: str) -> bool:
    """Return whether one of the patterns is somewhere in the text. Raises TooSlow."""
    try:
        return any(
            _compiled(pattern).search(text, timeout=MATCH_S, concurrent=True)
            for pattern in patterns
        )
    except (TimeoutError, MemoryError, RecursionError) as exc:
        raise TooSlow from exc


def fault_of(pattern: str) -> str:
    """Return what is wrong with a pattern, "" where it can be used."""
    import regex

    if not pattern:
        return "an empty pattern is in every text; leave the key out instead"
    if not pattern.isprintable() and any(ord(char) < 32 for char in pattern):
        hint = "in double quotes \\b is a backspace; write the pattern in single quotes"
        return f"{pattern[:40]!r} holds a control character: {hint}"
    if len(pattern) > LONGEST:
        return f"a pattern has at most {LONGEST} characters"
    try:
        _compiled(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as exc:
        return f"{pattern[:80]!r} is no pattern: {exc}"
    return ""


@lru_cache(maxsize=2_000)
def _compiled(pattern: str) -> "regex.Pattern[str]":
    import regex

    return regex.compile(pattern)
