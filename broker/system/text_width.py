"""How wide a text is in a font of fixed width, as terminals and blocks of code show it; pure."""

import unicodedata


def display_width(text: str) -> int:
    """Return how many columns `text` takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
