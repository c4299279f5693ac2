"""The environment and `.env`."""

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebus.adapters.settings import Environment, parse


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=v", "v"),
        ("  export K = v  ", "v"),
        ("K=v # comment", "v"),
        ("K=v#no-comment", "v#no-comment"),
        ("K=#", ""),
        ("K='a # b'", "a # b"),
        ('K="a b" # c', "a b"),
        ('K="it\'s"', "it's"),
        ("K='open", "'open"),
        ("K=a=b==", "a=b=="),
        ("K=$HOME/${X}`id`", "$HOME/${X}`id`"),
        ("K=", ""),
        ("\ufeffK=v", "v"),
        ("K=v\r", "v"),
    ],
)
def test_parse(line: str, value: str) -> None:
    """KEY=VALUE with quotes and comments; `$` and backticks are text."""
    assert parse(line).values == {"K": value}


def test_lines_that_are_none() -> None:
    """Comments and empty lines are skipped; anything else is counted by its number."""
    assert parse("# c\n\nK=v\nnonsense\n1X=2\n=3\n").bad_lines == [4, 5, 6]


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    """Any text is parsed; nothing is raised."""
    assert all("=" in text for _ in parse(text).values)


def test_the_file_wins(tmp_path: Path) -> None:
    """`.env` beats the inherited environment; an empty value in it does not."""
    file = tmp_path / ".env"
    file.write_text("A=file\nB=\n")
    assert Environment({"A": "old", "B": "kept", "C": "c"}, file)() == {
        "A": "file",
        "B": "kept",
        "C": "c",
    }


def test_a_change_is_seen(tmp_path: Path) -> None:
    """A new credential needs no restart, and a file may come and go."""
    file = tmp_path / ".env"
    env = Environment({}, file)
    assert env() == {}
    file.write_text("A=1\n")
    assert env() == {"A": "1"}
    file.write_text("A=22\n")
    assert env() == {"A": "22"}
    file.unlink()
    assert env() == {}


def test_where_a_value_comes_from(tmp_path: Path) -> None:
    """What only the process has is known: another process may not have it."""
    file = tmp_path / ".env"
    file.write_text("A=1\nB=\n")
    assert Environment({"A": "0", "B": "2", "C": "3"}, file)().inherited == {"B", "C"}


def test_default_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is `$HERMES_HOME/.env`."""
    (tmp_path / ".env").write_text("A_7F3A=1\n")
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert Environment()()["A_7F3A"] == "1"


def test_problems_are_named_without_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bad line is named by file and number, once per change; no value is logged."""
    file = tmp_path / ".env"
    file.write_text("A=hush\nhush hush\n")
    env = Environment({}, file)
    with caplog.at_level(logging.DEBUG):
        assert env() == env() == {"A": "hush"}
    assert len(caplog.messages) == 1 and f"{file}:2" in caplog.text
    assert "hush" not in caplog.text.replace(str(tmp_path), "")


@pytest.mark.parametrize("kind", ["latin-1", "folder", "pipe"])
def test_an_unreadable_file(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that cannot be read is named and not used; the rest of the environment holds."""
    file = tmp_path / ".env"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":  # without a writer its reader would wait for ever
        os.mkfifo(file)
    else:
        file.write_bytes(b"A=caf\xe9 hush\n")
    assert Environment({"B": "b"}, file)() == {"B": "b"}
    assert str(file) in caplog.text and "hush" not in caplog.text
