"""
Markdown read: CommonMark with tables and strikethrough, as agents write it, into tokens.

Rule 1: pure. Rule 2: no word is lost: definitions of references, raw HTML, links to what is no web
address, cells beyond a table's head, and what is nested too deep stay text. Rule 3: time is linear
in the text, also for a text of brackets alone. Rule 4: a line ends where the text says so, and
keeps its indentation. Rule 5: Chinese has no spaces: `**重点：**后文` is bold.
Rule 6: `2*3*4` and `a**2 + b**2` are sums.
"""

import re
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from wakebus.adapters.markdown import literals

DEEPEST: Final = 40  # quotes and lists in each other; markdown-it recurses, and skips what is below
_HOLDING: Final = ("blockquote_open", "list_item_open")
_CELLS: Final = 100  # of a row; more are one

# A bare address, as a reader sees its end; CJK and typographic quotes are written right behind it.
# Brackets are of it in pairs, a `*` where something of it follows, or a value is before it.
_PART: Final = r"[^\s<>\"`\\|\[\]{}*\u2000-\u206f\u2e80-\uffff]"
_STAR: Final = r"\*{1,2}(?=[._~-]?[A-Za-z0-9/&=%])|(?<=[=:,('])\*(?=[)',;&])|(?<==)\*(?!\*)"
_BEHIND: Final = rf"(?:{_PART}|{_STAR}|\[{_PART}*\]|\{{{_PART}*\}})+"
URL: Final = re.compile(rf"https?://{_BEHIND}", re.IGNORECASE)
_OTHER: Final = re.compile(rf"://{_BEHIND}")
_SCHEME: Final = re.compile(r"(?<![A-Za-z0-9])[a-z][a-z0-9+.-]{1,20}\Z|https?\Z", re.IGNORECASE)
_AFTER_URL: Final = ".,;:!?~"
_WEB: Final = re.compile(r"https?://[^/?#]|mailto:[^?]", re.IGNORECASE)
_BRACKETS: Final = re.compile(r"\\.|`+|[\[\]]", re.DOTALL)
_TITLE: Final = r"(?:\s+(?:\"([^\"]*)\"|'([^']*)'))?"
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\"<>\\`|]")
_HEAD_LINE: Final = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_PIPE: Final = re.compile(r"(?<!\\)\|")
_CONTROLS: Final = re.compile(r"[\x00-\x08]")  # of which the dialects make use


def parse(text: str) -> list[Token]:
    """Return the tokens of `text`; [] where quotes and lists are nested too deep to be read."""
    return _if_shallow(reader().parse(_CONTROLS.sub("\ufffd", text)))


def blocks(text: str) -> list[Token]:
    """Return the same tokens without what is in paragraphs: their text is the content."""
    md, tokens = reader(), list[Token]()
    md.block.parse(_CONTROLS.sub("\ufffd", text), md, {}, tokens)
    return _if_shallow(tokens)


def _if_shallow(tokens: list[Token]) -> list[Token]:
    too_deep = any(token.level >= DEEPEST - 1 and token.type in _HOLDING for token in tokens)
    return [] if too_deep else tokens


def pieces(text: str) -> list[str]:
    """Return `text` cut at its bare addresses, which stand at the odd places."""
    found, end = [], 0
    for match in URL.finditer(text):
        before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
        url = _until_end(match[0], before, after)
        found += [text[end : match.start()], url]
        end = match.start() + len(url)
    return [*found, text[end:]]


def closed_fences(text: str) -> list[tuple[int, int]]:
    """Return the first line, and the one behind the last, of each block between backticks."""
    if "```" not in text:
        return []
    lines = text.split("\n")
    found = (token for token in parse(text) if token.type == "fence" and token.markup[0] == "`")
    places = ((token.markup, *(token.map or (0, 0))) for token in found)
    return [
        (first, end)
        for mark, first, end in places
        if end > first + 1 and lines[end - 1].rstrip().endswith(mark)
    ]


def destination(text: str, at: int) -> tuple[str, int] | None:
    """Return the address in the `(…)` that begins there, and where that ends; None for none."""
    tail = _tail().match(text, at)
    return (_address(tail[1] or tail[2] or ""), tail.end()) if tail else None


