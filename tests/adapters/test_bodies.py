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


@given(st.text(st.sampled_from('a"\\\n 中😀')), st.text(st.sampled_from('a"\\\n 中😀')))
def test_a_longer_text_measures_more(one: str, two: str) -> None:
    """Cutting finds its place by halving: the measure grows with the text."""
    for change in (bodies.with_breaks, bodies.without_mentions):
        assert bodies.nested(change(one)) <= bodies.nested(change(one + two))


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('<at user_id="all">all</at>', '＜at user_id="all">all＜/at>'),
        ("<AT id=all>", "＜AT id=all>"),
        ("< at id=all>", "＜ at id=all>"),
        ("<person id='ou_1'>", "＜person id='ou_1'>"),
        ("<attr> <atomic> a<b", "<attr> <atomic> a<b"),
        ("<at", "＜at"),
    ],
)
def test_without_mentions(text: str, shown: str) -> None:
    """Nobody is called, and it can still be read."""
    assert bodies.without_mentions(text) == shown


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unit", ["\n", "[", "![", "`", "< ", "<", "|", "*", "  ", "![a](", "<\n/"])
def test_a_hostile_text(unit: str) -> None:
    """Half a mebibyte of marks is read in no time worth speaking of, not in its square."""
    text = unit * (1 << 18)
    bodies.is_markdown(text)
    bodies.without_images(bodies.without_mentions(text))
    bodies.titled(text)


def test_without_images() -> None:
    """A picture from elsewhere is a link."""
    assert bodies.without_images("a ![x](https://y) [z](w)!") == "a [x](https://y) [z](w)!"


def test_with_breaks() -> None:
    """Single line ends become breaks; paragraphs stay."""
    assert bodies.with_breaks("a\nb\n\nc") == "a  \nb\n\nc"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## Build done\nmore", "Build done more"),
        ("**bold** `x`", "bold x"),
        ("###", "message"),
        ("中" * 99, "中" * 47 + "…"),
    ],
)
def test_title(text: str, title: str) -> None:
    """What the notification shows: the beginning, bounded, never empty."""
    assert bodies.titled(text)["title"] == title


def test_post() -> None:
    """Compact JSON in UTF-8, and named headers."""
    request = bodies.post("https://x/", {"a": "中"}, x_token="t")
    assert request.body == '{"a":"中"}'.encode()
    assert request.headers == {"Content-Type": "application/json; charset=utf-8", "x-token": "t"}


def test_an_unsigned_robot() -> None:
    """Without a secret the URL stays as it is; with one it gets a query."""
    assert bodies.dingtalk_signed("https://x/", "", 1.0) == "https://x/"
    assert bodies.dingtalk_signed("https://x/", "s", 1.0).startswith("https://x/?timestamp=1000&")
