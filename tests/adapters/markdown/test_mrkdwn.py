"""Slack's mrkdwn."""

import re

import pytest
from hypothesis import given, settings

from fakes.markdown import in_order, texts, words
from wakebus.adapters import markdown


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_mentions_nobody(text: str) -> None:
    """ADP-11.3: `<` begins nothing but a link; ADP-11.2: all words are there."""
    shown = markdown.slack(text)
    assert not re.search(r"<(?!https://1\.2)", shown)
    assert not re.search("[\x00-\x08]", shown)
    assert in_order(words(text), shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**a** *b* ~~c~~ `d<`", "*a* _b_ ~c~ `d&lt;`"),
        ("# a **b** c", "*a b c*"),
        ("- a\n  - b\n1. c", "• a\n  • b\n\n1. c"),
        ("> a\n>\n> b", "> a\n>\n> b"),
        ("```py\na < b\n```", "```\na &lt; b\n```"),
        ("````\n```\n````", "```\n``\u200b`\n```"),
        ("|a|b|\n|-|-|\n|c|*d*|", "```\na | b\n--+--\nc | d\n```"),
        ("[a](https://b.c?d=1&e=2)", "<https://b.c?d=1&amp;e=2|a>"),
        ("[a<!here>\nb](https://b.c)", "<https://b.c|a&lt;!here&gt; b>"),
        ("*see* https://b.c/d_e_f", "_see_ <https://b.c/d_e_f>"),
        ("[](https://b.c)", "<https://b.c>"),
        ("<!channel> & <@U1>", "&lt;!channel&gt; &amp; &lt;@U1&gt;"),
        ("&lt;!channel&gt; *x*", "&lt;!channel&gt; _x_"),
        ("`a`` b`", "`aˋˋ b`"),
        ("**a\nb**", "*a*\n*b*"),
    ],
)
def test_slack(text: str, shown: str) -> None:
    """ADP-11.3: what it writes for each mark; mentions are words."""
    assert markdown.slack(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("un**believ**able", "un\u200b*believ*\u200bable"),
        ("这是**重点**内容", "这是\u200b*重点*\u200b内容"),
        ("***a***", "_*a*_"),
        ("(**a**)", "(*a*)"),
    ],
)
def test_marks_stand_free(text: str, shown: str) -> None:
    """ADP-11.7: Slack takes no mark beside a letter."""
    assert markdown.slack(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\\*a\\*", "∗a∗"),
        ("*a* \\_b", "_a_ ＿b"),
        ("about ~5 to ~6", "about ∼5 to ∼6"),
        ("in ~/.config", "in ~/.config"),
        ("2 * 3 * 4 snake_case_name", "2 * 3 * 4 snake_case_name"),
        ("it`s a tick", "it`s a tick"),
        ("\\`a\\`", "ˋaˋ"),
        ("\\> a", "\u200b&gt; a"),
    ],
)
def test_literal_signs(text: str, shown: str) -> None:
    """ADP-11.7: two that could meet are shown by what looks like them; one stays as it is."""
    assert markdown.slack(text) == shown
