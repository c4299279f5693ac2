"""From tokens to a dialect."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.markdown import in_order, texts, words
from wakebus.adapters import markdown
from wakebus.adapters.markdown.render import has_marks

RENDERS = (
    *(
        markdown.telegram_html,
        markdown.telegram_plain,
        markdown.slack,
        markdown.discord,
        markdown.mattermost,
    ),
    *(markdown.matrix_html, markdown.wecom, markdown.plain, markdown.ntfy, markdown.feishu),
)
ALIKE = str.maketrans("`~*", "ˋ∼∗")
PROSE = st.text(st.sampled_from("abc 中文，。.,:;?'\"/()%\n0123é🎉"), max_size=40)


@given(PROSE.filter(lambda text: "://" not in text and not has_marks(text)))
@settings(max_examples=50, deadline=None)
def test_a_text_without_marks_stays_as_it_is(text: str) -> None:
    """ADP-11.2: its empty lines and its indentation too."""
    for render in (
        markdown.telegram_html,
        markdown.slack,
        markdown.discord,
        markdown.wecom,
        markdown.plain,
    ):
        assert render(text).replace(":\u200b", ":") == text


@given(st.text(max_size=60))
@settings(max_examples=50, deadline=None)
def test_no_text_raises(text: str) -> None:
    """ADP-11.1: whatever it holds; and it is the same every time."""
    for render in RENDERS:
        assert render(text) == render(text)


@pytest.mark.parametrize("render", RENDERS)
def test_what_is_nested_too_deep_is_words(render: object) -> None:
    """ADP-11.2: a thousand quotes in each other lose no word."""
    assert callable(render)
    for text in (
        "> " * 1000 + "waq",
        "- " * 1000 + "waq",
        "[" * 1000 + "waq" + "](https://a.b)" * 9,
    ):
        assert "waq" in render(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a\n\n\n  b", "2 * 3", "https://a.b/c_d", "a - b", "#tag", "a_b", "a  \nb"),
        *(
            "2*3*4",
            "2*x*3",
            "a*b*c",
            "a**2 + b**2",
            "5 ** 2",
            "\\\\server\\x",
            "C:\\x\\\ny",
            "a | b",
            "| a | b |",
        ),
    ],
)
def test_texts_without_marks(text: str) -> None:
    """ADP-11.10: what says all without formatting; ADP-11.1: a product is no emphasis."""
    assert not markdown.has_marks(text)


@pytest.mark.parametrize(
    "text",
    [
        *("*a*", "- a", "1. a", "# a", "`a`", "[a](https://b.c)", "a\n---", "\\*", "|a|\n|-|"),
        *(
            "_a_",
            "1) a",
            "<https://a.b>",
            "5 `**4`",
            "第**3**章",
            "**10**x",
            "**2*3**",
        ),
    ],
)
def test_texts_with_marks(text: str) -> None:
    """ADP-11.10: what says more with it."""
    assert markdown.has_marks(text)


TABLE = "| a | **b** |\n|---|--:|\n| 中文 | 7 |"
BLOCK = "```\na    | b\n-----+--\n中文 | 7\n```"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TABLE, BLOCK),
        (f"**x** \\*\n{TABLE}\ny", f"**x** \\*\n{BLOCK}\ny"),
        (f"{TABLE}\n\n{TABLE}\n", f"{BLOCK}\n\n{BLOCK}\n"),
        (f"```\n{TABLE}\n```", f"```\n{TABLE}\n```"),
        (f"- {TABLE}", f"- {TABLE}"),
        ("a | b\n\n| c |", "a | b\n\n| c |"),
        ("|a|\n|-|\n|```|", "````\na\n---\n```\n````"),
    ],
)
def test_tables_alone(text: str, shown: str) -> None:
    """ADP-11.1: Feishu's text stays as it is, but for tables, which are blocks of code."""
    assert markdown.feishu(text) == shown


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_with_tables_alone(text: str) -> None:
    """ADP-11.2: its words survive, in order; without a table nothing changes."""
    shown = markdown.feishu(text)
    assert in_order(words(text), shown)
    assert shown == text or "|" in text


@pytest.mark.parametrize("render", RENDERS)
@pytest.mark.parametrize("text", ["```\n```", "#", "| |\n|-|", "&#x200b;", "``` ```", "&nbsp;"])
def test_marks_alone_are_shown(render: Callable[[str], str], text: str) -> None:
    """ADP-11.2: what has no words is no empty message, which platforms refuse."""
    assert render(text).strip()


@pytest.mark.parametrize("render", RENDERS)
def test_what_an_entity_names_is_cleaned(render: object) -> None:
    """ADP-11.3: a text cannot bring back by its name what cleaning took out of it."""
    assert callable(render)
    shown = render("*a* &#x202e;b&#x200b;c&zwj;&#xfeff;")
    assert not {"\u202e", "\ufeff", "\u200d", "\u200b"} & set(shown)


def test_a_nul_is_no_mark_of_ours() -> None:
    """What the dialects use in between never comes from a text."""
    assert markdown.slack("**a** \x00\x01*b\x03") == "*a* \ufffd\ufffd∗b\ufffd"


@pytest.mark.parametrize("render", RENDERS)
@pytest.mark.parametrize(
    "text", ["```\n```", "~~~~", "#", "&zwnj;", "&#8203;", "> ", "-", "||\n|-|"]
)
def test_what_shows_nothing_is_shown_as_it_is(render: Callable[[str], str], text: str) -> None:
    """ADP-11.2: a message of nothing is refused, and ntfy shows `triggered` and says ok."""
    shown = render(text).replace("&gt;", ">")
    if render is markdown.feishu and "|" in text:
        return  # it goes out as it is, but for tables
    wanted = text.translate(ALIKE) if render is markdown.slack else text
    for sign in wanted.replace("\n", "").strip():
        assert sign in shown


PYTHON = "def f():\n    return 1  # b\n\n\tg"


@pytest.mark.parametrize(
    "render", [markdown.telegram_html, markdown.telegram_plain, markdown.slack, markdown.plain]
)
@pytest.mark.parametrize("text", ["- a\n\n  {}\n- b", "1. a\n   - b\n\n     {}\n", "- {}\n"])
def test_code_in_a_list_is_the_same_code(render: Callable[[str], str], text: str) -> None:
    """ADP-11.11: where lists are not nested, nothing indents its lines."""
    room = next(line for line in text.split("\n") if "{}" in line).index("{}")
    fence = f"```\n{PYTHON}\n```".replace("\n", "\n" + " " * room)
    assert PYTHON in render(text.format(fence))


@pytest.mark.parametrize("render", [markdown.slack, markdown.plain])
def test_code_in_a_quote_keeps_its_spaces(render: Callable[[str], str]) -> None:
    """ADP-11.11: at the ends of its lines."""
    assert "> a  \n>\n> b" in render("> ```\n> a  \n>\n> b\n> ```").replace("&gt;", ">")
