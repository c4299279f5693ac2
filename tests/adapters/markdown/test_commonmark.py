"""Discord, Mattermost, ntfy and WeCom: Markdown that goes out as Markdown."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

from fakes.markdown import in_order, texts, words
from wakebus.adapters import markdown

_WORD = re.compile(r"(?:[:.\-_@]|[^\W_])+")


def looked_up(post: str) -> set[str]:
    """Return the names that Mattermost's server looks up in a post (mention_parser_standard.go)."""
    found = set()
    tokens = MarkdownIt("commonmark").disable("emphasis").parse(post)
    texts = [c.content for t in tokens for c in t.children or () if c.type == "text"]
    for word in _WORD.findall(" ".join(texts)):
        trimmed = word.lstrip(":.-_")
        found |= {trimmed, trimmed.rstrip(".-:_"), *re.split(r"[.\-:]", trimmed)}
    return {word.rstrip(".-:_") for word in found if re.match("@.", word)}


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_at_mattermost(text: str) -> None:
    """ADP-11.3: the server finds no name in it; ADP-11.2: all words are there."""
    shown = markdown.mattermost(text)
    assert not looked_up(shown)
    assert in_order(words(text), shown)


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_at_discord_and_wecom(text: str) -> None:
    """ADP-11.3: no mention outside code, at WeCom nowhere; ADP-11.2: all words are there."""
    discord, wecom = markdown.discord(text), markdown.wecom(text)
    assert "`" in discord or not re.search(r"<[@#]|@(?:everyone|here)", discord)
    assert not re.search(r"<(?:@|/?font)", wecom)
    for shown in (discord, wecom):
        assert in_order(words(text), shown)


@given(texts())
@settings(max_examples=50, deadline=None)
def test_markdown_reads_there_as_here(text: str) -> None:
    """ADP-11.5: what ntfy gets has the same words, links and code as the text."""
    again = markdown.plain(markdown.ntfy(text))
    assert words(again) == words(markdown.plain(text))


