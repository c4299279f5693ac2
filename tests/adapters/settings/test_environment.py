"""The environment and `.env`."""

import logging
from pathlib import Path

import pytest

from wakebus.adapters.errors import Unavailable
from wakebus.adapters.settings.environment import Environment
from wakebus.adapters.settings.home_channel import Home, find


def test_the_file_wins(tmp_path: Path) -> None:
    """`.env` beats the inherited environment; an empty value there is none, as for Hermes."""
    file = tmp_path / ".env"
    file.write_text("A=file\nB=\n")
    assert Environment({"A": "old", "B": "old", "C": "c"}, file)() == {"A": "file", "C": "c"}


def test_values_are_expanded(tmp_path: Path) -> None:
    """ADP-1.3: `${NAME}` is the file's, else the process's; `#` begins a value, not a comment."""
    file = tmp_path / ".env"
    file.write_text("ROOM=#ops\nMATRIX_HOME_ROOM=${ROOM}:${HOST_7F3A} # ours\n")
    env = Environment({"HOST_7F3A": "localhost", "ROOM": "old"}, file)
    assert env()["MATRIX_HOME_ROOM"] == "#ops:localhost"
    assert find("matrix", env()) == Home("#ops:localhost", "", "MATRIX_HOME_ROOM")


def test_a_change_is_seen(tmp_path: Path) -> None:
    """A new credential needs no restart, and a file may come and go."""
    file = tmp_path / ".env"
    env = Environment({}, file)
    assert env() == {}
    file.write_text("A=1\n")
    assert env() == {"A": "1"}
    file.write_text("A=22\n")
    assert env() == {"A": "22"}


def test_where_a_value_comes_from(tmp_path: Path) -> None:
    """What only the process has is known: another process may not have it."""
    file = tmp_path / ".env"
    file.write_text("A=1\nB=\n")
    assert Environment({"A": "0", "B": "2", "C": "3"}, file)().inherited == {"C"}


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


def test_bad_lines_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file of another kind does not fill the log."""
    (file := tmp_path / ".env").write_text("x y\n" * 1000)
    assert Environment({}, file)() == {}
    assert len(caplog.messages) == 11 and "990 more lines are not KEY=VALUE" in caplog.text


def test_utf_32(tmp_path: Path) -> None:
    """It is named with what to do: Hermes reads no such file either, and it begins as UTF-16."""
    (file := tmp_path / ".env").write_bytes("A=hush\n".encode("utf-32"))
    with pytest.raises(Unavailable, match="UTF-32; save it as UTF-8") as caught:
        Environment({}, file)()
    assert "hush" not in caught.value.text


def test_a_line_that_cannot_be_read_lets_no_older_value_through(tmp_path: Path) -> None:
    """ADP-1.3: the process's own value of a name in it is hidden: it may be another bot's."""
    file = tmp_path / ".env"
    file.write_text("A=1\n\x01\x02 TELEGRAM_BOT_TOKEN=new\nB=2\n")
    env = Environment({"TELEGRAM_BOT_TOKEN": "old", "C": "3"}, file)()
    assert env == {"A": "1", "B": "2", "C": "3"}
