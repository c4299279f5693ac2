"""
A text in parts keeps its structure: each word has in its part the marks that it had in the text.

Texts are made of numbered words, so that each can be found again: lost, doubled, or in other marks.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from fakes.cards import NAMES, build, targets
from wakebus.adapters import markdown
from wakebus.adapters.delivery.adapter_calls import GuardedAdapter
from wakebus.adapters.delivery.split import pieces, split
from wakebus.adapters.errors import Rejected
from wakebus.adapters.markdown.parser import parse

WORD = re.compile(r"w\d+x|中\d+文")
Marks = frozenset[str]


# --- what stands in a text, and in which marks ------------------------------------------------


def inline(tokens: list[Token], around: Marks) -> Iterator[tuple[str, Marks]]:
    opened: list[str] = []
    for token in tokens:
        if token.nesting > 0:
            opened.append(f"{token.type} {token.attrs.get('href', '')}".strip())
        elif token.nesting < 0:
            opened.pop()
        elif token.type in ("text", "code_inline", "image", "bare", "text_special"):
            marks = around | {*opened, token.type.removesuffix("_special")}
            yield from ((word, frozenset(marks)) for word in WORD.findall(token.content))


def words_of(text: str, heads: bool = True) -> Iterator[tuple[str, Marks]]:
    """Yield each word and its marks; of lists only their code: how deep is not kept."""
    around: list[str] = []
    begun = heads
    for token in parse(text):
        marks = frozenset(filter(None, around))
        if token.type in ("fence", "code_block"):
            kind = f"{token.type} {token.info}"
            yield from ((word, marks | {kind}) for word in WORD.findall(token.content))
        elif token.type == "table":
            rows = token.meta["rows"][not begun :]
            for cell in (cell for row in rows for cell in row):
                yield from inline(cell.children or [], marks | {"table"})
        elif token.type == "inline":
            yield from inline(token.children or [], marks)
        elif token.nesting > 0:
            around.append(token.type if token.type.startswith(("quote", "block", "head")) else "")
        elif token.nesting < 0:
            around.pop()
        begun = begun or token.nesting == 0


def check(text: str, parts: list[str], heads: bool = True) -> None:
    """
    Each word stands once, in its marks; a table's head may stand before its rows once more.

    heads: whether it does: else the rows are a paragraph.
    """

    def seen(words: Iterable[tuple[str, Marks]]) -> Counter[tuple[str, Marks]]:
        return Counter((word, marks if heads else marks - {"table"}) for word, marks in words)

    found = seen(words_of(text))
    shown = seen(one for part in parts for one in words_of(part))
    again = seen(one for part in parts[1:] for one in first_head(part))
    for one in shown | found:
        good = found[one] <= shown[one] <= found[one] + again[one]
        assert good, (one, [other for other in shown if other[0] == one[0]], near(one[0], parts))


def near(word: str, parts: list[str]) -> list[str]:
    """Return what stands around a word, where a test fails."""
    return [
        part[max(part.index(word) - 200, 0) : part.index(word) + 100]
        for part in parts
        if word in part
    ]


def first_head(part: str) -> set[tuple[str, Marks]]:
    return set(words_of(part)) - set(words_of(part, heads=False))


# --- texts ------------------------------------------------------------------------------------


class Maker:
    """Draws Markdown of numbered words; `pick`: a number from 0 to the one that it is given."""

    def __init__(self, pick: Callable[[int], int]) -> None:
        self.pick, self.number = pick, 0

    def word(self) -> str:
        self.number += 1
        return f"w{self.number}x" if self.pick(5) else f"中{self.number}文"

    def words(self, most: int = 8) -> str:
        return " ".join(self.word() for _ in range(1 + self.pick(most)))

    def line(self) -> str:
        return " ".join(self.span() for _ in range(1 + self.pick(6)))

    def span(self) -> str:
        kind = self.pick(13)
        if kind < 5:
            return self.words()
        return [
            lambda: f"**{self.words(30)}**",
            lambda: f"*{self.words()}*",
            lambda: f"~~{self.words()}~~",
            lambda: f"`{self.words()}`",
            lambda: f"[{self.words()}](https://x.example/a_b?c=(d)&e={self.number})",
            lambda: f"![{self.words(2)}](https://x.example/i.png)",
            lambda: f"<https://x.example/{self.word()}>",
            lambda: f"https://x.example/{self.word()}/a_b",
            lambda: f"**{self.words(3)} `{self.words(2)}` [{self.words(2)}](https://y.example/)**",
        ][kind - 5]()

    def code(self) -> str:
        mark = ["```py", "~~~", "````"][self.pick(2)]
        lines = "\n".join("  " * self.pick(2) + self.words() for _ in range(1 + self.pick(20)))
        return f"{mark}\n{lines}\n{mark.removesuffix('py')}"

    def table(self) -> str:
        wide = 2 + self.pick(2)
        rows = [[self.span() for _ in range(wide)] for _ in range(self.pick(12))]
        head = [[self.words(1) for _ in range(wide)], ["---"] * wide]
        return "\n".join(f"| {' | '.join(row)} |" for row in head + rows)

    def block(self, deep: int) -> str:
        kind = self.pick(7 if deep < 3 else 4)
        if kind < 2:
            return "\n".join(self.line() for _ in range(1 + self.pick(3)))
        if kind == 2:
            return f"## {self.words(6)}"
        if kind == 3:
            return self.code()
        if kind == 4:
            return self.table()
        inner = self.blocks(deep + 1, 4)
        if kind == 5:
            return "\n".join(f"> {line}".rstrip() for line in inner.split("\n"))
        mark = ["- ", "1. ", "10) "][self.pick(2)]
        room = "\n" + " " * len(mark)
        items = [inner, *(self.blocks(deep + 1, 2) for _ in range(self.pick(3)))]
        return "\n".join(
            mark + item.replace("\n", room).replace(room + "\n", "\n\n") for item in items
        )

    def blocks(self, deep: int, most: int) -> str:
        return "\n\n".join(self.block(deep) for _ in range(1 + self.pick(most)))


@st.composite
def texts(draw: Callable[..., int]) -> str:
    return Maker(lambda most: draw(st.integers(0, most))).blocks(0, 6)


RENDERINGS: list[Callable[[str], str]] = [
    str, markdown.telegram_html, markdown.slack, markdown.discord, markdown.mattermost,
    markdown.matrix_html, markdown.wecom, markdown.plain, markdown.feishu, markdown.dingtalk,
]  # fmt: skip


@given(text=texts(), rendering=st.sampled_from(RENDERINGS), limit=st.integers(420, 1500))
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_b3_any_structure(text: str, rendering: Callable[[str], str], limit: int) -> None:
    """ADP-5.31: parts are within the limit, join to the text, and each word keeps its marks."""

    def measure(part: str) -> int:
        return max(len(part), len(rendering(part)))

    try:
        found = pieces(text, measure, limit)
    except Rejected:
        assert len(text) > 12 * limit
        return
    assert "".join(piece.body for piece in found) == text
    assert all(measure(str(piece)) <= limit for piece in found)
    # Where heads would make too many parts, only short ones are repeated (ADP-5.28).
    check(text, split(text, measure, limit), heads=len(text) < 20 * limit)


@pytest.mark.parametrize("name", NAMES)
def test_b3_every_platform(name: str) -> None:
    """ADP-5.31: by each platform's own measure and limit."""
    chat = GuardedAdapter(build(name), targets(name)[0])
    if chat.card.max_text > 100_000:
        pytest.skip("takes any text of the bus")
    maker, text = Maker(lambda most: Random(maker.number).randint(0, most)), ""
    while len(text) < 3 * chat.card.max_text:
        text += maker.blocks(2, 3) + "\n\n"
    parts = chat.split(text)
    assert len(parts) > 2 and all(chat.measure(part) <= chat.card.max_text for part in parts)
    check(text, parts)