def test_the_model_of_mattermosts_server_finds_names() -> None:
    """Else the property above would say nothing."""
    assert looked_up("@all, x. @Here: `@code` a@b.c") == {"@all", "@Here"}
    assert looked_up("https://medium.com/@alice") == {"@alice"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# a *b*\n**c** _d_ ~~e~~", "# a *b*\n**c** _d_ ~~e~~"),
        ("- a\n- [ ] b\n  1. c", "- a\n- [ ] b\n  1. c"),
        (
            "@all @channel. @here *@alice* a@b.c",
            "@\u200ball @\u200bchannel. @\u200bhere *@\u200balice* a@b.c",
        ),
        ("*x* &#64;all", "*x* @\u200ball"),
        ("`@all` and\n```\n@all\n```", "`@all` and\n```\n@all\n```"),
        ("|a|b|\n|:-|-:|\n|`c`|d\\|e|f|", "| a | b |  |\n| :-- | --: | --- |\n| `c` | d\\|e | f |"),
        ("![a](https://b.c/d.png)", "[a](https://b.c/d.png)"),
        ("\\![a](https://b.c)", "\\![a](https://b.c)"),
        ("see https://b.c/d_e_ *x*", "see https://b.c/d_e_ *x*"),
        (
            "*x* https://medium.com/@alice",
            "*x* [https://medium.com/@\u200balice](https://medium.com/@alice)",
        ),
        (
            "*x* https://a.b/&#64;all",
            "*x* [https://a.b/\\&#64;all](https://a.b/&amp;#64;all)",
        ),
        ("a\n***\nb", "a\n***\nb"),
    ],
)
def test_mattermost(text: str, shown: str) -> None:
    """ADP-11.3, ADP-11.4: what it writes for each mark, names and addresses."""
    assert markdown.mattermost(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("### a\n#### b", "### a\n**b**"),
        ("|a|\n|-|\n|b|", "```\na\n-\nb\n```"),
        ("*x* @everyone <@1> <#2> <@&3> </a:4> <t:5>", None),
        ("[a](https://b.c) [d](mailto:e@f.g)", "[a](https://b.c) d (e@f.g)"),
        ("[https://a.b](https://c.d)", "https://a.b (https://c.d)"),
        ("*x* https://a.b/@everyone", "*x* https://a.b/%40everyone"),
        ("[a](https://b.c/@here)", "[a](https://b.c/%40here)"),
        ("````\n```\n````", "```\n``\u200b`\n```"),
        ("`` a``` ``", "`` a`\u200b`\u200b` ``"),
        ("\\|\\|a\\|\\|", "\\|\\|a\\|\\|"),
        ("- [x] a", "- ☑ a"),
        ("---", "———"),
        ("> a\n>\n> b", "> a\n>\n> b"),
    ],
)
def test_discord(text: str, shown: str | None) -> None:
    """ADP-11.3, ADP-11.4: what it writes for each mark; mentions look like words."""
    if shown is None:
        shown = "*x* @\u200beveryone <\u200b@1> <\u200b#2> <\u200b@&3> <\u200b/a:4> <\u200bt:5>"
    assert markdown.discord(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## a\n**b** *c* `d`", "## a\n**b** c `d`"),
        ("- a\n- [ ] b", "• a\n• ☐ b"),
        ("*x* <@user> <font color=red>y</font>", "x ＜@user> ＜font color=red>y＜/font>"),
        ("`<@user> <T>`", "`＜@user> <T>`"),
        ("```sh\n# a `b`\n\nc\n```", "`# a ˋbˋ`\n\n`c`"),
        ("[a](https://b.c/(d))", "a (https://b.c/(d))"),
        ("*x* [a](javascript:b)", "x [a]\u200b(javascript:b)"),
        ("\\# a", "\u200b# a"),
        ("![a](https://b.c)", "[a](https://b.c)"),
        ("[](https://b.c)", "https://b.c"),
    ],
)
def test_wecom(text: str, shown: str) -> None:
    """ADP-11.3, ADP-11.7: its few marks; without an escape, signs are parted."""
    assert markdown.wecom(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see *this* https://a.b/c_d", "see *this* <https://a.b/c_d>"),
        ("![a](https://b.c/d.png)", "[a](https://b.c/d.png)"),
        ("|a|\n|-|\n|b|", "```\na\n-\nb\n```"),
        ("a\\\nb *c*", "a\\\nb *c*"),
        ("<module> &amp;lt; *x*", "\\<module> \\&lt; *x*"),
        ("C:\\dir\\_x *y*", "C:\\dir\\\\\\_x *y*"),
        ("\\# a\n\\- b *c*", "\\# a\n\\- b *c*"),
        ("2\\. a *c*", "2\\. a *c*"),
        ("`` `a ``", "`` `a ``"),
        ("````\n```\n````", "````\n```\n````"),
        ("[a\\]](https://b.c)", "[a\\]](https://b.c)"),
        ("# a \\#", "# a \\#"),
        ("[](https://b.c)", "<https://b.c>"),
        ('[a](https://b.c "hint")', "[a](https://b.c) (hint)"),
    ],
)
def test_ntfy(text: str, shown: str) -> None:
    """ADP-11.5: literal signs are escaped where they could be marks, and only there."""
    assert markdown.ntfy(text) == shown


@pytest.mark.parametrize("render", [markdown.ntfy, markdown.mattermost, markdown.discord])
@pytest.mark.parametrize(
    "text",
    ["[ok][1]\n\n[1]: javascript:x", "*a* ![x][1]\n\n[1]: dtmd:x", "[1]: https://a.b\n\n*a*"],
)
def test_a_reference_leads_nowhere(render: Callable[[str], str], text: str) -> None:
    """ADP-11.2, ADP-11.4: we read none, so the platform must not: its line would be gone."""
    found = MarkdownIt("commonmark").parse(render(text))
    inner = [token for block in found for token in block.children or ()]
    assert "[1]:" in "".join(token.content for token in inner)
    links = {str(token.attrs.get("href", "")) for token in inner} - {""}
    assert links <= {"https://a.b"} and "image" not in {token.type for token in inner}
