"""RULES-4.4: what is taken out of text, and what stays."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.plugin.rules.sanitize import RESET, sanitize, sanitize_line, sanitize_terminal

NASTY = st.text(
    st.sampled_from("\x1b\x9b\x9d\x90[]P;:0m1Jax \n\t\r\x07\\\x9c\u202e\u200b\u200d\ufe0f\ud800\0é")
)
ANY = st.text(st.characters(codec=None)) | NASTY
SGR = re.compile(r"\x1b\[[0-9;:]*m")
UNSAFE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\ud800-\udfff]"
)


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;never ends", "52;c;never ends"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b[31", ""),
        ("\x1bc reset", " reset"),
        ("\x1b(B", ""),
        ("\x9d0;x\x9cy", "y"),
        ("bell\x07 nul\0 del\x7f", "bell nul del"),
        ("10%\r20%\r\nend", "10%\n20%\nend"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("abc\u202egpj.exe", "abcgpj.exe"),
        ("\u2066x\u2069\u200e\u200f\u061c", "x"),
        ("in\u200bvis\u2060i\ufeffble", "invisible"),
        ("\U000e0068\U000e0069!", "!"),
        ("lone \ud800", "lone \ufffd"),
        ("👩\u200d👩 ❤\ufe0f می\u200cخواهم", "👩\u200d👩 ❤\ufe0f می\u200cخواهم"),
        ("❤\ufe0f\ufe01\ufe02", "❤\ufe0f"),
        ("م\u200d\u200c\u200dک", "م\u200dک"),
        ("日本語 été", "日本語 été"),
    ],
)
def test_clean(dirty: str, expected: str) -> None:
    """What steers, reorders or hides goes; what a person reads stays."""
    assert sanitize(dirty) == expected


@given(ANY)
def test_nothing_unsafe_is_left_and_twice_is_once(text: str) -> None:
    """Any text: no control, escape, bidi or surrogate is left; cleaning again changes nothing."""
    once = sanitize(text)
    assert not UNSAFE.search(once)
    assert sanitize(once) == once
    once.encode()


@given(ANY)
def test_a_terminal_gets_colours_and_nothing_else(text: str) -> None:
    """Any text: without its SGR sequences it is as clean; cleaning again changes nothing."""
    once = sanitize_terminal(text)
    assert not UNSAFE.search(SGR.sub("", once))
    assert sanitize_terminal(once) == once


# Letters that show nothing hide what stands in them: the fillers of Hangul.
HIDING = "\u115f\u1160\u3164\uffa0"


@given(st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters=HIDING)))
def test_plain_text_is_not_touched(text: str) -> None:
    """Letters, digits, punctuation and spaces of every script stay."""
    assert sanitize(text) == text


def test_a_colour_ends_where_its_text_ends() -> None:
    """What is printed next keeps the terminal's own colours."""
    assert sanitize_terminal("\x1b[31mred") == f"\x1b[31mred{RESET}"
    assert sanitize_terminal("\x1b[31mred\n") == f"\x1b[31mred{RESET}\n"
    assert sanitize_terminal(f"\x1b[31mred{RESET}") == f"\x1b[31mred{RESET}"
    assert sanitize_terminal("\x1b[2J\x1b[1;38:5:9mx\x1b[0m") == "\x1b[1;38:5:9mx\x1b[0m"


def test_a_line_is_one_line() -> None:
    """Names in headers: no newline, no run of spaces, a limit."""
    assert sanitize_line(" a\n\u2028b\t\tc ") == "a b c"
    assert sanitize_line("x" * 300, 10) == "x" * 9 + "…"


@pytest.mark.parametrize("seed", ["\x9d", "\x1b]", "\x1b[", "\x1b]a", "\x9b1;", "\u200d\ufe0f"])
def test_a_megabyte_of_traps_takes_no_time(seed: str) -> None:
    """The patterns are linear: a body of openings that never end must not hold the receiver."""
    begun = time.process_time()
    sanitize(seed * ((1 << 20) // len(seed)))
    assert time.process_time() - begun < 3
