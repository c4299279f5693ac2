"""
A text in one dialect: the tokens of its Markdown, from the inside out.

Rule 1: pure. Rule 2: this file knows no platform; a dialect says how each mark is written.
Rule 3: no recursion: nesting is a stack. Rule 4: a text without marks stays as it is, escaped.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final, NamedTuple

from markdown_it.token import Token

from wakebus.adapters import sanitize
from wakebus.adapters.markdown.dialect import FIXED, Dialect
from wakebus.adapters.markdown.parser import parse

# Without one of these there is no mark, and nothing to parse.
_MAYBE: Final = re.compile(
    r"[*_`~\[<\\&>#|]|---|^[ \t]*(?:[-+]|\d{1,9}[.)])[ \t]|^(?: {4}|\t)", re.MULTILINE
)
_TASK: Final = re.compile(r"\[([ xX])\][ \t]+")
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,32}")
_PROSE: Final = frozenset(("paragraph_open", "paragraph_close", "inline"))
# What comes close behind one of these would belong to it.
_OPEN_END: Final = frozenset(("bullet_list", "ordered_list", "blockquote", "table"))
_BARE: Final = Dialect()
_BEGIN: Final = 4000
_WORDS: Final = frozenset(("text", "text_special", "code_inline", "bare", "fence", "code_block"))
_LINE: Final = re.compile("^", re.MULTILINE)


class Block(NamedTuple):
    """A rendered block, in the lines `first` … `end` of the text; tight: without empty lines."""

    kind: str
    rendered: str
    first: int
    end: int
    tight: bool


class OpenBlock(NamedTuple):
    """A block that is not closed yet (None: the text itself), and what is in it."""

    token: Token | None
    inner: list[Block]


def render(text: str, dialect: Dialect) -> str:
    """Return `text` in the dialect's markup."""
    tokens = parse(text) if _MAYBE.search(text) else []
    if not _marked(tokens):
        return dialect.starts(dialect.line(dialect.words(text)))
    # A message of nothing is refused, or worse; what has marks alone is shown with them.
    if not any(map(_shows, tokens)):
        return dialect.starts(dialect.line(dialect.words(text)))
    return _blocks(tokens, dialect).replace(FIXED, "")


def with_coded_tables(text: str, dialect: Dialect) -> str:
    """Return `text` with each table that is in no list or quote as a block of code of `dialect`."""
    if "|" not in text:
        return text
    lines, shown, at = text.split("\n"), list[str](), 0
    for token in parse(text):
        if token.type == "table" and token.level == 0:
            first, end = token.map or (at, at)
            shown += [*lines[at:first], _table(token, dialect)]
            at = end
    return "\n".join([*shown, *lines[at:]])


@lru_cache(maxsize=4)
def has_marks(text: str) -> bool:
    """Whether formatting `text` says more than its bare words do."""
    if not _MAYBE.search(text):
        return False
    # It is asked of the whole for each of its parts; most that have marks have one early.
    begin = text[: text.rfind("\n", 0, _BEGIN) + 1]
    return _marked(parse(begin)) or _marked(parse(text))


def _marked(tokens: Sequence[Token]) -> bool:
    """Whether there is more in them than paragraphs of words and bare addresses."""
    return any(
        token.type not in _PROSE or any(map(_is_mark, token.children or ())) for token in tokens
    )


def _is_mark(token: Token) -> bool:
    # A text with nothing else may have paths in it: `\\server\x`, a `\` at a line's end.
    if token.type == "text_special":
        return token.content not in ("\\", token.markup)
    return token.type not in ("text", "hardbreak", "bare")


def _shows(token: Token) -> bool:
    """Whether a reader sees something of a token."""
    if token.type in ("hr", "image", "link_open"):
        return True
    if token.type in _WORDS:
        info = token.info.strip() if token.type == "fence" else ""
        return _seen(token.content) or (bool(info) and not _LANGUAGE.fullmatch(info))
    cells = chain.from_iterable(token.meta.get("rows", ()))
    return any(map(_shows, chain(token.children or (), cells)))


def _seen(words: str) -> bool:
    shown = sanitize.plain(words)
    return any(char.isprintable() and not sanitize.is_blank(char) for char in shown)


def _blocks(tokens: Sequence[Token], dialect: Dialect) -> str:
    stack = [OpenBlock(None, [])]
    for at, token in enumerate(tokens):
        if token.nesting > 0:
            stack.append(OpenBlock(token, []))
        elif token.nesting < 0:
            closed = stack.pop()
            stack[-1].inner.append(_closed(closed.token or token, closed.inner, stack, dialect))
        elif token.type == "table":
            stack[-1].inner.append(_block(token, _table(token, dialect)))
        else:
            is_item = at > 1 and tokens[at - 2].type == "list_item_open"
            stack[-1].inner.append(_block(token, _leaf(token, is_item, dialect)))
    return _joined(stack[0].inner, dialect)


def _block(token: Token, rendered: str, tight: bool = True) -> Block:
    first, end = token.map or (0, 0)
    return Block(token.type.removesuffix("_open"), rendered, first, end, tight)


