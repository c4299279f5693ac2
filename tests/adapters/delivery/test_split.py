"""A text in parts."""

import json
import re
import zlib
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wakebus.adapters.base import length
from wakebus.adapters.delivery.split import MAX_PARTS, Piece, pieces, split
from wakebus.adapters.errors import Rejected

FAMILY = "👨‍👩‍👧‍👦"
# Words, Chinese, emoji of several code points, fences: what chats are made of.
BITS = st.sampled_from(
    [
        *("word ", "中文。", "\n", "\n\n", "```python\n", "```\n", "~~~~\n", "```", "x" * 30),
        *(FAMILY, "👍🏽", "🇩🇪", "e\u0301", "😀", "  ", "\t", '"\\'),
    ]
)
TEXTS = st.lists(BITS, max_size=120).map("".join) | st.text(max_size=2000)


def nested(text: str) -> int:
    """A platform that counts the bytes of JSON in JSON, and an envelope."""
    return len(json.dumps(json.dumps(text))) + 40


MEASURES: list[Callable[[str], int]] = [
    len,
    lambda text: length(text, "utf16"),
    lambda text: len(text.encode(errors="surrogatepass")),
    nested,
]


@given(text=TEXTS, measure=st.sampled_from(MEASURES), limit=st.integers(60, 900))
@example(text="```\n" + "x\n" * 400 + "```\n", measure=len, limit=410)
@settings(max_examples=100, deadline=None)
def test_any_text(text: str, measure: Callable[[str], int], limit: int) -> None:
    """ADP-5.7: bodies join to the text, every part is within the limit, the same each time."""
    try:
        found = pieces(text, measure, limit)
    except Rejected:
        assert measure(text) > limit
        return
    assert "".join(piece.body for piece in found) == text
    assert all(measure(str(piece)) <= limit for piece in found)
    assert found == pieces(text, measure, limit)
    assert len(found) <= MAX_PARTS
    assert all(part.strip() for part in split(text, measure, limit))


def shaken(text: str) -> int:
    """A measure without sense, the same each time; a text of few characters always fits."""
    return len(text) + (zlib.crc32(text.encode()) % 120 if len(text) > 3 else 0)


def marked(text: str) -> int:
    """Markup that is longer while it is open: what closes it makes the text shorter."""
    return len(text) + 40 * (text.count("word") % 2)


@given(text=TEXTS, measure=st.sampled_from([shaken, marked]), limit=st.integers(60, 500))
@settings(max_examples=100, deadline=None)
def test_a_measure_that_goes_up_and_down(
    text: str, measure: Callable[[str], int], limit: int
) -> None:
    """ADP-3.4: more text may measure less; each part is within the limit as it goes out."""
    text = re.sub("[\ud800-\udfff]", "", text)
    try:
        found = pieces(text, measure, limit)
    except Rejected as exc:
        assert "more than" in exc.text  # there is room for a character
        return
    assert "".join(piece.body for piece in found) == text
    assert all(measure(str(piece)) <= limit for piece in found)
    assert found == pieces(text, measure, limit)


@pytest.mark.parametrize("bit", ["word ", "x", "**a** [b](c)\n", "中文。", "```py\ncode\n```\n\n"])
def test_a_long_text_is_measured_a_few_times(bit: str) -> None:
    """ADP-5.7: in up to 50 parts: each is rendered a few times, and never the whole text."""
    asked: list[int] = []

    def measure(text: str) -> int:
        asked.append(len(text))
        return len(text) + 3 * text.count("*") + 10

    text = bit * (90_000 // len(bit))
    assert 20 < len(split(text, measure, 4096)) <= MAX_PARTS
    assert sum(asked) < 8 * len(text) and max(asked) <= 4 * 4096 + 100


def test_a_text_that_measures_nothing() -> None:
    """ADP-3.4: whatever a measure says, no piece is empty and none is lost."""
    text = "x" * 5000
    found = pieces(text, lambda part: 0, 100)
    assert "".join(piece.body for piece in found) == text and all(piece.body for piece in found)


def opened(part: str) -> str:
    """Return the fence that is open at the end of a part, as CommonMark reads it."""
    mark = ""
    for line in part.split("\n"):
        found = re.match(r" {0,3}(`{3,20}|~{3,20})([^`]{0,60})$", line)
        if found and not mark:
            mark = found[1]
        elif found and found[1].startswith(mark) and not found[2].strip():
            mark = ""
    return mark


@given(
    st.lists(
        st.sampled_from(["```py\n", "~~~\n", "````\n", ""]).flatmap(
            lambda mark: st.lists(st.sampled_from(["a line\n", "x" * 90 + "\n", "\n"])).map(
                lambda lines: f"{mark}{''.join(lines)}{mark.replace('py', '')}"
            )
        ),
        max_size=30,
    ).map("".join)
)
@settings(max_examples=60, deadline=None)
def test_fences_are_balanced(text: str) -> None:
    """ADP-5.7: a code block that is cut is closed in one part and opened again in the next."""
    assert not opened(text)
    for part in split(text, len, 450):
        assert not opened(part)


def test_a_long_code_block() -> None:
    """The language stays with the code, and only lines are cut."""
    code = "".join(f"line {number}\n" for number in range(200))
    parts = split(f"Look:\n```python\n{code}```\nThat was it.", len, 500)
    assert len(parts) > 3 and parts[0].startswith("Look:\n```python\nline 0\n")
    assert all(part.startswith("```python\nline ") for part in parts[1:])
    assert all(part.endswith("\n```") for part in parts[:-1])
    assert parts[-1].endswith("```\nThat was it.")
    lines = [line for part in parts for line in part.split("\n") if line.startswith("line ")]
    assert lines == code.splitlines()


def test_a_code_block_is_kept_whole() -> None:
    """A block that begins late in a part goes to the next one as a whole."""
    code = "```\n" + "code\n" * 30 + "```\n"
    assert split("word " * 70 + "\n" + code, len, 460) == ["word " * 70 + "\n", code]


def test_a_fence_line_is_not_cut_from_its_code() -> None:
    """ADP-5.7: the only place to cut is right behind it: the cut is before it instead."""
    text = "a" * 230 + "\n```" + "p" * 50 + "\n" + "x" * 1000
    assert split(text, len, 500)[0] == "a" * 230 + "\n"


def test_a_fence_in_a_code_block() -> None:
    """ADP-5.7: a shorter fence within a block is code like any other."""
    text = "````\n" + "```\n" * 200 + "````\n"
    parts = split(text, len, 450)
    assert len(parts) == 2 and parts[0].endswith("````") and parts[1].startswith("````\n```")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 60 + "\n\n" + "b" * 20 + "\nc d " + "e" * 90, "a" * 60 + "\n\n"),
        ("a" * 60 + "\n" + "b" * 20 + " " + "c" * 90, "a" * 60 + "\n"),
        ("a" * 60 + " " + "b" * 90, "a" * 60 + " "),
        ("中" * 60 + "。" + "文" * 90, "中" * 60 + "。"),
        ("a" * 10 + "\n\n" + "b" * 190, "a" * 10 + "\n\n" + "b" * 88),
    ],
)
def test_where_it_is_cut(text: str, first: str) -> None:
    """ADP-5.7: a paragraph, else a line, a sentence or a space of the last half, else anywhere."""
    assert split(text, len, 100)[0] == first


