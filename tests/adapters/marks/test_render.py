"""From tokens to a dialect."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters import marks
from wakebus.adapters.marks.render import has_marks

RENDERS = (
    *(marks.telegram_html, marks.telegram_plain, marks.slack, marks.discord, marks.mattermost),
    *(marks.matrix_html, marks.wecom, marks.plain, marks.ntfy),
)
PROSE = st.text(st.sampled_from("abc 中文，。.,:;?'\"/()%\n0123é🎉"), max_size=40)


@given(PROSE.filter(lambda text: "://" not in text and not has_marks(text)))
@settings(max_examples=50, deadline=None)
def test_a_text_without_marks_stays_as_it_is(text: str) -> None:
    """ADP-11.2: its empty lines and its indentation too."""
    for render in (marks.telegram_html, marks.slack, marks.discord, marks.wecom, marks.plain):
        assert render(text) == text


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
    "text", ["", "a\n\n\n  b", "2 * 3", "https://a.b/c_d", "a - b", "#tag", "a_b"]
)
def test_texts_without_marks(text: str) -> None:
    """What says all without formatting."""
    assert not marks.has_marks(text)


@pytest.mark.parametrize(
    "text", ["*a*", "- a", "1. a", "# a", "`a`", "[a](https://b.c)", "a\n---", "\\*", "|a|\n|-|"]
)
def test_texts_with_marks(text: str) -> None:
    """What says more with it."""
    assert marks.has_marks(text)


@pytest.mark.parametrize("render", RENDERS)
def test_what_an_entity_names_is_cleaned(render: object) -> None:
    """ADP-11.3: a text cannot bring back by its name what cleaning took out of it."""
    assert callable(render)
    shown = render("*a* &#x202e;b&#x200b;c&zwj;&#xfeff;")
    assert not {"\u202e", "\ufeff", "\u200d", "\u200b"} & set(shown)


def test_a_nul_is_no_mark_of_ours() -> None:
    """What the dialects use in between never comes from a text."""
    assert marks.slack("**a** \x00\x01*b\x03") == "*a* \ufffd\ufffd∗b\ufffd"