# --- each kind by itself ----------------------------------------------------------------------

LINES = "".join(f"line {n} ({{}})\n" for n in range(120))


@pytest.mark.parametrize(
    ("before", "prefix", "opens"),
    [
        ("- an item\n", "  ", "```sh"),
        ("12. an item\n", "    ", "```sh"),
        ("- an item\n  - in it\n", "    ", "```sh"),
        ("- a\n    - b\n        - c\n", "            ", "  ```sh"),
        ("> a quote\n", "> ", "> ```sh"),
        ("> - an item\n", ">   ", "> ```sh"),
        ("- a quote:\n", "  > ", "> ```sh"),
        ("> > two\n", "> > ", "> > ```sh"),
        ("1. a\n   - b\n", "     > ", "> ```sh"),
    ],
)
@pytest.mark.parametrize("mark", ["```", "~~~~"])
def test_b3_code_in_a_list_or_quote(before: str, prefix: str, opens: str, mark: str) -> None:
    """ADP-5.31: it is closed once in each part, and opened again with its indent or `>`."""
    code = "".join(f"{prefix}{line}\n" for line in LINES.splitlines())
    text = f"{before}{prefix}{mark}sh\n{code}{prefix}{mark}\nbehind\n"
    parts = split(text, len, 600)
    assert len(parts) > 2
    for part in parts:
        fences = [line for line in part.split("\n") if mark in line]
        assert len(fences) == 2, part
    assert all(part.startswith(opens.replace("```", mark) + "\n") for part in parts[1:])
    found = [token for part in parts for token in parse(part) if token.type == "fence"]
    assert len(found) == len(parts) and {token.info for token in found} == {"sh"}
    assert "".join(token.content for token in found) == LINES
    assert markdown.plain(parts[-1]).endswith("behind")


