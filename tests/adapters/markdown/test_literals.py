r"""What looks like marks and is none: no character of it is lost."""

import html
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters import markdown
from wakebus.adapters.markdown.parser import parse

Z = "\u200b"
LITERALS = (
    *("*.pyc in src/*_test.py", "a*b*c", "a**b**c", "x * y * z", "*args, **kwargs", "*.o core*"),
    *("ls **/*.py **/*.js", '"**/a", "**/b"', "src/**/x and lib/**/y", "--include=*.py --x=*.c"),
    *('find . -name "*.py" -o -name "*_x.pyc"', "rm -rf *~ ~/.cache/*", "*test*.py", "*/5 * * * *"),
    *(r"\(x\)", r"\(a_1\) and \[y_2\]", r"\{a\}", r"^[a-z]*_[0-9]*$", ".*foo.*", r"\d+\.\d+"),
    *(r"C:\temp\__init__.py", r"C:\temp\_x\*.py", r"\\server\share\_x", r"src\__init__.py"),
    *("__init__", "__all__ = 1", "__main__.py and __init__.py", "/_a_/*b*", "obj._x_", "a/_b_c/_d"),
    *("/* a */ b /* c */", "$a_{ij} * b_{kl}$", "snake_case_name", "key=*** other=***", r"a \\ b"),
    *("int *a, *b; char **argv", r"find \( -x \) \;", "{'a*': 1, 'b*': 2}", r"$\%$ \"x\" \'y\'"),
)
RENDERS = (markdown.telegram_plain, markdown.plain, markdown.telegram_html, markdown.matrix_html)
MARKS = (
    "**bold**",
    "*it*",
    "_it_",
    "__bold__",
    "`*c*`",
    "~~s~~",
    "***b***",
    "**Yes**/**No**",
    "*word*s",
)


@pytest.mark.parametrize("text", LITERALS)
def test_what_looks_like_marks_has_none(text: str) -> None:
    """ADP-11.13: so it is sent without a format."""
    assert not markdown.has_marks(text)


@pytest.mark.parametrize("render", RENDERS)
@pytest.mark.parametrize("text", LITERALS)
def test_it_loses_no_character(render: Callable[[str], str], text: str) -> None:
    """ADP-11.13: also in a text that has marks elsewhere."""
    assert text in html.unescape(render(f"see {text} and `code`"))


@given(st.lists(st.sampled_from(LITERALS), min_size=1, max_size=5, unique=True))
@settings(max_examples=50, deadline=None)
def test_any_of_them_beside_another(found: list[str]) -> None:
    """ADP-11.13: a paragraph each, and a mark between them."""
    assert markdown.plain("\n\n**b**\n\n".join(found)) == "\n\nb\n\n".join(found)


@pytest.mark.parametrize("text", LITERALS)
def test_readers_of_markdown_see_it_as_it_is(text: str) -> None:
    """ADP-11.13, ADP-11.5: CommonMark (Discord, Mattermost, ntfy) shows the same words."""
    from markdown_it import MarkdownIt

    for render in (markdown.ntfy, markdown.mattermost, markdown.discord):
        (block,) = [t for t in MarkdownIt("commonmark").parse(render(f"`c` {text}")) if t.children]
        shown = "".join(child.content for child in block.children or ())
        assert shown.replace(Z, "") == f"c {text}"


@pytest.mark.parametrize("text", MARKS)
def test_marks_stay_marks(text: str) -> None:
    """ADP-11.13: what people mean as bold and italic."""
    assert markdown.has_marks(text)
    assert markdown.has_marks(f"see ({text}), {text}.")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"\*a\* \_b\_ **c**", "*a* _b_ c"),
        (r"\[a\](https://b.c) **c**", "[a](https://b.c) c"),
        (r"snake\_case **c**", "snake_case c"),
    ],
)
def test_escapes_stay_escapes(text: str, shown: str) -> None:
    r"""ADP-11.13: a `\` before a mark is not shown."""
    assert markdown.plain(text) == shown


@pytest.mark.parametrize("render", [markdown.slack, markdown.discord, markdown.mattermost])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2a14:6f42:c::/48", f"2a14:{Z}6f42:{Z}c::/48"),
        ("crate::key::new()", f"crate::{Z}key::new()"),
        ("a:smile:b", f"a:{Z}smile:b"),
        ("at 10:30:45", "at 10:30:45"),
        ("done :tada: (:+1:)", "done :tada: (:+1:)"),
        ("x:100:y", f"x:{Z}100:y"),
        ("`crate::key::new()`", "`crate::key::new()`"),
        ("std::move(x)", "std::move(x)"),
    ],
)
def test_no_emoji_in_words(render: Callable[[str], str], text: str, shown: str) -> None:
    """ADP-11.14: one that stands by itself is meant."""
    assert render(text) == shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["\\[", "\\[a", "C:\\", "\\\\a", "__a", "__a__", ":1", ":a", "a*"])
def test_many_of_them_cost_no_more(unit: str) -> None:
    """ADP-11.1: time is linear."""
    began = time.process_time()
    parse(unit * 8000)
    markdown.quiet(unit * 8000)
    assert time.process_time() - began < 10
