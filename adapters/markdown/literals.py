r"""
What looks like marks and is none: globs, paths, LaTeX, names between underscores, products.

Rule 1: pure, linear. Rule 2: where a reader could mean either, signs stay: a lost one is damage to
a path or a formula, one that is shown is not. Rule 3: `*` opens nothing within a word or a path,
nor before a suffix (`*.py`). Rule 4: `\` stays before what is no mark here, and in paths of
Windows; before `* _ ~ # > + - ! |` and a backtick it is CommonMark's escape.
"""

import re
from typing import Final

from markdown_it.rules_inline import StateInline

_PATH: Final = r"(?:[^\s\"'<>|`*()\[\],;]|\*(?=[._A-Za-z0-9]))"
_DRIVE: Final = re.compile(r"(?:\A|[^A-Za-z0-9])[A-Za-z]:\Z")
_IN_DRIVE: Final = re.compile(rf"\\{_PATH}*")
_SERVER: Final = re.compile(rf"\\\\[A-Za-z0-9]{_PATH}*")
_BACKSLASH: Final = re.compile(
    r"\\(?=[(){}\"'$%,/:;=?@^]|__[A-Za-z0-9]|\.[\\\[*+(]|\[(?![^\[\]\\\n]*\\?\][(\[:])|\](?![(\[:]))"
    r"|\\\\(?=[\w\s]|\Z)"
)
_DUNDER: Final = re.compile(r"__([A-Za-z0-9]+(?:_[A-Za-z0-9]+)*)__(?!\w)")
_BEHIND_DUNDER: Final = re.compile(r"[/\\(\[=]|\.[A-Za-z]| = ")
_KNOWN: Final = re.compile(
    "init|main|name|all|file|doc|dict|class|call|new|del|str|repr|len|iter|next|enter|exit|bool|func"
    "|(?:get|set|del)(?:attr|item)|eq|lt|hash|slots|version|author|pycache|post_init|module|proto"
    "|typename|attribute|annotations|qualname|add|import|builtins|future"
)
_OPENERS: Final = "([{<\"'*_~-:,;|>!?&+"


def backslash(state: StateInline, silent: bool) -> bool:
    r"""Read a `\` that is no escape, a path of Windows as a whole."""
    at = state.pos
    if state.src[at] != "\\" or state.linkLevel:
        return False
    before = state.src[max(at - 1, 0) : at]
    if _DRIVE.search(state.src[max(at - 3, 0) : at]):
        found = _IN_DRIVE.match(state.src, at, state.posMax)
    elif not before.isalnum() and before != "\\":
        found = _SERVER.match(state.src, at, state.posMax)
    else:
        found = None
    if not (found := found or _BACKSLASH.match(state.src, at, state.posMax)):
        return False
    state.pending += "" if silent else found[0]
    state.pos = found.end()
    return True


def dunder(source: str, at: int) -> str:
    """Return the name between two underscores that begins there, of a file or of Python; or ""."""
    if not (found := _DUNDER.match(source, at)):
        return ""
    named = source[at - 1 : at] in (*"/\\.$@=",) or _BEHIND_DUNDER.match(source, found.end())
    return found[0] if named or _KNOWN.fullmatch(found[1]) else ""


def allowed(source: str, at: int, length: int) -> tuple[bool, bool]:
    """Return whether the run of `*` or `_` that stands there may open, and close, emphasis."""
    before, after = source[at - 1 : at] or " ", source[at + length : at + length + 1] or " "
    further = source[at + length + 1 : at + length + 2]
    suffix = after == "." and further.isalnum()
    if source[at] == "_":
        return before not in "/\\.$@=", after not in "/\\=(" and not suffix
    if length == 1:
        return _one_star(before, after, suffix)
    one_letter = not source[max(at - 2, 0) : at - 1].isalnum() or not further.isalnum()
    power = _word(before) and _word(after) and one_letter
    within = before in "/\\" and after in "/\\"
    opens = not power and not within and after + further != "/*"
    return opens, before not in "/\\" and (after not in "/\\" or before.isalnum())


def _one_star(before: str, after: str, suffix: bool) -> tuple[bool, bool]:
    free = before.isspace() or before in _OPENERS or not before.isascii()
    begins = (_word(after) or after == "_") and not before.isalnum()
    closes = before not in "/\\" and after not in "/\\" and not suffix and not begins
    return free and not suffix and after not in "/\\", closes


def _word(char: str) -> bool:
    return char.isascii() and char.isalnum()