@pytest.mark.parametrize("prefix", ["", "> ", "  ", "   > "])
def test_b3_a_table(prefix: str) -> None:
    """ADP-5.28: each part has the head and whole rows, in a quote or list, too."""
    before = {"  ": "- a\n\n", "   > ": "1. a\n\n"}.get(prefix, "")
    rows = [f"| row {n} | **v{n}** \\| x |" for n in range(60)]
    lines = ["| name | value |", "|:-----|------:|", *rows]
    text = before + "".join(f"{prefix}{line}\n" for line in lines) + "\nbehind\n"
    parts = split(text, len, 600)
    tables = [token for part in parts for token in parse(part) if token.type == "table"]
    assert len(tables) == sum("row" in part for part in parts) > 2
    for token in tables:
        cells = [[cell.content for cell in row] for row in token.meta["rows"]]
        assert cells[0] == ["name", "value"] and all(len(row) == 2 for row in cells)
        assert token.meta["aligns"] == ["left", "right"]
    shown = [row[0].content for token in tables for row in token.meta["rows"][1:]]
    assert shown == [f"row {n}" for n in range(60)]


def test_b3_a_row_longer_than_a_part() -> None:
    """ADP-5.28: it goes on in its column; a head that leaves no room for rows is not repeated."""
    text = "| a | b |\n|---|---|\n| x | " + "word " * 300 + "|\n| y | z |\n"
    parts = split(text, len, 500)
    assert all(part.startswith("| a | b |\n|---|---|\n|| word ") for part in parts[1:-1])
    assert all(sum(token.type == "table" for token in parse(part)) == 1 for part in parts)
    wide = f"| {'head ' * 80}| b |\n|---|---|\n" + "| x | y |\n" * 40
    assert sum("head" in part for part in split(wide, len, 500)) == 1


SPANS = [
    *("[some words](https://x.example/a_(b)?c=d)", "![alt words](https://x.example/i.png)"),
    *("<https://x.example/a?b=c>", "https://x.example/a/b?c=d&e=(f:(g))", "`some code here`"),
    *("``a ` b``", "&amp;", "&#x1f600;", "<@U0123ABC>", "<at user_id='x y'>Tom</at>", "\\*"),
    *("**some bold words**", "*some words*", "~~some words~~", "***both of them***"),
    *('[a](https://x.example "a title of words")', "**a `b c` [d e](https://x.example/)**"),
]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("glue", [" ", "，"])
def test_b3_no_cut_inside(span: str, glue: str) -> None:
    """ADP-5.29: wherever the limit falls, a link, code, emphasis or entity is in one part."""
    for before in range(400, 400 + len(span) + 3):
        text = "x" * (before - 200) + " " + "y" * 198 + glue + span + glue + "z " * 200
        parts = split(text, len, 420)
        assert sum(span in part for part in parts) == 1, (before, parts)


@pytest.mark.parametrize(
    ("opens", "closes"),
    [
        ("**", "**"), ("*", "*"), ("~~", "~~"), ("`", "`"), ("``", "``"), ("**~~", "~~**"),
        ("[", "](https://x.example/a)"), ("> **", "**"), ("- *", "*"), ("## ", ""), ("> - `", "`"),
    ],
)  # fmt: skip
def test_b3_what_is_longer_than_a_part(opens: str, closes: str) -> None:
    """ADP-5.29: it is closed and opened again: each word has in its part what it had."""
    text = opens + " ".join(f"w{n}x" for n in range(400)) + closes
    parts = split(text, len, 700)
    assert len(parts) > 2
    check(text, parts)


def test_b3_lists_go_on() -> None:
    """ADP-5.31: what stood deep in a list is an item of one in the next part, and no code."""
    lines = [f"{'    ' * (n % 4)}- w{n}x" for n in range(8, 200)]
    text = "\n".join(lines)
    parts = split(text, len, 500)
    kinds = {token.type for part in parts for token in parse(part)}
    assert "code_block" not in kinds
    items = [token for part in parts for token in parse(part) if token.type == "list_item_open"]
    assert len(items) == len(lines)
    check(text, parts)


@pytest.mark.parametrize("start", ["- ", "# ", "> ", "7. ", "+ ", "```", "| ", "--- ", "    "])
def test_b3_a_line_that_is_cut_begins_no_block(start: str) -> None:
    """ADP-5.31: words behind a cut are the words of a paragraph, whatever they look like."""
    text = "\n".join(f"w{n}x {start}" * 3 + f"w{n + 1}x" for n in range(0, 300, 2))
    for limit in (430, 440, 450):
        parts = split(text, len, limit)
        plain = [markdown.plain(part) for part in [text, *parts]]
        assert "".join("".join(plain[1:]).split()) == "".join(plain[0].split())


def test_b3_telegram_takes_100_entities() -> None:
    """ADP-12.11: Telegram drops the marks behind them without a word: the text is cut there."""
    chat = GuardedAdapter(build("telegram"), next(iter(targets("telegram"))))
    for bit in ("**a** ", "`a` ", "[a](https://x.example) ", "https://x.example ", "*a **b** c* "):
        parts = chat.split(bit * 130)
        assert len(parts) > 1
        for part in parts:
            assert markdown.telegram_entities(markdown.telegram_html(part)) <= 100
        assert "".join(parts) == bit * 130
    assert len(chat.split("word " * 130)) == 1
