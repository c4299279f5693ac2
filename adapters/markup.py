"""
Text as a chat may get it.

Rule 1: of control characters only newline and tab survive; escape sequences go whole, so that
`ESC[31m` leaves no `[31m`. Rule 2: no direction or invisible format character survives (a chat
must not show another order than the bytes have), except the joiners U+200C and U+200D, which
emoji and Persian are written with. Rule 3: cleaning a clean text changes nothing.
"""

import re
from typing import Final

# ECMA-48 in its 7-bit form: CSI; the strings OSC, DCS, SOS, PM, APC up to BEL or ST; others.
# An unclosed string loses only its beginning, and an 8-bit form only its first character
# (mis-decoded Windows text is full of them): removing must not swallow a line of text.
_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[\]PX^_](?:[^\x07\x1b\n]*(?:\x07|\x1b\\))?"
    r"|\x1b[ -/]*[0-~]?"
)
_NEWLINE: Final = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"
    "\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    """Return `text` without escapes, control and direction characters; any string is taken."""
    text = _INVISIBLE.sub("", _NEWLINE.sub("\n", _ESCAPE.sub("", text)))
    return _LONE_SURROGATE.sub("\ufffd", text)


def line(text: str, limit: int = 500) -> str:
    """Return `text` cleaned, on one line and cut to `limit` characters, for reasons and logs."""
    joined = " ".join(plain(text).split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"
