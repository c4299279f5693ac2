"""Plain text, for platforms without any markup."""

import pytest
from hypothesis import given, settings

from fakes import markdown
from wakebus.adapters import markdown as marks


@given(markdown.texts())
@settings(max_examples=50, deadline=None)
def test_any_text_keeps_its_words(text: str) -> None:
    """ADP-11.2: in order; and a second time changes no word."""
    shown = marks.plain(text)
    assert markdown.in_order(markdown.words(text), shown)


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
    assert marks.plain(text) == shown
