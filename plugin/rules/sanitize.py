"""
Text from elsewhere, for a terminal and for a model: adapters/sanitize.py, and colours.

Rule 1: pure. Rule 2: what may steer, reorder or hide is decided in one place, adapters/sanitize.py;
this file only says what a terminal keeps beyond that.
"""

from typing import Final

from wakebus.adapters.sanitize import line, plain

RESET: Final = "\x1b[0m"


def sanitize(text: str) -> str:
    r"""Return `text` without control, escape, bidi and hiding characters; keeps \n and \t."""
    return plain(text)


def sanitize_terminal(text: str) -> str:
    """Return `text` cleaned, but with its colours and styles (SGR), which end where it ends."""
    text = plain(text, keep_colors=True)
    last = text.rfind("\x1b")
    if last < 0 or text.startswith((RESET, "\x1b[m"), last):
        return text
    body = text.rstrip("\n")
    return body + RESET + text[len(body) :]


def sanitize_line(text: str, limit: int = 256) -> str:
    """Return `text` cleaned, on one line, at most `limit` characters."""
    return line(text, limit)
