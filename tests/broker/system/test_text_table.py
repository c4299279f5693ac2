"""Tables: for a terminal of some width, and for a pipe."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.broker.system.standard_files import takes_color
from wakebus.broker.system.text_table import Column, for_terminal, text_table, wrapped_text
from wakebus.broker.system.text_width import display_width

COLUMNS = (
    Column("ID", whole=True),
    Column("AGE", right=True),
    Column("FROM"),
    Column("STATE", colors={"dead": "31"}),
    Column("TEXT", text=True),
)
ROWS = [
    ["m-1", "3h", "worker-alpha", "dead", "refused by its receiver: no such file or folder"],
    ["m-12", "12m", "ci", "queued", ""],
]


def lay_out(rows: list[list[str]], width: int, *, color: bool = False) -> list[str]:
    """Return the lines on a terminal."""
    return list(for_terminal(COLUMNS, rows, width, color=color))


def test_in_a_pipe() -> None:
    """Whole, plain, every column, `-` for no value: what a script takes apart stays the same."""
    expected = [
        "ID    AGE  FROM          STATE   TEXT",
        "m-1    3h  worker-alpha  dead    refused by its receiver: no such file or folder",
        "m-12  12m  ci            queued  -",
    ]
    assert text_table(COLUMNS, ROWS, io.StringIO()).splitlines() == expected
    assert text_table(COLUMNS, ROWS, None).splitlines() == expected
    empty = text_table(COLUMNS, [["m", "", "", "", ""]], io.StringIO())
    assert empty.splitlines()[1].split() == ["m", "-", "-", "-", "-"]


def test_a_text_goes_on_in_its_column() -> None:
    """Between words, in what the others leave."""
    assert lay_out(ROWS[:1], 60) == [
        "ID   AGE  FROM          STATE  TEXT",
        "m-1   3h  worker-alpha  dead   refused by its receiver: no",
        "                               such file or folder",
    ]


def test_a_text_without_room_stands_below() -> None:
    """Where its column would be too narrow to read."""
    assert lay_out(ROWS, 44) == [
        "ID    AGE  FROM          STATE",
        "m-1    3h  worker-alpha  dead",
        "    refused by its receiver: no such file or",
        "    folder",
        "m-12  12m  ci            queued",
    ]


def test_a_narrow_terminal() -> None:
    """The longest shrink first and go on below; an id is never cut."""
    assert lay_out([["m-123456789", "3h", "worker-alpha", "dead", ""]], 31) == [
        "ID           AGE  FROM    STATE",
        "m-123456789   3h  worker  dead",
        "                  -alpha",
    ]


def test_columns_without_a_value_are_left_out() -> None:
    """On a terminal, where room is dear."""
    assert lay_out([["m-1", "", "ci", "", ""]], 80) == ["ID   FROM", "m-1  ci"]
    assert lay_out([], 80) == [""]


def test_wide_characters() -> None:
    """Chinese takes two cells each, an accent of its own none."""
    assert (display_width("中文"), display_width("e\u0301"), display_width("ab")) == (4, 1, 2)
    lines = lay_out([["m", "1s", "中文", "queued", "x"], ["m", "1s", "abcd", "dead", "x"]], 80)
    assert [display_width(line[: line.index("x")]) for line in lines[1:]] == [23, 23]


def test_groups() -> None:
    """Once for all rows of a group, also where the next group has the same value further right."""
    columns = (Column("A", grouped=True), Column("B", grouped=True), Column("C"))
    rows = [["a", "x", "1"], ["a", "x", "2"], ["b", "x", "2"]]
    shown = [*for_terminal(columns, rows, 80, color=False)]
    assert shown[1:] == ["a  x  1", "      2", "b  x  2"]
    assert text_table(columns, rows, None).splitlines()[2] == "a  x  2"


def test_colour() -> None:
    """A bold header and the column's own colours, nowhere else."""
    head, first, *_ = lay_out(ROWS, 200, color=True)
    assert head.startswith("\x1b[1mID\x1b[0m") and "\x1b[31mdead\x1b[0m" in first
    plain = [re.sub(r"\x1b\[\d*m", "", line).rstrip() for line in lay_out(ROWS, 200, color=True)]
    assert plain == lay_out(ROWS, 200)


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def test_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its width; no colour where NO_COLOR says so."""
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert text_table(COLUMNS, ROWS, Terminal()).splitlines() == lay_out(ROWS, 44, color=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert text_table(COLUMNS, ROWS, Terminal()).splitlines() == lay_out(ROWS, 44)


def test_a_cell_is_text() -> None:
    """No control character and no line break gets through; brackets are brackets."""
    row = ["m", "1s", "[red]a[/]", "dead", "x\n\x1b[2Jy\x9bz\r\tw"]
    shown = text_table(COLUMNS, [row], io.StringIO())
    assert shown.splitlines()[1] == "m    1s  [red]a[/]  dead   x [2Jy z w"


CELLS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")))


@given(st.lists(st.lists(CELLS, min_size=5, max_size=5), max_size=4), st.integers(20, 100))
def test_nothing_is_lost(rows: list[list[str]], width: int) -> None:
    """On a terminal of any width all of every cell is there, in its order."""
    shown = "".join("".join(lay_out(rows, width)).split())
    for row in rows:
        for char in "".join(row):
            assert char in shown
    wide = [line for line in lay_out(rows, width) if display_width(line) > width]
    fixed = max([2, *(display_width(row[0]) for row in rows)])
    fixed += max([3, *(display_width(row[1]) for row in rows)])
    assert not wide or fixed + 3 * 8 + 4 > width


def test_what_is_copied_is_whole() -> None:
    """An id or a name that leaves no room for the others has a line of its own."""
    columns = (Column("ENDPOINT", whole=True, colors={}), Column("STATE"), Column("QUEUED", True))
    rows = [["x" * 64, "live", "3"], ["b", "away", "0"]]
    shown = list(for_terminal(columns, rows, 60, color=False))
    assert shown[1] == "x" * 64 and shown[2].split() == ["live", "3"]
    assert shown[3].split() == ["b", "away", "0"] and max(map(len, shown[2:])) <= 60
    assert shown[0].index("STATE") == shown[2].index("live") == shown[3].index("away")
    wide = list(for_terminal(columns, rows, 120, color=False))
    assert wide[1].split() == ["x" * 64, "live", "3"]


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": ""}, True)],
)
def test_who_gets_colour(
    environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal that knows it, and whose user has nothing against it."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    assert not takes_color(stream) and not takes_color(None)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    assert takes_color(stream) is coloured
    assert ("\x1b[" in text_table(COLUMNS, ROWS, stream)) is coloured
    stream = io.StringIO()
    stream.close()
    assert not takes_color(stream)


def test_a_sentence_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal in its width, indented; elsewhere in one line."""
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    text = "word " * 20 + "end"
    assert wrapped_text(text, stream) == text == wrapped_text(text, None)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    lines = wrapped_text(text, stream).splitlines()
    assert max(map(len, lines)) <= 40 and lines[1].startswith("    word")
    assert " ".join(" ".join(lines).split()) == text
