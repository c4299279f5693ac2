"""
Where the first part of a text ends: at the best place of those that break least.

Rule 1: pure. Rule 2: what a cut would break comes first (no cut in an address, a link, a code span,
a row, a fence's line while there is another place), then what is a pause to a reader, then that the
part is well filled. Rule 3: what is longer than a part is cut all the same.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from wakebus.adapters import markdown
from wakebus.adapters.markdown import graphemes

# Chinese is written without spaces; at these a reader pauses.
_PAUSES: Final = (
    ("\n\n",),
    ("\n",),
    ("。", "！", "？", "；", "，", "、", " ", "\t"),
)
_TRIES: Final = 200  # places of one kind; who breaks them all gets the next kind
_BEYOND: Final = 4096  # characters behind the cut in which the end of a paragraph is looked for
_CLEAN: Final = 0
_IN_EMPHASIS: Final = 1
_IN_CODE_OR_LINK: Final = 2


class FirstPart(NamedTuple):
    """
    A first part: `at` characters of the text's own, as it goes out; and how the rest begins.

    quotes: so many `>` of the text's own stand in the head.
    """

    at: int
    shown: str
    head: str
    rest: str
    quotes: int = 0


class Beginning:
    """A text that begins with `head`, which was in a part before; blocks where `structured`."""

    def __init__(self, head: str, rest: str, most_head: int, structured: bool) -> None:
        self.head, self.rest = head, rest
        self._text, self._own = head + rest, len(head)
        self._most, self._structured = most_head, structured
        self._outline = markdown.outline_of("")
        self._upto = 0

    def part(self, longest: int) -> FirstPart:
        """Return the best first part with up to `longest` characters of the text's own, from 1."""
        end = self._own + longest
        if self._structured and end > self._upto:
            self._read(end)
        place = self._place(end)
        before, at = self._text[:place], place - self._own
        if not self._structured:
            return FirstPart(at, before, "", self._text[place:])
        cut = self._outline.cut(self._text, place, self._most)
        shown = (before.rstrip() if cut.trimmed else before) + cut.tail
        return FirstPart(at, shown, cut.head, cut.rest, cut.quotes)

    def without_head(self) -> "Beginning":
        """Return the same text without what was in a part before."""
        return Beginning("", self.rest, self._most, self._structured)

    def _read(self, upto: int) -> None:
        behind = self._text.find("\n\n", upto, upto + _BEYOND)
        self._upto = upto
        self._outline = markdown.outline_of(
            self._text[: behind + 2] if behind > 0 else self._text[: upto + _BEYOND]
        )

    def _place(self, end: int) -> int:
        """Return where to cut, behind `own` and at `end` at most."""
        half = self._own + (end - self._own) // 2
        if self._structured and (start := self._outline.begins(half, end)):
            return start
        place = self._best(half, end)
        third = self._own + (end - self._own) // 3
        return (self._structured and self._outline.begins(third, place, lines=1)) or place

    def _best(self, half: int, end: int) -> int:
        for low, high, most in (
            (half, end, _IN_EMPHASIS),
            (self._own, half, _IN_EMPHASIS),
            (self._own, end, _IN_CODE_OR_LINK),
        ):
            place = self._pause(low, high, most) or self._between(low, high, most)
            if place:
                return place
        return max(graphemes.boundary(self._text, end), self._own + 1)

    def _pause(self, low: int, high: int, most: int) -> int:
        """Return the last place in low … high at which a reader pauses; 0: there is none."""
        for harm in range(most + 1):
            for marks in _PAUSES:
                for place in self._behind(marks, low, high):
                    if self._harm(place) <= harm and self._whole(place):
                        return place
        return 0

    def _behind(self, marks: Sequence[str], low: int, high: int) -> Iterator[int]:
        for _ in range(_TRIES):
            found, mark = max((self._text.rfind(mark, low, high), mark) for mark in marks)
            if found < 0:
                return
            yield found + len(mark)
            high = found + len(mark) - 1

    def _between(self, low: int, high: int, most: int) -> int:
        """Return the last place in low … high between two characters; 0: there is none."""
        for place in range(high, low, -1):
            if self._harm(place) <= most and self._whole(place):
                return place
        return 0

    def _whole(self, place: int) -> bool:
        return graphemes.boundary(self._text, place) == place

    def _harm(self, place: int) -> int:
        return self._outline.harm(place) if self._structured else _CLEAN
