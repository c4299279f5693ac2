"""
The front door tells the truth: settings, commands and pages that the READMEs name exist, and
README.zh-CN.md says what README.md says.

A translation changes words. It keeps headings, paragraphs, lists and tables one to one, and under
each heading the commands, `code`, link targets and numbers. Comments in code are words too; what
they quote, and ids in them, are not. Whoever edits one page is told what the other one lacks.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from wakebus.broker.settings import fields
from wakebus.plugin.cli.main import VERBS

ROOT = Path(__file__).parents[1]
NAMES = ("README.md", "README.zh-CN.md")
README, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in NAMES)
PAGES = pytest.mark.parametrize("page", [README, CHINESE], ids=NAMES)

# Quoted text stays, a comment goes. A block without a language has its words after two spaces.
COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|(?<!\S)#.*""")
LEGEND = re.compile(r"()(?<=\S)  .*")
# In a comment: what is quoted, and tokens with a mark or a digit (`om_…`, `a@b.c`, `tests/`).
FACT = re.compile(r"`[^`]+`|(?<!\w)'[^']+'|[!-~…]*[\d_@=/][!-~…]*")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SHAPES = {"tr": "table row", "fence": "code block", "bullet_list": "list", "strong": "**bold**"}
IN_ORDER = ("shape", "commands")

Facts = dict[str, list[str]]


class Section(NamedTuple):
    """A heading, and by kind what no translation may change until the next one."""

    title: str
    line: int
    level: str
    facts: Facts


def sections(page: str) -> list[Section]:
    """Return a page's sections, each with its facts in the order of the page."""
    found: list[Section] = []
    row = 0
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            line = token.map[0] + 1 if token.map else 0
            found.append(Section(tokens[at + 1].content, line, token.tag, {}))
        row = row + 1 if token.type == "tr_open" else 0 if token.type == "table_close" else row
        for kind, fact in facts_of(token, f"row {row}: " if row else ""):
            found[-1].facts.setdefault(kind, []).append(fact)
    return found


def facts(page: str, kind: str) -> list[str]:
    """Return all facts of a kind in a page."""
    return [fact for section in sections(page) for fact in section.facts.get(kind, [])]


