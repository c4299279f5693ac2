"""
A text in parts, each within what the platform takes in one message.

Rule 1: pure; the same text and limit give the same parts, so that a resend after a restart sends
the same. Rule 2: nothing is lost and nothing changed: the bodies of the pieces join to the text.
Rule 3: a part is a Markdown text by itself (markdown/outline.py) and measured as it goes out: what
was closed at its end is opened again in the next. Rule 4: where it is cut stands in places.py.
Rule 5: a bounded number of parts. Rule 6: a measure may render a whole text, 1 MB/s, and more text
may measure less (a mark that is closed): it is asked few times, never about much more than a part,
and believed only for the very part that goes out. A text that is too long as it stands is not
measured at all.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from wakebus.adapters.delivery.places import Beginning, FirstPart
from wakebus.adapters.errors import Rejected
from wakebus.adapters.sanitize import is_blank

MAX_PARTS: Final = 50  # a chat that gets more is flooded, and platforms throttle long before

_ROOM: Final = 400  # a limit under this has no room for fences: they are text like any other
_FAR: Final = 4  # times the limit; so much longer a text is cut without being measured
_NEAR: Final = 256  # a part's length is found to within this part of the limit
_FULL: Final = 64  # a part that is full but for this part of the limit is not made longer
_HEAD: Final = 2  # what a part repeats of the one before takes at most this part of the limit
_SHORT_HEAD: Final = 20  # and this one where it would make too many of them

Measure = Callable[[str], int]


class Piece(NamedTuple):
    """One part: `body` is the text's own; `shown`: as it goes out."""

    body: str
    shown: str

    def __str__(self) -> str:
        """Return the part as it goes out."""
        return self.shown


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
    structured = measure("x" * _ROOM) <= limit
    for most_head in (limit // _HEAD, limit // _SHORT_HEAD):
        found = [*islice(_cut(text, measure, limit, structured, most_head), MAX_PARTS + 1)]
        if len(found) <= MAX_PARTS:
            return found
    raise _too_long(text)


def _too_long(text: str) -> Rejected:
    return Rejected(
        f"the text has {len(text)} characters and would take more than {MAX_PARTS}"
        " messages; send less, or a link to it"
    )


def _cut(
    text: str, measure: Measure, limit: int, structured: bool, most_head: int
) -> Iterator[Piece]:
    head, rest, quotes, raw = "", text, 0, text
    while len(rest) > _FAR * limit or measure(head + rest) > limit:
        part = _first(Beginning(head, rest, most_head, structured), measure, limit)
        at = _place_in(raw, quotes + len("".join(rest[: part.at].split())))
        yield Piece(raw[:at], part.shown)
        raw, head, rest, quotes = raw[at:], part.head, part.rest, part.quotes
        if head and measure(head) > limit // _HEAD:
            head = ""
    yield Piece(raw, head + rest)


def _place_in(raw: str, signs: int) -> int:
    """Return the place behind so many signs of a text, and the blanks behind them: no others go."""
    for at, char in enumerate(raw):
        if not char.isspace() and (signs := signs - 1) < 0:
            return at
    return len(raw)


def _first(beginning: Beginning, measure: Measure, limit: int) -> FirstPart:
    """Return the first part of a text that does not fit."""
    # Most texts measure what they have characters, and no more than a limit of those fits.
    head, rest, less = beginning.head, beginning.rest, 1
    longest, size = min(limit, len(rest) - 1), 0
    if longest > 0:
        part = beginning.part(longest)
        size = measure(part.shown)
        if size <= limit and 2 * part.at > limit:
            return part
    longest = _longest(rest, lambda body: measure(head + body), limit, size)
    while longest > 0:
        part = beginning.part(longest)
        if (size := measure(part.shown)) <= limit:
            return part
        # Room for what closes; and a measure that goes up and down is met by giving way.
        closing = max(len(part.shown) - len(head) - part.at, 0)
        shorter = min(longest * limit // size, longest - less, part.at + closing - less + 1)
        longest, less = (max(shorter, 1) if longest > 1 else 0), less * 2
    if head:
        return _first(beginning.without_head(), measure, limit)
    raise Rejected("the limit of one message leaves no room for a single character")


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
