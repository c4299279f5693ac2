"""DingTalk's and Feishu's Markdown, which goes out as it was written."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fakes.markdown import in_order, texts, words
from wakebus.adapters import markdown

Z = "\u200b"
CODE = "```py\n![a](b) = c[0](x)\n  <img> d  \n```"
EVIL = ("dtmd://x/y", "lark://c", "file:///etc", "data:text/html,x", "javascript:alert(1)", "./x")


@pytest.mark.parametrize("url", [*EVIL, "java&#115;cript:x", "//evil.example", "JavaScript:x", ""])
def test_a_link_leads_to_the_web_only(url: str) -> None:
    """ADP-11.4: any other is words, whatever its scheme is, in a quote and a list too."""
    for before in ("", "> ", "- ", "# ", "a `b` "):
        assert markdown.safe(f"{before}[ok]({url})") == f"{before}[ok]{Z}({url})"
    assert markdown.safe(f"[ok](<{url}>)").replace(f"<{Z}", "<") == f"[ok]{Z}(<{url}>)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](https://b.c) [d](HTTP://e.f) [g](mailto:h@i.j)", None),
        ("[a]( https://b.c 'd') [a](<https://b.c>) <https://b.c>", None),
        ("a[0] [x] 1 < 2 <b> <T> a ! [b] std::x", None),
        ("[ok][1]\n\n[1]: dtmd://x", f"[ok][1]\n\n[1]{Z}: dtmd://x"),
        ("[ok][1]\n\n[1]: https://b.c\n[2]: <https://b.c>", None),
        ("<dtmd://x> <javascript:alert(1)>", f"<{Z}dtmd://x> <{Z}javascript:alert(1)>"),
        ('<a href="x">b</a> <IMG src=y>', f'<{Z}a href="x">b<{Z}/a> <{Z}IMG src=y>'),
    ],
)
def test_links(text: str, shown: str | None) -> None:
    """ADP-11.4: what leads to the web, and what leads nowhere, stays as it is."""
    assert markdown.safe(text) == (text if shown is None else shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a ![x](https://y) [z](https://w)!", "a [x](https://y) [z](https://w)!"),
        ("![a [b] c](https://y)", "[a [b] c](https://y)"),
        ("![a\nb](https://y)", "[a\nb](https://y)"),
        ("![](https://y/[z])", "[https://y/%5Bz%5D](https://y/[z])"),
        ("![a][1] ![b][]", "[a][1] [b][]"),
        ("![c]\n\n[c]: https://y", f"!{Z}[c]\n\n[c]: https://y"),
        ("![t](dtmd://x)", f"!{Z}[t]{Z}(dtmd://x)"),
        ("![a", f"!{Z}[a"),
        ("!![a](https://b)", f"!{Z}[a](https://b)"),
        ("`` ` ![a](https://b)`", "`` ` [a](https://b)`"),
        ("\\`` ![a](https://b) ``", "\\`` [a](https://b) ``"),
        ("[![a](https://b)](https://c)", "[[a](https://b)](https://c)"),
        ("a ` b\n![t](https://y)\nc ` d", "a ` b\n[t](https://y)\nc ` d"),
        ("```\n![t](https://y)", "```\n[t](https://y)"),
        ("~~~\n![t](https://y)\n~~~", "~~~\n[t](https://y)\n~~~"),
    ],
)
def test_images(text: str, shown: str) -> None:
    """ADP-11.4: a picture from elsewhere would tell its server who reads; it is a link."""
    assert markdown.safe(text) == shown


@pytest.mark.parametrize(
    "text",
    [CODE, f"a\n\n- b\n\n  {CODE.replace(chr(10), chr(10) + '  ')}\n", "`![a](b)` ``c`[0](x)``"],
)
def test_code_stays_as_it_is(text: str) -> None:
    """ADP-11.11: to the character, within lists too."""
    assert markdown.safe(text) == text


def test_code_hides_no_other_scheme() -> None:
    """ADP-11.11: where code ends, another parser may see otherwise."""
    assert markdown.safe("`[a](dtmd://x)` f[0](a: 1) f[0](std::x)") == (
        f"`[a]{Z}(dtmd://x)` f[0]{Z}(a: 1) f[0]{Z}(std::x)"
    )
    assert markdown.safe("```\n[a](dtmd://x)\n[](std::x) f[0](a: 1)\n```") == (
        f"```\n[a]{Z}(dtmd://x)\n[](std::x) f[0](a: 1)\n```"
    )


def test_line_breaks() -> None:
    """ADP-10.1: single line ends become breaks; paragraphs and code stay."""
    assert markdown.dingtalk("a\nb\n\nc") == "a  \nb\n\nc"
    assert markdown.dingtalk(f"a\nb\n{CODE}\nc\nd") == f"a  \nb\n{CODE}\nc  \nd"


@given(texts())
@settings(max_examples=100, deadline=None)
def test_any_text(text: str) -> None:
    """ADP-11.1, ADP-11.2: all words in order, and a second time nothing changes."""
    shown = markdown.safe(text)
    assert in_order(words(text), shown)
    assert markdown.safe(shown) == shown


PARTS = (
    *(
        "[a",
        "[",
        "]",
        "](",
        "(",
        ")",
        "![",
        "!!",
        "`",
        "``",
        "```",
        "\n",
        "\n\n",
        "    ",
        "- ",
        "> ",
    ),
    *("~~~", "\\", "<", ">", "<img src=x>", "<a href=x>", "<b x=", "[1]:", "[1]", " ", "|", "'t'"),
    *("\n```\n", "https://b.c", "mailto:a@b", "javascript&colon;x", "&#106;avascript:x", *EVIL),
)


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
@settings(max_examples=100, deadline=None)
def test_what_a_parser_finds(text: str) -> None:
    """ADP-11.4: CommonMark sees no image, no tag of a link, no link to another scheme."""
    parser = MarkdownIt("commonmark", {"html": True})
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    found = parser.parse(markdown.safe(text))
    for token in found:
        found.extend(token.children or ())
        assert token.type != "image"
        assert "html" not in token.type or not re.search("<(?:a|img)[ >]", token.content)
        url = str(token.attrs.get("href", ""))
        assert re.match("https?://|mailto:", url) or not re.match(r"[a-z][a-z0-9+.-]*:", url)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit", ["![", "[a](", "`", "` ", "<a", "[a]:", "!", "!!", "](", "```\n", "\\`"]
)
def test_a_hostile_text(unit: str) -> None:
    """ADP-11.1: a hundred thousand marks are read in no time worth speaking of."""
    for text in (unit * (1 << 15) + "]", "[" + unit * (1 << 15)):
        markdown.safe(text)
        markdown.quiet(text)