@cache
def _tail() -> re.Pattern[str]:
    """Return what matches a link's `(address "title")`, parentheses nested as in CommonMark: 32."""
    inside = ""
    for _ in range(32):
        inside = rf"(?:[^\s()\\]|\\.|\({inside}\))*+"
    return re.compile(rf"\(\s*(?:<([^<>\n]*)>|((?!<){inside})){_TITLE}\s*\)", re.DOTALL)


def is_web(url: str) -> bool:
    """Whether a link may lead there: http, https or mailto, and something behind it."""
    return bool(_WEB.match(url))


@cache
def reader() -> MarkdownIt:
    """Return the parser itself, shared: with the rules above."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
    parser.validateLink = is_web  # type: ignore[method-assign]
    parser.normalizeLink = _address  # type: ignore[method-assign]
    parser.enable("strikethrough")
    # Underlined titles are `---` that agents write below a text; indentation is kept (rule 4).
    parser.disable(["reference", "lheading", "newline", "text_join"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph"]})
    parser.block.ruler.enable("table")
    parser.inline.ruler.at("emphasis", _delimiters)
    parser.inline.ruler.at("link", _link)
    parser.inline.ruler.at("image", _link)
    parser.inline.ruler.after("escape", "bare", _bare)
    parser.inline.ruler.before("escape", "backslash", literals.backslash)
    return parser


def _until_end(url: str, before: str, after: str) -> str:
    """Return an address without what ends the sentence, or the emphasis, around it."""
    ends = _AFTER_URL + before * (before == "_")
    url = url.partition("*")[0] if before == "*" != after else url
    while (
        url[-1] in ends
        or (url[-1] == ")" and url.count(")") > url.count("("))
        or (url[-1] == "'" and url.count("'") % 2)
    ):
        url = url[:-1]
    return url


def _bare(state: StateInline, silent: bool) -> bool:
    """Read `https://…`: its `_` are no marks; nor are they in an address that is no link."""
    if not state.src.startswith("://", state.pos):
        return False
    if not (scheme := _SCHEME.search(state.pending[-24:])):
        return False
    if not (match := _OTHER.match(state.src, state.pos, state.posMax)):
        return False
    start = state.pos - len(scheme[0])
    before, after = state.src[max(start - 1, 0) : start], state.src[match.end() : match.end() + 1]
    url = _until_end(scheme[0] + match[0], before, after)
    if len(url) < len(scheme[0]) + 4:
        return False
    if state.linkLevel or not URL.match(url) or not is_web(url):
        state.pending += "" if silent else url[len(scheme[0]) :]
        state.pos = start + len(url)
        return True
    if not silent:
        state.pending = state.pending[: -len(scheme[0])]
        state.push("bare", "", 0).content = url
    state.pos = start + len(url)
    return True


def _push_link(state: StateInline, url: str, title: str, end: int) -> None:
    """Push a link; its words are the source's from here up to `end`."""
    state.push("link_open", "a", 1).attrs = {"href": url, "title": title}
    most, state.posMax = state.posMax, end
    state.linkLevel += 1
    state.md.inline.tokenize(state)
    state.linkLevel -= 1
    state.posMax = most
    state.push("link_close", "a", -1)


def _link(state: StateInline, silent: bool) -> bool:
    """Read `[words](url "title")` and `![words](url)`."""
    start = state.pos + (state.src[state.pos] == "!")
    if state.linkLevel and start == state.pos:
        return False
    close = _pairs(state).get(start, -1)
    tail = _tail().match(state.src, close + 1, state.posMax) if 0 < close < state.posMax else None
    if tail is None or not is_web(url := _address(tail[1] or tail[2] or "")):
        return False
    if not silent:
        title = tail[3] or tail[4] or ""
        if start > state.pos:
            image = state.push("image", "img", 0)
            image.content = state.src[start + 1 : close]
            image.attrs = {"href": url, "title": title}
        else:
            state.pos = start + 1
            _push_link(state, url, title, close)
    state.pos = tail.end()
    return True


def _address(url: str) -> str:
    """Return a link's destination without escapes, and with nothing that ends it elsewhere."""
    plain = _ESCAPED.sub(r"\1", url).replace("&amp;", "&")
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", plain)


