"""
Where the marks of a paragraph begin and end: what a cut in it would break.

Rule 1: pure; one pass of the parser's own rules, so that what is a mark here is one when it is
rendered. Rule 2: a span has an inside where it may be closed and opened again (emphasis, code, the
words of a link); an address, an entity, an escape and an image have none.
"""

import re
from typing import Final, NamedTuple

from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from wakebus.adapters.markdown.parser import reader

_WIDTHS: Final = {"em": 1, "strong": 2, "s": 2}
_KEPT: Final = frozenset(("text_special", "image", "bare"))
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}\Z")
_TAG: Final = re.compile(r"<[@#!/:A-Za-z][^<>\n]{0,200}>")  # a mention, an address, HTML as text


class Span(NamedTuple):
    """`start` … `end`, its inside `inner` … `close`; no inside: both are `end`. code or link: 2."""

    start: int
    inner: int
    close: int
    end: int
    level: int = 1


def spans(source: str) -> list[Span]:
    """Return the spans of a paragraph's text, as they begin."""
    md = reader()
    state = StateInline(source, md, {}, [])
    found, places = list[Span](), dict[int, int]()
    while state.pos < len(source):
        at, known, marks = state.pos, len(state.tokens), len(state.delimiters)
        if not any(rule(state, False) for rule in md.inline.ruler.getRules("")):
            state.append_pending(source[at])
            state.pos = at + 1
            continue
        new = state.tokens[known:]
        if len(state.delimiters) > marks:
            place = state.pos
            for token in reversed(new[-(state.pos - at) :]):
                place -= len(token.content)
                places[id(token)] = place
        elif span := _span(source, at, state.pos, new):
            found.append(span)
    for after in md.inline.ruler2.getRules(""):
        after(state)
    found += _emphases(state.tokens, places)
    found += [Span(tag.start(), *(tag.end(),) * 3) for tag in _TAG.finditer(source)]
    return sorted(found)


def _span(source: str, at: int, end: int, new: list[Token]) -> Span | None:
    """Return the span that one rule has read; None for words."""
    kinds = {token.type for token in new}
    if "code_inline" in kinds:
        ticks = len(next(token.markup for token in new if token.type == "code_inline"))
        return Span(at, at + ticks, end - ticks, end, 2)
    if "link_open" in kinds and source[at] == "[":
        close = source.rfind("](", at, end)
        return Span(at, at + 1, close, end, 2)
    if source.startswith("://", at):
        scheme = _SCHEME.search(source[max(at - 21, 0) : at])
        return Span(at - len(scheme[0] if scheme else ""), end, end, end)
    if "link_open" in kinds or kinds & _KEPT or (source[at] == "\\" and end - at > 1):
        return Span(at, end, end, end)
    return None


def _emphases(tokens: list[Token], places: dict[int, int]) -> list[Span]:
    found, opened = list[Span](), list[tuple[str, int, int]]()
    for token in tokens:
        kind, _, side = token.type.rpartition("_")
        if kind not in _WIDTHS or id(token) not in places:
            continue
        place, width = places[id(token)], _WIDTHS[kind]
        if side == "open":
            start = place - (kind == "strong")
            opened.append((kind, start, start + width))
        elif opened and opened[-1][0] == kind:
            _, start, inner = opened.pop()
            found.append(Span(start, inner, place, place + width))
    return found