def facts_of(token: Token, row: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, fact): a fact of a table carries its row."""
    if token.nesting >= 0 and token.type not in ("inline", "text", "code_inline", "softbreak"):
        name = token.type.removesuffix("_open")
        # Blocks keep their order, what stands in a sentence follows the language.
        yield "shape" if token.block else "marks", f"{SHAPES.get(name, name)} {token.info}".strip()
    if token.type == "fence":
        yield from block_facts(token)
    if token.type == "code_inline":
        yield "code", f"{row}`{token.content}`"
    if token.type == "link_open":
        yield "links", str(token.attrs["href"]).replace(NAMES[1], NAMES[0])
    if token.type == "text":
        yield from (("numbers", row + number) for number in NUMBER.findall(token.content))
    for child in token.children or ():
        yield from facts_of(child, row)


def block_facts(fence: Token) -> Iterator[tuple[str, str]]:
    """Yield each line without its comment, and what the comment quotes."""
    comment = COMMENT if fence.info else LEGEND
    for line in fence.content.splitlines():
        command = comment.sub(r"\1", line).rstrip()
        yield "commands", command
        for fact in FACT.findall(line.removeprefix(command)):
            yield "comments", fact.strip("(),.:;")


def differences(english: str, chinese: str) -> list[str]:
    """Return what one page says and the other does not, one line each, with both places."""
    pages = sections(english), sections(chinese)
    levels, others = ([section.level for section in page] for page in pages)
    if levels != others:
        told = f"{len(levels)} headings ({' '.join(levels)}), {len(others)} ({' '.join(others)})"
        return [f"{parting(*pages)}: {told}: the pages part here"]
    return [line for pair in zip(*pages, strict=True) for line in section_differences(*pair)]


def parting(ours: list[Section], theirs: list[Section]) -> str:
    """Return the place of the first two sections that differ, else of the last two."""
    pairs = list(zip(ours, theirs, strict=False))
    alike = (a.level == b.level and not [*section_differences(a, b)] for a, b in pairs)
    first = next((at for at, same in enumerate(alike) if not same), -1)
    return place(*pairs[first])


def section_differences(ours: Section, theirs: Section) -> Iterator[str]:
    """Yield one line for each kind of fact in which two sections differ."""
    for kind in sorted(ours.facts.keys() | theirs.facts.keys()):
        told = ours.facts.get(kind, []), theirs.facts.get(kind, [])
        counts = Counter(told[0]), Counter(told[1])
        if counts[0] != counts[1]:
            only = zip(NAMES, (counts[0] - counts[1], counts[1] - counts[0]), strict=True)
            lacking = "; ".join(f"only in {name}: {listed(more)}" for name, more in only if more)
            yield f"{place(ours, theirs)}: {kind} {lacking}"
        elif kind in IN_ORDER and told[0] != told[1]:
            yield f"{place(ours, theirs)}: {kind} in another order"


def place(ours: Section, theirs: Section) -> str:
    """Return where to look, in both pages."""
    return f'{NAMES[0]}:{ours.line} "{ours.title}", {NAMES[1]}:{theirs.line} "{theirs.title}"'


def listed(facts: Counter[str]) -> str:
    """Return facts as text."""
    return ", ".join(fact or "(an empty line)" for fact in facts.elements())


@PAGES
@pytest.mark.parametrize("name", fields())
def test_every_setting_is_named_with_its_default(name: str, page: str) -> None:
    """`name` 10, or in MiB."""
    default = fields()[name].default
    shown = re.search(rf"`{name}` (\w+(?: MiB)?)", page)
    assert shown, f"the page does not name {name}"
    text = shown[1]
    if text.endswith("MiB"):
        assert int(text.split()[0]) << 20 == default
    else:
        assert text == str(default).lower().removesuffix(".0")


@PAGES
def test_every_verb_it_shows_exists(page: str) -> None:
    """`wakebus VERB`, in a block or in a sentence."""
    shown = [*facts(page, "commands"), *facts(page, "code")]
    used = {found[1] for text in shown if (found := re.search(r"(?:^|`)wakebus (\w+)", text))}
    assert used and used <= set(VERBS)


@pytest.mark.parametrize("name", [*NAMES, "CONTRIBUTING.md"])
def test_every_path_it_names_exists(name: str) -> None:
    """`broker/core/mailbox.py`; a shape of names (`cli/<verb>.py`) is none."""
    page = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:broker|adapters|plugin|wakebus|tests|deploy)/[\w./-]*)`", page)
    assert len(paths) > 10
    assert not [path for path in paths if not (ROOT / path).exists()]


@PAGES
def test_every_document_it_links_to_exists(page: str) -> None:
    """Relative links."""
    for link in facts(page, "links"):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_chinese_page_says_the_same() -> None:
    """Whoever edited one page finds here what to do in the other."""
    found = differences(README, CHINESE)
    assert not found, "\n".join(["the READMEs differ; edit the other one too:", *found])


def test_each_page_leads_to_the_other() -> None:
    """In its first line under the title."""
    assert README.splitlines()[2] == "English | [中文](README.zh-CN.md)"
    assert CHINESE.splitlines()[2] == "[English](README.md) | 中文"


def test_chinese_paragraphs_are_one_line() -> None:
    """A line break inside one would be shown as a space between two characters."""
    for token in MarkdownIt("commonmark").enable("table").parse(CHINESE):
        breaks = [child for child in token.children or () if child.type == "softbreak"]
        assert not breaks, token.content


@pytest.mark.parametrize(
    ("chinese", "english"),
    [
        *(("智能体", "agent"), ("消息", "message"), ("端点", "endpoint"), ("规则", "rule")),
        *(("回合", "turn"), ("频道令牌", "channel"), ("事件", "event"), ("主题", "topic")),
        *(("会话", "session"), ("泳道", "lane"), ("回执", "receipt"), ("信使", "courier")),
        *(("死信", "dead letter"), ("处理结果", "outcome"), ("确认", "ack")),
    ],
)
def test_the_words_of_the_design_keep_their_english_name(chinese: str, english: str) -> None:
    """In parentheses, once, where they are first used; "消息总线" alone comes before 消息."""
    text = CHINESE.replace("**", "").replace("消息总线", "")
    assert re.findall(rf"（{english}\b", text) == [f"（{english}"]
    assert text.index(chinese) == text.index(f"{chinese}（{english}")


ENGLISH_SAMPLE = """\
# bus

