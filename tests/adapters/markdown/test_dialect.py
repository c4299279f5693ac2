"""Plain text, for platforms without any markup."""

import pytest
from hypothesis import given, settings

from fakes.markdown import in_order, texts, words
from wakebus.adapters import markdown
from wakebus.adapters.markdown.dialect import aligned_table


@given(texts())
@settings(max_examples=50, deadline=None)
def test_any_text_keeps_its_words(text: str) -> None:
    """ADP-11.2: in order; and a second time changes no word."""
    shown = markdown.plain(text)
    assert in_order(words(text), shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# a\n**b** *c* ~~d~~ `e`", "a\nb c d e"),
        ("[a](https://b.c) <https://d.e> https://f.g", "a (https://b.c) https://d.e https://f.g"),
        ("[![a](https://b.c/d.png)](https://e.f)", "a (https://e.f)"),
        ("![a](https://b.c/d.png 'e')", "a (https://b.c/d.png) (e)"),
        ("- a\n\n  b\n- c", "• a\n\n  b\n\n• c"),
        ("9. a\n10. b\n    - c", "9. a\n10. b\n    • c"),
        ("Steps:\n- a\n- b\n\nThen c", "Steps:\n• a\n• b\n\nThen c"),
        ("> a\n\nb", "> a\n\nb"),
        ("```sh\n a\n```\nb", " a\nb"),
        ("```not one word\na\n```", "not one word\na"),
        ("``` all of it", "all of it\n"),
        ("|名|b|\n|-|-|\n|c|**d**|", "名 | b\n---+--\nc  | d"),
        ("    code\n\n*x*", "code\n\nx"),
        ("*a* <me@b.c>", "a me@b.c"),
    ],
)
def test_plain(text: str, shown: str) -> None:
    """ADP-11.2: what people read."""
    assert markdown.plain(text) == shown


def test_columns_stand_below_each_other() -> None:
    """ADP-11.6: also with Chinese, numbers to the right, and rows of any length."""
    rows = [["名", "n"], ["a", "10"], ["abc", "5", "more"], ["x", ""], []]
    shown = "名  |  n\n----+----+-----\na   | 10\nabc |  5 | more\nx\n"
    assert aligned_table(rows, ["", "right"]) == shown


def test_a_wide_cell_widens_nothing_without_end() -> None:
    """ADP-11.6: a thousand short rows beside a long one stay short."""
    rows = [["a", "b"], ["x" * 5000, "y"], *[["a", "b"]] * 1000]
    assert len(aligned_table(rows, [])) < 5000 + 1003 * 60


def test_no_rows() -> None:
    """Nothing makes nothing."""
    assert aligned_table([], []).strip() == ""
