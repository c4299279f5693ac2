"""Telegram's and Matrix's HTML."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings

from fakes.markdown import in_order, texts, words
from wakebus.adapters import markdown
from wakebus.adapters.delivery import split

TELEGRAM = {"b", "i", "s", "code", "pre", "blockquote", "a"}
MATRIX = {
    *("strong", "em", "del", "code", "pre", "blockquote", "a", "p", "h1", "h2", "h3", "h4", "h5"),
    *("h6", "ul", "ol", "li", "br", "hr", "table", "thead", "tbody", "tr", "th", "td"),
}
VOID = {"br", "hr"}


class Reader(HTMLParser):
    """Reads HTML strictly: tags are closed in order, attributes are known."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.opened: list[str] = []
        self.links: list[str] = []
        self.text = ""  # code left out
        self.feed(shown)
        self.close()
        assert not self.opened, "tags are closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag."""
        self.tags.add(tag)
        self.opened += [tag] * (tag not in VOID)
        for name, value in attrs:
            assert (tag, name) in {("a", "href"), ("code", "class"), ("ol", "start")}
            self.links += [value or ""] * (name == "href")

    def handle_endtag(self, tag: str) -> None:
        """Close the last one."""
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the words that a platform looks for names in."""
        self.text += "" if {"code", "pre"} & set(self.opened) else data


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_in_telegrams_tags(text: str) -> None:
    """ADP-11.5: its own tags only, closed in order; ADP-11.3: no `@name`; ADP-11.2: all words."""
    shown = markdown.telegram_html(text)
    read = Reader(shown)
    assert read.tags <= TELEGRAM
    assert not re.search(r"(?<!\w)@\w", read.text)
    assert in_order(words(text), shown)
    assert all(link.startswith("https://1.2") for link in read.links)


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_in_matrixs_tags(text: str) -> None:
    """ADP-11.5: tags of the specification, closed in order; ADP-11.2: all words."""
    shown = markdown.matrix_html(text)
    assert Reader(shown).tags <= MATRIX
    assert in_order(words(text), shown)


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_without_tags_names_nobody(text: str) -> None:
    """ADP-11.3: where Telegram looks into code, too."""
    assert not re.search(r"(?<!\w)@\w", markdown.telegram_plain(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**a** *b* ~~c~~ `d<`", "<b>a</b> <i>b</i> <s>c</s> <code>d&lt;</code>"),
        ("# a *b*\nc", "<b>a <i>b</i></b>\nc"),
        ("- a\n- b\n  1. c\n  2. d", "• a\n• b\n  1. c\n  2. d"),
        ("- [ ] a\n- [x] b", "• ☐ a\n• ☑ b"),
        ("> a\n>\n> b", "<blockquote>a\n\nb</blockquote>"),
        ("> a\n> > b **c**", "<blockquote>a\n&gt; b <b>c</b></blockquote>"),
        ("```py\na < b\n```", '<pre><code class="language-py">a &lt; b</code></pre>'),
        ("```\n<&>\n```", "<pre>&lt;&amp;&gt;</pre>"),
        ("|a|b|\n|-|-|\n|**c**|<|", "<pre>a | b\n--+--\nc | &lt;</pre>"),
        ("[a & b](https://c.d?e=1&f=2)", '<a href="https://c.d?e=1&amp;f=2">a &amp; b</a>'),
        ("![a](https://c.d/e.png)", '<a href="https://c.d/e.png">a</a>'),
        ("[](https://c.d)", '<a href="https://c.d">https://c.d</a>'),
        ("<b>a</b> & <tg-spoiler>", "&lt;b&gt;a&lt;/b&gt; &amp; &lt;tg-spoiler&gt;"),
        ("[x](tg://user?id=1)", "[x](tg://user?id=1)"),
        (
            "@alice @**bob** *@carol* a@b.c",
            "@\u200balice @\u200b<b>bob</b> <i>@\u200bcarol</i> a@b.c",
        ),
        ("*x* &#64;dave", "<i>x</i> @\u200bdave"),
        ("`@decorator`", "<code>@decorator</code>"),
        (
            "*x* https://a.b/@name",
            '<i>x</i> <a href="https://a.b/@name">https://a.b/@\u200bname</a>',
        ),
    ],
)
def test_telegram(text: str, shown: str) -> None:
    """ADP-11.3, ADP-11.5: what it writes for each mark."""
    assert markdown.telegram_html(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# a\n###### b", "<h1>a</h1><h6>b</h6>"),
        ("*a*\n  b\\\nc", "<p><em>a</em><br>&nbsp;&nbsp;b<br>c</p>"),
        ("a\n\n~~b~~", "<p>a</p><p><del>b</del></p>"),
        ("- a\n  - b", "<ul><li>a<ul><li>b</li></ul></li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("0. a", '<ol start="0"><li>a</li></ol>'),
        ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
        ("---", "<hr>"),
        (
            "|a|\n|-|\n|`b`|",
            "<table><thead><tr><th>a</th></tr></thead>"
            "<tbody><tr><td><code>b</code></td></tr></tbody></table>",
        ),
        ("|a|\n|-|", "<table><thead><tr><th>a</th></tr></thead></table>"),
    ],
)
def test_matrix(text: str, shown: str) -> None:
    """ADP-11.5: what it writes for each mark."""
    assert markdown.matrix_html(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "[Alice](https://matrix.to/#/@alice:b.c)",
        "[Alice](HTTPS://MATRIX.TO/#/@alice:b.c)",
        "*x* https://matrix.to/#/@alice:b.c",
        "<https://matrix.to/#/!room:b.c>",
        "[Alice](matrix:u/alice:b.c)",
        "[Alice](https://matrix.to/?x#/@alice:b.c)",
        "[Alice](https://matrix.to/./#/@alice:b.c)",
        "[Alice](https://matrix.to?x#/%40alice:b.c)",
        "[Alice](https://app.element.io/#/user/@alice:b.c)",
        "[Alice](https://chat.b.c/x%23/@alice:b.c)",
        "*x* https://app.element.io/#/room/!r:b.c",
    ],
)
def test_no_pills(text: str) -> None:
    """ADP-11.3: a link that a client would show as a person or a room is words."""
    read = Reader(markdown.matrix_html(text))
    assert not read.links
    assert not re.search(r"matrix\.to[/?#]|#/(?:@|user|room)", read.text, re.IGNORECASE)


def test_links_that_are_no_pills() -> None:
    """ADP-11.4: a page's own `#/…` stays a link."""
    assert Reader(markdown.matrix_html("[a](https://b.c/#/jobs/1)")).links == [
        "https://b.c/#/jobs/1"
    ]


def test_parts_of_a_text_render_each_for_itself() -> None:
    """A fence that was cut is code in every part, and the tags are closed in each."""
    code = "\n".join(f"line {at} <&>" for at in range(100))
    parts = split.split(f"**before**\n\n```py\n{code}\n```\n\nafter", len, 500)
    assert len(parts) > 2
    shown = [markdown.telegram_html(part) for part in parts]
    for html in shown:
        assert Reader(html).tags
    assert sum(html.count("&lt;&amp;&gt;") for html in shown) == 100
    assert all('<pre><code class="language-py">' in html for html in shown[1:-1])
