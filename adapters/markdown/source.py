"""
A text that goes out as its own Markdown, without what the platform would obey: DingTalk, Feishu.

Rule 1: pure, linear. Rule 2: links lead to http, https and mailto, an image is a link to it, a tag
that leads anywhere is words. Rule 3: code stays as it is to the character: a block between fences
of backticks, which both know, and what stands between backticks in a line. Only a link to another
scheme is none there either: where code ends, they may see otherwise. Rule 4: what is told apart by
a sign that nobody sees (a ZWSP) stays readable. Rule 5: a second time changes nothing.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from wakebus.adapters.markdown.dialect import ZWSP
from wakebus.adapters.markdown.parser import closed_fences, destination

_WEB: Final = r"(?:https?://[^\s/?#)>]|mailto:[^\s?)>])"
_SCHEME: Final = r"[a-z][a-z0-9+.-]{1,31}:(?=[^\s:])"
# What is neither a mark nor `<` concerns nobody.
_HARMLESS: Final = re.compile(r"[^\[\]<]*\Z")
# Behind each of these stands the ZWSP: a link, a reference's address, <address>, a tag.
_OBEYED: Final = re.compile(
    rf"\](?=\()(?!\(\s{{0,9}}<?{_WEB})"
    r"|\](?=:\s*<?+(?!https?://|mailto:)[^\s:&\\]{0,40}[:&\\])"
    rf"|<(?={_SCHEME})(?!{_WEB})"
    r"|<(?=/?(?:a|img|image|video|audio|iframe|object|embed|form|input|button|svg|style|script|link"
    r"|meta|base)(?![a-z0-9]))",
    re.IGNORECASE,
)
_OBEYED_IN_CODE: Final = re.compile(
    rf"\](?=\(\s{{0,9}}<?(?!https?:|mailto:){_SCHEME})", re.IGNORECASE
)
_TICKS: Final = re.compile(r"`+")
_DOUBTFUL: Final = re.compile(r"\\`|<[a-z/!?]", re.IGNORECASE)  # what may hold a backtick, too
_SIGNS: Final = re.compile(r"[\[\]]")
_IMAGE: Final = re.compile(r"(?<!!)!+(?=\[)")
_BRACKETS: Final = str.maketrans({"[": "%5B", "]": "%5D"})
_ONE_BREAK: Final = re.compile(r"(?<!\n)\n(?!\n)")


def safe(text: str) -> str:
    """Return `text` without links to other schemes, images and tags that lead anywhere."""
    if _HARMLESS.match(text):
        return text
    return _changed(text, _prose, _code)


def with_breaks(text: str) -> str:
    """Return what `safe` does, with two spaces before a line's end, but in code."""
    return _changed(text, lambda prose: _ONE_BREAK.sub("  \n", _prose(prose)), _code)


def _changed(text: str, prose: Callable[[str], str], code: Callable[[str], str]) -> str:
    """Return `text`, its blocks of code changed by `code`, all else by `prose`."""
    lines, shown, at = text.split("\n"), list[str](), 0
    for first, end in closed_fences(text):
        if first > at:
            shown.append(prose("\n".join(lines[at:first])))
        shown.append(code("\n".join(lines[first:end])))
        at = end
    if at < len(lines):
        shown.append(prose("\n".join(lines[at:])))
    return "\n".join(shown)


def _code(words: str) -> str:
    return _OBEYED_IN_CODE.sub(f"]{ZWSP}", words)


def _prose(text: str) -> str:
    """Return words in which spans of code are left alone."""
    shown, at = list[str](), 0
    for first, end in _spans(text):
        shown += [_OBEYED.sub(rf"\g<0>{ZWSP}", text[at:first]), _code(text[first:end])]
        at = end
    return _without_images("".join([*shown, _OBEYED.sub(rf"\g<0>{ZWSP}", text[at:])]))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """
    Yield where code begins and ends: between equal runs of backticks of one line.

    In a line with one that is left over, and in those behind it up to an empty one, none is: there
    a platform may pair them otherwise, and what we took for code would be obeyed.
    """
    at, settled = 0, True
    for line in text.split("\n"):
        found = _spans_of(line) if settled or not line.strip() else None
        settled = found is not None
        yield from ((at + first, at + end) for first, end in found or ())
        at += len(line) + 1


def _spans_of(line: str) -> list[tuple[int, int]] | None:
    """Return where code begins and ends in a line, None where that is not certain."""
    if "`" not in line:
        return []
    found: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for run in _TICKS.finditer(line):
        if opened is None:
            opened = run
        elif len(run[0]) == len(opened[0]):
            found.append((opened.start(), run.end()))
            opened = None
    return None if opened or _DOUBTFUL.search(line) else found


def _without_images(text: str) -> str:
    """Return `text` with links for images; one without words shows its address."""
    if "![" not in text:
        return text
    closes, shown, at = _pairs(text), list[str](), 0
    for sign in _IMAGE.finditer(text):
        if (start := sign.end()) not in closes or start <= at:
            continue
        link, end = _link(text, start, closes[start])
        before = text[at : start - 1]
        shown += [before, ZWSP * (len(sign[0]) > 1), link]
        at = end
    return "".join([*shown, text[at:]])


def _link(text: str, start: int, close: int) -> tuple[str, int]:
    """Return what stands for an image's `!` and what is behind it, and where the text goes on."""
    if close == start + 1 and (found := destination(text, close + 1)):
        url, end = found
        return f"[{url.translate(_BRACKETS)}{text[close:end]}", end
    if close > 0 and text[close + 1 : close + 2] in ("(", "["):
        return "", start
    return f"!{ZWSP}", start


def _pairs(text: str) -> dict[int, int]:
    """Return where each `[` outside of code is closed; -1: nowhere."""
    found: dict[int, int] = {}
    opened: list[int] = []
    spans, code = _spans(text), (0, 0)
    for sign in _SIGNS.finditer(text):
        while code[1] <= sign.start() and (ahead := next(spans, None)):
            code = ahead
        if code[0] <= sign.start() < code[1]:
            continue
        if sign[0] == "[":
            opened.append(sign.start())
            found[sign.start()] = -1
        elif sign[0] == "]" and opened:
            found[opened.pop()] = sign.start()
    return found
