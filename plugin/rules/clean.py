"""
Text from elsewhere, made harmless: for a terminal, a chat, a prompt.

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
# invisible operators, annotations and tag characters hide text.
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN: Final = (
    "\u00ad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)

_STEERING: Final = re.compile(f"{_STRING}|{_CSI}|{_OTHER_ESCAPE}|{_CONTROL}|[{_BIDI}{_HIDDEN}]")
_SGR: Final = re.compile(r"\x1b\[[0-9;:]{0,64}m\Z")
_NEWLINE: Final = re.compile(r"\r\n?")
# Emoji and Persian or Indic words need one joiner or variation selector at a time;
# a run of them carries hidden bytes.
_RUN: Final = re.compile(
    "([\u200c\u200d])[\u200c\u200d]+|([\ufe00-\ufe0f\U000e0100-\U000e01ef])"
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = re.compile(r"\s+")
RESET: Final = "\x1b[0m"


def clean(text: str) -> str:
    """Return `text` without control, escape, bidi and hiding characters; keeps \\n and \\t."""
    return _clean(text, keep_sgr=False)


def clean_terminal(text: str) -> str:
    """Return `text` cleaned, but with its colours and styles (SGR), which end where it ends."""
    text = _clean(text, keep_sgr=True)
    last = text.rfind("\x1b")
    if last < 0 or text.startswith((RESET, "\x1b[m"), last):
        return text
    body = text.rstrip("\n")
    return body + RESET + text[len(body) :]


def clean_line(text: str, limit: int = 256) -> str:
    """Return `text` cleaned, on one line, at most `limit` characters."""
    line = _SPACE.sub(" ", clean(text)).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _clean(text: str, *, keep_sgr: bool) -> str:
    text = _NEWLINE.sub("\n", text)
    text = _STEERING.sub(_keep_sgr if keep_sgr else "", text)
    text = _RUN.sub(lambda run: run[1] or run[2], text)
    return _SURROGATE.sub("\ufffd", text)


def _keep_sgr(match: re.Match[str]) -> str:
    return match[0] if _SGR.match(match[0]) else ""