@pytest.mark.parametrize("cluster", [FAMILY, "👍🏽", "🇩🇪", "e\u0301", "❤️", "1️⃣", "👩🏽‍🚀"])
@pytest.mark.parametrize("before", range(12))
def test_an_emoji_on_the_boundary(cluster: str, before: int) -> None:
    """ADP-5.7: B23: what a reader sees as one character is never cut."""
    text = "a" * before + cluster * 40
    for part in split(text, lambda part: len(part.encode()), 60):
        assert part.replace("a", "").replace(cluster, "") == ""


def test_decoration_without_end() -> None:
    """A character with hundreds of marks is cut somewhere rather than refused."""
    parts = split("a" + "\u0301" * 500, len, 100)
    assert "".join(parts) == "a" + "\u0301" * 500


def test_too_many_parts() -> None:
    """ADP-5.2: more than 50 messages are rejected, and how long the text is."""
    assert len(split("x" * 500, len, 10)) == MAX_PARTS
    with pytest.raises(Rejected, match=r"has 501 characters .* more than 50 messages"):
        split("x" * 501, len, 10)
    with pytest.raises(Rejected, match="more than 50 messages"):
        split("word " * 200_000, len, 100)


def test_no_room() -> None:
    """ADP-5.2: a limit that not even one character meets is rejected, not tried for ever."""
    with pytest.raises(Rejected, match="no room"):
        split("中文", nested, 20)


def test_blank_parts_are_left_out() -> None:
    """No platform takes a blank message."""
    assert split("a" * 100 + " " * 250 + "b", len, 100) == ["a" * 100, " " * 50 + "b"]


def test_what_fits_is_left_alone() -> None:
    """Also with a fence that its author left open."""
    assert pieces("```\ncode", len, 10) == [Piece("```\ncode", "```\ncode")]


def test_what_is_too_long_as_it_stands() -> None:
    """ADP-5.2: it is not rendered to be refused; what is at the limit is."""
    asked: list[str] = []

    def measure(text: str) -> int:
        asked.append(text)
        return len(text)

    with pytest.raises(Rejected, match="more than 50 messages"):
        split("x" * 5001, measure, 100, len)
    assert asked == []
    assert len(split("x" * 5000, measure, 100, len)) == 50


def test_a_code_block_of_fences_is_found_soon() -> None:
    """ADP-5.7: where the parts of a text measure more or less by how they end, too."""
    asked: list[int] = []

    def measure(text: str) -> int:
        asked.append(len(text))
        return len(text) * (7 if text.count("```") % 2 else 4) // 4

    split("```\n" * 8000, measure, 4096)
    assert len(asked) < 20 * 12


def test_what_measures_its_length_is_measured_once_a_part() -> None:
    """ADP-5.7: to render it costs most, and a piece of the limit's length fits."""
    asked: list[int] = []

    def measure(text: str) -> int:
        asked.append(len(text))
        return len(text)

    parts = split("some words\n" * 10_000, measure, 4096)
    assert len([size for size in asked if 0 < size <= 4096]) <= len(parts) + 2
