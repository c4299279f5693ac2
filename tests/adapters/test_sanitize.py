"""Text as a chat may get it."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.sanitize import is_blank, line, plain

# Random text seldom holds an escape; this alphabet seldom holds anything else.
nasty = st.text(st.sampled_from("\x1b\x9b\x9d[]0;m\x07\\\r\n\t\0 aé\u202e\u200d\ud800"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b(Bx\x1bcy", "xy"),
        ("a\r\nb\rc\x85d\u2028e\x0cf", "a\nb\nc\nd\ne\nf"),
        ("a\0b\x07c\x7fd\x9b31me", "abcde"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("\ufeffzero\u200bwidth\u2066x\u2069", "zerowidthx"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("<\ufe0fsystem sys\u200dtem a\ufe0fb\u3164", "<system system ab"),
        (
            "❤\ufe0f\u200d🔥 1\ufe0f\u20e3 葛\U000e0100",
            "❤\ufe0f\u200d🔥 1\ufe0f\u20e3 葛\U000e0100",
        ),
        ("half \ud83d surrogate", "half \ufffd surrogate"),
        ("\x1b]unclosed string\nnext line", "unclosed string\nnext line"),
        ("\x93mis-decoded\x94 quotes\x9d stay", "mis-decoded quotes stay"),
        ("$(rm -rf /) {type} </fence>", "$(rm -rf /) {type} </fence>"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    """ADP-5.1: escapes go whole, controls and directions go, words and emoji stay."""
    assert plain(text) == expected


@given(st.text(st.characters(), max_size=60) | nasty)
def test_nothing_but_newline_and_tab(text: str) -> None:
    """ADP-5.1: of control characters only newline and tab survive, and it is UTF-8."""
    cleaned = plain(text)
    assert {c for c in cleaned if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert cleaned.encode().decode() == cleaned
    assert not [c for c in cleaned if unicodedata.bidirectional(c) in ("LRO", "RLO", "LRE", "RLE")]


@given(st.text(st.characters(), max_size=60) | nasty)
def test_clean_stays_clean(text: str) -> None:
    """Cleaning a clean text changes nothing: halves around a removed part make no new escape."""
    assert plain(plain(text)) == plain(text)


def test_a_long_hostile_text_is_quick() -> None:
    """A megabyte of unclosed escapes is cleaned in one pass."""
    assert plain("\x1b]" * 500_000) == ""
    assert plain("\x1b[" + "1;" * 500_000) == ""


def test_line() -> None:
    """A reason is one line, clean and cut."""
    assert line("a\n\x1b[1mb\tc") == "a b c"
    assert line("x" * 600) == "x" * 499 + "…"


@pytest.mark.parametrize(
    ("text", "blank"),
    [("", True), (" \n\t", True), ("\u2800", True), ("\u3000\u2800", True), ("\u2801", False)],
)
def test_a_blank_text(text: str, blank: bool) -> None:
    """ADP-5.2: Braille without dots is a message of nothing, which platforms refuse."""
    assert is_blank(text) is blank