See the [rules](RULES.md): **fast**.

## Send

```sh
bus send "a # b" # an email: a@b.c
bus list
```

`wait_s` 5, `tries` 3.

| status | `bus` |
|---|---|
| 0 | `sent` |
| 1 | |
"""
CHINESE_SAMPLE = """\
# bus

**快**：见[规则](RULES.md)。

## 发送

```sh
bus send "a # b" # 邮箱 a@b.c
bus list
```

`tries` 3，`wait_s` 5。

| 状态 | `bus` |
|---|---|
| 0 | `sent` |
| 1 | |
"""


def test_a_translation_has_no_differences() -> None:
    """Other words, and another order of words in a paragraph, are what it is for."""
    assert differences(ENGLISH_SAMPLE, CHINESE_SAMPLE) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("bus list", "bus list --all", "commands only in README.md: bus list --all; only in"),
        ('"a # b"', '"a # c"', 'commands only in README.md: bus send "a # c"; only in'),
        ("bus list\n", "bus list\n\n", "commands only in README.md: (an empty line)"),
        ("a@b.c", "a@b.d", "comments only in README.md: a@b.d; only in README.zh-CN.md: a@b.c"),
        ("`tries`", "`retries`", "code only in README.md: `retries`; only in README.zh-CN.md: `tr"),
        ("` 5", "` 6", "numbers only in README.md: 6; only in README.zh-CN.md: 5"),
        ("| 0 | `sent` |\n", "", "shape only in README.zh-CN.md: table row, td, td"),
        ("| 0 | `sent` |\n| 1 | |", "| 0 | |\n| 1 | `sent` |", "code only in README.md: row 3: `s"),
        ("```sh", "```", "shape only in README.md: code block; only in README.zh-CN.md: code"),
        ("`wait_s`", "- `wait_s`", "shape only in README.md: list, list_item"),
    ],
)
def test_a_forgotten_edit_is_told(old: str, new: str, told: str) -> None:
    """The section in both pages, and what only one of them has."""
    found = differences(ENGLISH_SAMPLE.replace(old, new), CHINESE_SAMPLE)
    where = 'README.md:5 "Send", README.zh-CN.md:5 "发送": '
    assert any(line.startswith(where + told) for line in found), found


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("RULES.md", "SENDING.md", '"bus": links only in README.md: SENDING.md; only in'),
        ("**fast**", "fast", '"bus": marks only in README.zh-CN.md: **bold**'),
        ("## Send", "### Send", '"发送": 2 headings (h1 h3), 2 (h1 h2): the pages part here'),
        ("## Send\n", "", '"bus": 1 headings (h1), 2 (h1 h2)'),
        ("## Send", "## New\n## Send", 'README.md:5 "New", README.zh-CN.md:5 "发送": 3 headings'),
    ],
)
def test_forgotten_links_and_headings_are_told(old: str, new: str, told: str) -> None:
    """In the words of the page."""
    assert any(
        told in line for line in differences(ENGLISH_SAMPLE.replace(old, new), CHINESE_SAMPLE)
    )


def test_another_order_of_commands_is_told() -> None:
    """What is done first matters."""
    lines = ENGLISH_SAMPLE.splitlines()
    lines[7], lines[8] = lines[8], lines[7]
    found = differences("\n".join(lines), CHINESE_SAMPLE)
    assert found == ['README.md:5 "Send", README.zh-CN.md:5 "发送": commands in another order']