def _leaf(token: Token, is_item: bool, dialect: Dialect) -> str:
    """Return a block without blocks in it; `is_item`: it may begin with the box of a task."""
    if token.type == "inline":
        box = _box(token, dialect) if is_item else ""
        return box + dialect.line(_spans(token.children or (), dialect))
    if token.type == "hr":
        return dialect.rule()
    words, language = token.content.removesuffix("\n"), token.info.strip()
    if language and not _LANGUAGE.fullmatch(language):  # words, on the line of the fence
        words, language = f"{language}\n{words}", ""
    return _fixed(dialect.fence(words, language), dialect)


def _fixed(block: str, dialect: Dialect) -> str:
    """Return a block of code whose lines nothing around it indents, where there is no nesting."""
    return _LINE.sub(FIXED, block) if dialect.FLAT else block


def _box(token: Token, dialect: Dialect) -> str:
    """Take a task's `[ ]` or `[x]` from its words, and return the box for it."""
    if not token.children or not (task := _TASK.match(token.children[0].content)):
        return ""
    token.children[0].content = token.children[0].content[task.end() :]
    return dialect.BOXES[task[1] != " "]


def _closed(
    token: Token, inner: Sequence[Block], around: Sequence[OpenBlock], dialect: Dialect
) -> Block:
    """Return the block that `token` opened, with all that is in it."""
    tight = all(block.tight for block in inner)
    if token.type == "paragraph_open":
        rendered = dialect.starts("".join(block.rendered for block in inner))
        shown = rendered if token.hidden else dialect.paragraph(rendered)
        return _block(token, shown, tight=token.hidden)
    return _block(token, _contained(token, inner, around, dialect), tight)


def _contained(
    token: Token, inner: Sequence[Block], around: Sequence[OpenBlock], dialect: Dialect
) -> str:
    if token.type == "heading_open":
        return dialect.heading("".join(block.rendered for block in inner), int(token.tag[1:]))
    if token.type == "blockquote_open":
        quotes = sum(1 for block in around if block.token and block.token.tag == "blockquote")
        return dialect.quote(_joined(inner, dialect), quotes + 1)
    if token.type == "list_item_open":
        return _joined(inner, dialect)
    items = [block.rendered for block in inner]
    start = int(token.attrs.get("start", 1)) if token.tag == "ol" else None
    return dialect.items(items, start, all(block.tight for block in inner))


def _joined(blocks: Sequence[Block], dialect: Dialect) -> str:
    """Return blocks below each other, close where they stand close in the text."""
    close = [
        block.kind not in _OPEN_END and block.end == below.first
        for block, below in pairwise(blocks)
    ]
    return dialect.blocks([block.rendered for block in blocks], close)


def _table(token: Token, dialect: Dialect) -> str:
    """Return a table; in a block of code its cells are bare words."""
    cells = _BARE if dialect.CODED_TABLES else dialect
    rows = [
        [cells.line(_spans(cell.children or (), cells)).replace("\n", " ") for cell in row]
        for row in token.meta["rows"]
    ]
    table = dialect.table(rows, token.meta["aligns"])
    return _fixed(table, dialect) if dialect.CODED_TABLES else table


def _spans(tokens: Sequence[Token], dialect: Dialect) -> str:
    """Return the parts of a line, marks within marks."""
    stack: list[list[str]] = [[]]
    opened: list[Token] = []
    for token in _merged(tokens):
        if token.nesting > 0:
            opened.append(token)
            stack.append([])
        elif token.nesting < 0:
            inner = "".join(stack.pop())
            stack[-1].append(_span(opened.pop(), inner, dialect))
        else:
            in_link = any(outer.type == "link_open" for outer in opened)
            stack[-1].append(_piece(token, in_link, dialect))
    return "".join(stack[0])


def _span(token: Token, inner: str, dialect: Dialect) -> str:
    """Return a link or emphasis around what is in it."""
    if token.type == "link_open":
        return _link(token, inner, dialect)
    return dialect.mark(token.type.removesuffix("_open"), inner, token.markup)


def _piece(token: Token, in_link: bool, dialect: Dialect) -> str:
    """Return a part without parts in it."""
    if token.type == "text":
        return dialect.text(token.content)
    if token.type == "code_inline":
        return dialect.code(token.content)
    if token.type == "bare":
        return dialect.bare(token.content)
    if token.type == "image":
        words = dialect.text(token.content)
        if in_link:
            return words
        return _link(token, words, dialect)
    return dialect.NEWLINE


def _link(token: Token, rendered: str, dialect: Dialect) -> str:
    """Return a link, an address in <> as it is, an image as a link to it; a title behind it."""
    url, title = str(token.attrs["href"]), str(token.attrs.get("title") or "")
    if token.info == "auto":
        return dialect.bare(url) if _is_address(url) else rendered
    link = dialect.link(rendered, url)
    return f"{link} ({dialect.text(title)})" if title else link


def _is_address(url: str) -> bool:
    return not url.lower().startswith("mailto:")


def _merged(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens, words that touch as one: what they say together may be a mention."""
    words: list[str] = []
    for token in tokens:
        if token.type in ("text", "text_special"):
            # An entity may name what cleaning takes out.
            special = token.info == "entity"
            words.append(sanitize.plain(token.content) if special else token.content)
            continue
        if words:
            yield Token("text", "", 0, content="".join(words))
            words.clear()
        yield token
    if words:
        yield Token("text", "", 0, content="".join(words))