def _pairs(state: StateInline) -> dict[int, int]:
    """Return where each `[` of this text is closed; found once, so that brackets cost no more."""
    kept: dict[str, dict[int, int]] = state.env.setdefault("pairs", {})
    if state.src not in kept:
        kept.clear()
        kept[state.src] = _brackets(state.src)
    return kept[state.src]


def _brackets(source: str) -> dict[int, int]:
    marks = list(_BRACKETS.finditer(source))
    last = {len(mark[0]): i for i, mark in enumerate(marks) if mark[0][0] == "`"}
    found: dict[int, int] = {}
    opened: list[int] = []
    ticks = 0  # of the code span that we are in
    for i, mark in enumerate(marks):
        word = mark[0]
        if word[0] == "`":
            if ticks in (0, len(word)):
                ticks = 0 if ticks else len(word) * (last[len(word)] > i)
        elif not ticks and word == "[":
            opened.append(mark.start())
        elif not ticks and word == "]" and opened:
            found[opened.pop()] = mark.start()
    return found


def _delimiters(state: StateInline, silent: bool) -> bool:
    """Read a run of `*` or `_`; beside CJK a `*` opens or closes whatever is on its other side."""
    marker = state.src[state.pos]
    if silent or marker not in "*_":
        return False
    if marker == "_" and (name := literals.dunder(state.src, state.pos)):
        state.pending += name
        state.pos += len(name)
        return True
    run = state.scanDelims(state.pos, marker == "*")
    before = state.src[state.pos - 1 : state.pos] or " "
    after = state.src[state.pos + run.length : state.pos + run.length + 1] or " "
    star = marker == "*"
    opens = run.can_open or (star and _cjk(before) and not after.isspace())
    closes = run.can_close or (star and _cjk(after) and not before.isspace())
    if star and _multiplies(before, after, run.length):
        opens = closes = False
    may_open, may_close = literals.allowed(state.src, state.pos, run.length)
    opens, closes = opens and may_open, closes and may_close
    for _ in range(run.length):
        state.push("text", "", 0).content = marker
        at = len(state.tokens) - 1
        state.delimiters.append(Delimiter(ord(marker), run.length, at, -1, opens, closes))
    state.pos += run.length
    return True


def _multiplies(before: str, after: str, length: int) -> bool:
    """Whether stars stand in a product or a power: `2*3`, `2*x`, `x**2`; `**10**x` is bold."""
    if not (before + after).isascii() or not (before.isalnum() and after.isalnum()):
        return False
    return after.isdigit() or (before.isdigit() and length == 1)


def _cjk(char: str) -> bool:
    return "\u2e80" <= char <= "\uffef"


def _table(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Read a table; every row keeps all its cells."""
    if first + 2 > last or state.is_code_block(first) or state.sCount[first + 1] < state.blkIndent:
        return False
    head, line = _line(state, first), _line(state, first + 1)
    if "|" not in head or not _HEAD_LINE.fullmatch(line):
        return False
    aligns = [_align(cell) for cell in _cells(line)]
    if len(aligns) != len(_cells(head)):
        return False
    if silent:
        return True
    state.line = end = _end_of_table(state, first, last)
    table = state.push("table", "table", 0)
    table.map = [first, end]
    rows = [_cells(_line(state, at)) for at in (first, *range(first + 2, end))]
    table.meta = {"aligns": aligns, "rows": [[_cell(state, cell) for cell in row] for row in rows]}
    return True


def _end_of_table(state: StateBlock, first: int, last: int) -> int:
    """Return the line behind a table: the first without a column."""
    at = first + 2
    while at < last and state.sCount[at] >= state.blkIndent and _PIPE.search(_line(state, at)):
        at += 1
    return at


def _cell(state: StateBlock, source: str) -> Token:
    """Return a cell's inline token, read."""
    read: list[Token] = []
    state.md.inline.parse(source, state.md, state.env, read)
    return Token("inline", "", 0, content=source, children=read)


def _line(state: StateBlock, at: int) -> str:
    return state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]].strip()


def _cells(line: str) -> list[str]:
    inner = line.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _PIPE.split(inner, _CELLS)]


def _align(cell: str) -> str:
    right = cell.endswith(":")
    return ("center" if right else "left") if cell.startswith(":") else "right" * right
