"""Markdown, read so that no word is lost."""

import sys
from types import FrameType

import pytest

from wakebus.adapters.markdown.parser import DEEPEST, is_web, parse, pieces


def kinds(text: str) -> list[str]:
    """Return the kinds of inline tokens of a one-line text."""
    return [child.type for token in parse(text) for child in token.children or ()]


def address(text: str) -> str:
    """Return where the only link leads."""
    (link,) = [c for t in parse(text) for c in t.children or () if c.type == "link_open"]
    return str(link.attrs["href"])


@pytest.mark.parametrize(
    "text",
    [
        "[name]: https://a.b",
        "[words][name]",
        "<b>bold</b> <module>",
        "<!-- seen -->",
        "[x](javascript:alert(1))",
        "[x](tg://user?id=1)",
        "[x](./README.md)",
        "[x](data:text/html,1)",
        "[x](mailto:?subject=y)",
        "[x](https://)",
        "![x](file:///etc/passwd)",
        "words\n-words",
        "words\n===",
    ],
)
def test_what_is_no_mark_here_is_text(text: str) -> None:
    """ADP-11.2: references, raw HTML, underlined titles, links to what is no web address."""
    assert set(kinds(text)) <= {"text", "bare"}


def test_a_line_below_words_is_a_line() -> None:
    """`---` right below a text is what agents draw, no heading."""
    assert [token.type for token in parse("words\n---")][-1] == "hr"


@pytest.mark.parametrize(
    "text", ["**重点：**后文", "这是**“重点”**的", "中文**粗体。**中文", "*是*的"]
)
def test_emphasis_beside_chinese(text: str) -> None:
    """ADP-11.1: there are no spaces in Chinese; CommonMark alone would show the asterisks."""
    assert {"strong_open", "em_open"} & set(kinds(text))


@pytest.mark.parametrize("text", ["2 * 3 * 4", "a ** b ** c", "snake_case_name", "* 中 * 文"])
def test_signs_that_are_no_marks(text: str) -> None:
    """With spaces around, or within a word."""
    assert not {"strong_open", "em_open"} & set(kinds(text))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("see https://a.b/c_d_e_f.", "https://a.b/c_d_e_f"),
        ("(https://a.b/c)", "https://a.b/c"),
        ("https://a.b/c_(d)", "https://a.b/c_(d)"),
        ("https://a.b/路径 x", "https://a.b/"),
        ("见https://a.b/c。后", "https://a.b/c"),
        ("**https://a.b**", "https://a.b"),
        ("**https://a.b/c**d", "https://a.b/c"),
        ("see https://h/?q=a*b*c", "https://h/?q=a*b*c"),
        ("see https://h/*/x*. *y*", "https://h/*/x"),
        ("HTTPS://a.b/?x=1&y=2#z, and", "HTTPS://a.b/?x=1&y=2#z"),
        ("https://a.b/über/x", "https://a.b/über/x"),
        ("“https://a.b”", "https://a.b"),
    ],
)
def test_bare_addresses(text: str, url: str) -> None:
    """ADP-11.4: as far as a reader sees them; `_` in them are no marks."""
    assert [c.content for t in parse(text) for c in t.children or () if c.type == "bare"] == [url]
    assert pieces(text)[1] == url


@pytest.mark.parametrize(
    "text", ["http://", "https:// a", "xhttp:/a", "://a", "https://...", "ftp://a"]
)
def test_no_addresses(text: str) -> None:
    """Half of one is text."""
    assert "bare" not in kinds(text)
    assert "".join(pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("[a](https://b.c)", "https://b.c"),
        ("[a]( <https://b.c/x y> 'title' )", "https://b.c/x%20y"),
        ("[a](https://b.c/(d)e)", "https://b.c/(d)e"),
        ("[a](https://b.c/\\(d)", "https://b.c/(d"),
        ("[a](https://b.c?x=1&amp;y=2&copy=3)", "https://b.c?x=1&y=2&copy=3"),
        ('[a](https://b.c/"onclick="x)', "https://b.c/%22onclick=%22x"),
        ("[a](<https://b.c/|x`>)", "https://b.c/%7Cx%60"),
        ("[a [b](https://b.c) c](https://d.e)", "https://d.e"),
        ("[`]`](https://b.c)", "https://b.c"),
        ("[a\\]](https://b.c)", "https://b.c"),
        ("[https://x.y](https://b.c)", "https://b.c"),
        ("[a](MAILTO:a@b.c)", "MAILTO:a@b.c"),
    ],
)
def test_links(text: str, url: str) -> None:
    """ADP-11.4: where they lead; nothing in an address ends it elsewhere."""
    assert address(text) == url


def test_is_web() -> None:
    """ADP-11.4: http, https, mailto; no other scheme."""
    assert all(map(is_web, ("http://a", "HTTPS://a", "mailto:a@b")))
    assert not any(
        map(is_web, ("javascript:x", "tg://user?id=1", "https://?", "//a", "", "mailto:"))
    )


def test_rows_keep_all_their_cells() -> None:
    """ADP-11.2: more cells than the head, less, escaped pipes."""
    (table,) = parse("|a|b|\n|:-|-:|\n|1|2|3|\n|4\\|5|\n| |\nwords")[:1]
    rows = [[cell.content for cell in row] for row in table.meta["rows"]]
    assert rows == [["a", "b"], ["1", "2", "3"], ["4|5"], [""]]
    assert (table.meta["aligns"], table.map) == (["left", "right"], [0, 5])


@pytest.mark.parametrize("text", ["a|b\n-", "a\n|-|", "|a|b|\n|-|\n", "a|b\n|x|\n", "a|b"])
def test_no_tables(text: str) -> None:
    """A head and a line of as many columns, or it is text."""
    assert "table" not in {token.type for token in parse(text)}


def test_what_is_nested_too_deep_is_not_read() -> None:
    """ADP-11.2: the parser would skip what is below; nothing is lost when it is not asked."""
    lists = "\n".join("  " * depth + "- x" for depth in range(1000))
    assert parse(lists) == parse("> " * DEEPEST + "x") == parse("- " * 20 + "x") == []
    assert parse("> " * (DEEPEST - 1) + "x")
    assert parse("- " * 19 + "x")


HOSTILE = (
    *(
        "[",
        "![",
        "[]",
        "*",
        "**a",
        "*a ",
        "_a ",
        "`",
        "`a``b```c",
        "<",
        "&",
        "[a](",
        "[a](<b",
        "|a",
    ),
    *(
        '[a](b "',
        "~~a",
        "\\",
        "#\n",
        "*_a",
        "a**b_c* ",
        "[*`",
        "`\n",
        "http://",
        "- ",
        ">",
        "|a|b|\n",
    ),
    *(
        "- a\n",
        "1. a\n",
        "> a\n",
        "a|b\n-|-\n",
        "中*",
        "[`](",
        "![a](https://b",
        "- [x] a\n",
        "@",
        "\t",
    ),
)


@pytest.mark.parametrize("unit", HOSTILE)
def test_work_grows_with_the_text(unit: str) -> None:
    """ADP-11.1: twice the text, about twice the steps, whatever it repeats."""
    assert steps(unit * 200) < 2.6 * steps(unit * 100) + 500


def steps(text: str) -> int:
    """Return how many functions reading `text` calls."""
    parse("warm *up*")
    count = 0

    def seen(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        parse(text)
    finally:
        sys.setprofile(before)
    return count
