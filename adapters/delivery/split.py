"""
A text in parts, each within what the platform takes in one message.

Rule 1: pure; the same text and limit give the same parts, so that a resend after a restart sends
the same. Rule 2: nothing is lost and nothing changed: the bodies of the pieces join to the text.
Rule 3: a part is measured as it goes out, with the code fence that was closed at its end and
opened again at its beginning. Rule 4: a cut is before a code block, else after a paragraph, a
line, a sentence or a space, if there is one in the last half; else between two characters that a
reader sees: never inside an emoji of several code points. Rule 5: a bounded number of parts.
Rule 6: a measure may render a whole text, 1 MB/s, and more text may measure less (a mark that is
closed): it is asked few times, never about much more than a part, and believed only for the very
part that goes out. A text that is too long as it stands is not measured at all.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from wakebus.adapters.errors import Rejected
from wakebus.adapters.sanitize import is_blank

MAX_PARTS: Final = 50  # a chat that gets more is flooded, and platforms throttle long before

# CommonMark's fenced code, its line bounded: a fence must not fill a whole part.
_FENCE: Final = re.compile(r"^ {0,3}(`{3,20}|~{3,20})([^`\n]{0,60})$(?:\n|\Z)", re.MULTILINE)
_LONGEST_FENCE: Final = 100  # more than that, so that none seems to end where we stop to look
_ROOM: Final = 400  # a limit under this has no room for fences: they are text like any other
# Chinese is written without spaces; at these a reader pauses.
_PAUSES: Final = ("。", "！", "？", "；", "，", "、", " ", "\t")
_LONGEST_CLUSTER: Final = 32  # code points; emoji have up to 10, beyond this it is decoration
_ZWJ: Final = "\u200d"
_FAR: Final = 4  # times the limit; so much longer a text is cut without being measured
_NEAR: Final = 256  # a part's length is found to within this part of the limit
_FULL: Final = 64  # a part that is full but for this part of the limit is not made longer

Measure = Callable[[str], int]


class Piece(NamedTuple):
    """One part: `body` is the text's own; `head` and `tail` are fence lines of ours."""

    body: str
    head: str = ""
    tail: str = ""

    def __str__(self) -> str:
        """Return the part as it goes out."""
        return f"{self.head}{self.body}{self.tail}"


class Fence(NamedTuple):
    """A fence line at `start` … `end` of a text; `opened`: the fence that is open behind it."""

    start: int
    end: int
    opened: str


def split(text: str, measure: Measure, limit: int, least: Measure | None = None) -> list[str]:
    """
    Return `text` in parts that each measure at most `limit`; blank ones are left out.

    least: what costs little and is never more than `measure`. Raises Rejected when more than
    MAX_PARTS would be needed, or no character fits.
    """
    if least and least(text) > MAX_PARTS * limit:
        raise _too_long(text)
    return [str(piece) for piece in pieces(text, measure, limit) if not is_blank(piece.body)]


def pieces(text: str, measure: Measure, limit: int) -> list[Piece]:
    """Return the pieces of `text`, whose bodies join to it. Raises Rejected as `split`."""
    found: list[Piece] = []
    for piece in _cut(text, measure, limit, fenced=measure("x" * _ROOM) <= limit):
        found.append(piece)
        if len(found) > MAX_PARTS:
            raise _too_long(text)
    return found


def _too_long(text: str) -> Rejected:
    return Rejected(
        f"the text has {len(text)} characters and would take more than {MAX_PARTS}"
        " messages; send less, or a link to it"
    )


def _cut(text: str, measure: Measure, limit: int, fenced: bool) -> Iterator[Piece]:
    opened = ""
    while len(text) > _FAR * limit or measure(_head(opened) + text) > limit:
        piece, opened = _first(text, opened, measure, limit, fenced)
        yield piece
        text = text[len(piece.body) :]
    yield Piece(text, _head(opened))


