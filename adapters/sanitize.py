"""
Text from elsewhere, made harmless: for a chat, a log, a prompt, a terminal.

Rule 1: pure. Rule 2: what is kept is text that a person sees; what steers a terminal, reorders
or hides text goes. Rule 3: nothing readable is lost: an escape sequence that never ends loses its
introducer, not the words behind it. Rule 4: cleaning twice changes nothing.
"""

import re
from typing import Final

# ECMA-48: CSI = ESC [ or 9B, parameters 30-3F, intermediates 20-2F, final 40-7E.
_CSI: Final = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
# OSC, DCS, SOS, PM, APC up to BEL or ST. No introducer inside (keeps the search linear), no
# newline and at most 4096 characters: else it is no sequence but a trap that swallows text.
_STRING: Final = (
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\n\x80-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)"
)
_OTHER_ESCAPE: Final = r"\x1b[ -/]*[0-~]?"
_CONTROL: Final = r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]"
# Bidi controls reorder what is shown (CVE-2021-42574); ZWSP, word joiner, BOM, soft hyphen,
# invisible operators, fillers, annotations, musical format and tag characters hide text.
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN: Final = (
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
# Tag characters spell words that nobody sees, but for the three flags of Unicode's own list
# (emoji-sequences.txt, RGI_Emoji_Tag_Sequence: England, Scotland, Wales).
_TAGS: Final = {
    "".join(chr(0xE0000 + ord(char)) for char in name) for name in ("eng", "sct", "wls")
}
_FLAG: Final = f"(\U0001f3f4\U000e0067\U000e0062(?:{'|'.join(sorted(_TAGS))})\U000e007f)"
_STEERING: Final = re.compile(
    f"{_FLAG}|{_STRING}|{_CSI}|{_OTHER_ESCAPE}|{_CONTROL}|[{_BIDI}{_HIDDEN}]"
)
_NEWLINE: Final = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
_SGR: Final = re.compile(r"\x1b\[[0-9;:]{0,64}m\Z")
# Emoji and Persian or Indic words are written with joiners and variation selectors: one selector,
# then one joiner, beside what they belong to. A run of them, or one in an ASCII word, hides bytes
# or breaks up a tag (`<sys\u200dtem-…>`).
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_RUN: Final = re.compile(
    f"([^{_JOINERS}{_SELECTORS}]?)([{_JOINERS}{_SELECTORS}]+)(?=(.?))", re.DOTALL
)
_KEYCAP: Final = frozenset("#*0123456789©®")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = re.compile(r"\s+")


def plain(text: str, *, keep_colors: bool = False) -> str:
    r"""
    Return `text` without control, escape, bidi and hiding characters; keeps \n and \t.

    `keep_colors`: keep SGR sequences (colours and styles) and nothing else of ECMA-48.
    """
    text = _NEWLINE.sub("\n", text)
    text = _STEERING.sub(_colors_and_flags if keep_colors else _flags_only, text)
    text = _RUN.sub(_one_of_each, text)
    return _SURROGATE.sub("\ufffd", text)


def is_blank(text: str) -> bool:
    """Whether cleaned `text` shows nothing: white space, and U+2800, Braille without dots."""
    return not text.replace("\u2800", "").strip()


def line(text: str, limit: int = 500) -> str:
    """Return `text` cleaned, on one line, at most `limit` characters."""
    joined = _SPACE.sub(" ", plain(text)).strip()
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def _flags_only(match: re.Match[str]) -> str:
    return match[1] or ""


def _colors_and_flags(match: re.Match[str]) -> str:
    return match[0] if match[1] or _SGR.match(match[0]) else ""


def _one_of_each(match: re.Match[str]) -> str:
    before, run, after = match[1], match[2], match[3]
    selector = run[0] if run[0] not in _JOINERS and _selectable(before) else ""
    joined = before > "\x7f" and after > "\x7f"
    joiner = next((char for char in run if char in _JOINERS), "") if joined else ""
    return before + selector + joiner


def _selectable(char: str) -> bool:
    return char in _KEYCAP or char >= "\u1800"
