"""What goes into requests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters import bodies


@given(st.text())
def test_nested(text: str) -> None:
    """The bytes of a text as JSON in JSON, and a text's parts never measure more than it."""
    outer = bodies.compact({"a": bodies.compact({"b": text})})
    empty = bodies.compact({"a": bodies.compact({"b": ""})})
    assert bodies.nested(text) == len(outer.encode(errors="surrogatepass")) - len(empty)
    assert json.loads(json.loads(outer)["a"])["b"] == text


@pytest.mark.parametrize(
    "text",
    [
        *("# a", "text\n## b", "- a", "1. a", "> a", "```\nx\n```", "a **b** c", "`x`", "[a](b)"),
        *("| a | b |", "~~gone~~", "  * a"),
    ],
)
def test_is_markdown(text: str) -> None:
    """Marks that a reader would have to decipher."""
    assert bodies.is_markdown(text)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "2*3*4",
        "snake_case_name",
        "#tag",
        "a - b",
        "a > b",
        "x = [1](",
        "~/.bashrc",
        "5 ** 2",
        "a | b",
    ],
)
def test_is_no_markdown(text: str) -> None:
    """Text that Markdown would damage."""
    assert not bodies.is_markdown(text)


def test_post() -> None:
    """Compact JSON in UTF-8, and named headers."""
    request = bodies.post("https://x/", {"a": "中"}, x_token="t")
    assert request.body == '{"a":"中"}'.encode()
    assert request.headers == {"Content-Type": "application/json; charset=utf-8", "x-token": "t"}