def _first(text: str, opened: str, measure: Measure, limit: int, fenced: bool) -> tuple[Piece, str]:
    """Return the first piece of a text that does not fit, and the fence that is open behind it."""
    head, less = _head(opened), 1
    # Most texts measure what they have characters, and no more than a limit of those fits.
    longest = min(limit, len(text) - 1)
    piece, behind = _piece(text, opened, longest, fenced)
    size = measure(str(piece)) if longest > 0 else 0
    if 0 < size <= limit and 2 * len(piece.body) > limit:
        return piece, behind
    longest = _longest(text, lambda body: measure(head + body), limit, size)
    while longest > 0:
        piece, behind = _piece(text, opened, longest, fenced)
        at = len(piece.body)
        if (size := measure(str(piece))) <= limit:
            return piece, behind
        # Room for the fence that closes; and a measure that goes up and down is met by giving way.
        shorter = min(longest * limit // size, longest - less, at + len(piece.tail) - less + 1)
        longest, less = (max(shorter, 1) if longest > 1 else 0), less * 2
    raise Rejected("the limit of one message leaves no room for a single character")


def _piece(text: str, opened: str, longest: int, fenced: bool) -> tuple[Piece, str]:
    """Return the best first piece of up to `longest` characters, and the fence open behind it."""
    fences = _fences(text, opened, longest) if fenced else []
    at = _place(text, longest, fences)
    behind = next((fence.opened for fence in reversed(fences) if fence.end <= at), opened)
    return Piece(text[:at], _head(opened), _tail(text[:at], behind)), behind


def _longest(text: str, measure: Measure, limit: int, size: int) -> int:
    """
    Return how many characters of a text that does not fit do, or nearly; 0 for none.

    size: that of the piece that `limit` characters make.
    """
    low, low_size, most = 0, measure(""), min(len(text) - 1, _FAR * limit)
    high, halve = min(limit, most), False
    high_size = size if size > limit else measure(text[:high])
    while high_size <= limit:
        if high == most:
            return most
        low, low_size, high = high, high_size, min(high * 2, most)
        high_size = measure(text[:high])
    full = limit - limit // _FULL
    while low_size < full and high - low > max(1, limit // _NEAR if low else 1):
        # In proportion, which meets a plain text at once; every other time the middle, which ends.
        share = 0.5 if halve else (limit - low_size) / max(high_size - low_size, 1)
        middle = min(max(low + int((high - low) * share), low + 1), high - 1)
        size, halve = measure(text[:middle]), not halve
        if size <= limit:
            low, low_size = middle, size
        else:
            high, high_size = middle, size
    return low


def _place(text: str, longest: int, fences: Sequence[Fence]) -> int:
    """Return where to cut, from 1 to `longest`."""
    half = longest // 2
    last = next((fence for fence in reversed(fences) if fence.end <= longest), None)
    if last and last.opened and last.start > half:
        return last.start
    at = _pause(text, half, longest) or _between(text, longest)
    for fence in fences:  # a fence line is whole, and an opening one stays with its code
        if 0 < fence.start < at and at < fence.end + bool(fence.opened):
            return fence.start
    return at


def _pause(text: str, half: int, longest: int) -> int:
    for mark in ("\n\n", "\n"):
        if (found := text.rfind(mark, half, longest)) >= 0:
            return found + len(mark)
    return max(text.rfind(mark, half, longest) for mark in _PAUSES) + 1


def _between(text: str, at: int) -> int:
    """Return the last place up to `at` between two characters that a reader sees."""
    for place in range(at, max(at - _LONGEST_CLUSTER, 0), -1):
        if not _joined(text, place):
            return place
    return at


def _joined(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if _ZWJ in (before, after) or "\U0001f3fb" <= after <= "\U0001f3ff":  # joiner, skin colour
        return True
    if _regional(after):  # flags are pairs
        run = next((i for i in range(at) if not _regional(text[at - 1 - i])), at)
        return run % 2 == 1
    return unicodedata.category(after) in ("Mn", "Mc", "Me")


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _fences(text: str, opened: str, upto: int) -> list[Fence]:
    """Return the fence lines that begin before `upto`; `opened`: the fence open at the start."""
    found: list[Fence] = []
    for match in _FENCE.finditer(text, 0, upto + _LONGEST_FENCE):
        if match.start() >= upto:
            break
        if not opened:
            opened = match[0].rstrip("\n")
        elif match[1].startswith(_mark(opened)) and not match[2].strip():
            opened = ""
        else:
            continue
        found.append(Fence(match.start(), match.end(), opened))
    return found


def _mark(opened: str) -> str:
    match = _FENCE.match(opened)
    return match[1] if match else ""


def _head(opened: str) -> str:
    return f"{opened}\n" if opened else ""


def _tail(body: str, opened: str) -> str:
    if not opened:
        return ""
    return _mark(opened) if body.endswith("\n") else f"\n{_mark(opened)}"
