"""Which pane a target names, exactly, and what of a text can be typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.plugin.tmux import panes
from wakebus.plugin.tmux.panes import (
    NoPane,
    Pane,
    check_pane,
    is_paste,
    literal,
    parse_panes,
    pick_pane,
)

LISTING = """\
%0 0 0 1 0 0 0 0 0 /dev/pts/0 work:sh
%1 0 1 1 1 0 0 0 0 /dev/pts/1 work:sh
%2 1 0 0 1 0 1 0 0 /dev/pts/2 work:v1.2 of a: b
%3 2 0 0 1 0 0 0 0 /dev/pts/3 work:3
%4 3 0 0 1 0 0 0 0 /dev/pts/4 work:sh
%5 0 0 1 1 1 0 1 1 /dev/pts/5 worker:sh
%6 0 0 1 1 0 0 0 0 /dev/pts/6 my_app:sh
%7 0 0 1 1 0 0 0 0 /dev/pts/7 two words:sh
%6 0 0 1 1 0 0 0 0 /dev/pts/6 grouped:sh
"""
PANES = parse_panes(LISTING)


def pane(**changes: object) -> Pane:
    return PANES[0]._replace(**changes)  # type: ignore[arg-type]


def test_a_listing_is_read_by_the_fields_of_its_format() -> None:
    """Names with blanks and colons are whole; a line that is no row is left out."""
    assert PANES[2] == Pane(
        *("%2", "1", "0", False, True, False, True, False, False),
        *("/dev/pts/2", "work", "v1.2 of a: b"),
    )
    assert PANES[5][3:9] == (True, True, True, False, True, True)
    assert parse_panes("") == parse_panes("no row\n") == [] and len(PANES) == 9
    assert panes.FORMAT.count("#{") == len(Pane._fields) - 1 + 1


@pytest.mark.parametrize(
    ("target", "id"),
    [
        ("work", "%1"),
        ("=work", "%1"),
        ("work:", "%1"),
        ("worker", "%5"),
        ("two words", "%7"),
        ("my.app", "%6"),
        ("work:0.0", "%0"),
        ("work:1", "%2"),
        ("work:v1.2 of a: b", "%2"),
        ("work:v1.2 of a: b.0", "%2"),
        ("work:3", "%4"),
        ("work:2", "%3"),
        ("%3", "%3"),
        ("%6", "%6"),
    ],
)
def test_a_target_names_one_pane(target: str, id: str) -> None:
    """A session's current pane, a window's active one, by number before name; tmux's own form."""
    assert pick_pane(PANES, target).id == id


@pytest.mark.parametrize(
    "target",
    ["wor", "work*", "WORK", "work:s", "work:0.9", "work:9", "work:.0", "%", "%33", ":0", "", "="],
)
def test_what_is_not_there_is_not_guessed(target: str) -> None:
    """No prefix, no pattern; the error lists the sessions."""
    with pytest.raises(NoPane, match="there is no tmux") as caught:
        pick_pane(PANES, target)
    assert "work, worker, my_app, two words, grouped" in caught.value.data["step"]


def test_rows_are_cut_by_a_newline_alone() -> None:
    """A window's name may hold what only Python takes for a line's end."""
    row = "%0 0 0 1 0 0 0 0 0 /dev/pts/0 work:a\u2028b\x85c"
    assert [pane.window_name for pane in parse_panes(f"{row}\n{row}\n")] == ["a\u2028b\x85c"] * 2


def test_the_error_says_what_is_not_there() -> None:
    """The session, or a pane of a session that is there; a long list is cut."""
    with pytest.raises(NoPane, match="no tmux session 'gone'"):
        pick_pane(PANES, "gone:1")
    with pytest.raises(NoPane, match=r"no tmux pane 'work:9'"):
        pick_pane(PANES, "work:9")
    many = [pane(session=f"s{n}") for n in range(50)]
    with pytest.raises(NoPane) as caught:
        pick_pane(many, "gone")
    assert "s19 and 30 more." in caught.value.data["step"]


def test_two_windows_of_one_name() -> None:
    """Refused with the ids."""
    with pytest.raises(NoPane, match="names 2 panes") as caught:
        pick_pane(PANES, "work:sh")
    assert caught.value.data["step"] == "Name one by its id: %1, %4"


@pytest.mark.parametrize(
    ("flag", "says"),
    [("dead", "its program has ended"), ("deaf", "switched off"), ("synchronized", "others")],
)
def test_nothing_can_be_typed_into_it(flag: str, says: str) -> None:
    """Dead, switched off, or typed into together with others: each with its next step."""
    check_pane(pane())
    with pytest.raises(NoPane, match=says) as caught:
        check_pane(pane(**{flag: True}))
    assert "tmux " in caught.value.data["step"]


def test_a_text_keeps_what_a_person_sees() -> None:
    """Line breaks inside, tabs, quotes, other scripts, emoji of several characters."""
    text = "a\tb\n'q' \"q\" $(x) `y` \\n ; 中文 👩‍💻 ⚕"
    assert literal(text) == text
    assert literal("a\r\nb\n\n") == "a\nb"
    assert literal("goes on\\") == "goes on\\ "


@given(st.text(st.sampled_from("\x1b[201~\x03\x04\r\n\x9b;-a \\")))
def test_no_text_holds_a_key(text: str) -> None:
    """No control character but line break and tab: no end of a paste, no C-c, no Escape."""
    typed = literal(text)
    assert all(char.isprintable() or char in "\n\t" for char in typed)
    assert not typed.endswith(("\n", "\\"))


def test_what_is_pasted() -> None:
    """Line breaks and tabs, which are keys, and long texts."""
    assert not is_paste("one line") and is_paste("a\nb") and is_paste("a\tb")
    assert not is_paste("x" * 500) and is_paste("x" * 501)
