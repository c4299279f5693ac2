"""The environment and `.env`."""

import logging
import os
from pathlib import Path

import pytest

from wakebus.adapters.errors import Unavailable
from wakebus.adapters.settings.environment import GRACE_S, Environment
from wakebus.adapters.settings.home_channel import Home, find_home


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
    assert find_home("matrix", env()) == Home("#ops:localhost", "", "MATRIX_HOME_ROOM")


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


def test_the_line_of_a_value(tmp_path: Path) -> None:
    """The last one counts, as for the values."""
    file = tmp_path / ".env"
    file.write_text("A=1\nAB=2\n export A = 3\n#A=4\n")
    env = Environment({}, file)
    assert (env.line_of("A"), env.line_of("AB"), env.line_of("C")) == (3, 2, 0)
    assert env()["A"] == "3"
    assert Environment({}, tmp_path).line_of("A") == 0


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
    file.write_text("TELEGRAM_BOT_TOKEN=new\nTELEGRAM_BOT_TOKEN\n")
    assert "TELEGRAM_BOT_TOKEN" not in Environment({"TELEGRAM_BOT_TOKEN": "old"}, file)()


class Stage:
    """A `.env`, the environment that reads it, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.file = folder / ".env"
        self.env = Environment({"A": "inherited"}, self.file, ticks=lambda: self.now)

    def spoil(self, how: str) -> None:
        """Put something in its place that cannot be read, or nothing, or no values."""
        self.file.unlink()
        if how == "folder":
            self.file.mkdir()
        elif how == "pipe":
            os.mkfifo(self.file)
        elif how == "loop":
            self.file.symlink_to(self.file)
        elif how == "huge":
            self.file.write_text("B=hush\n" * (1 << 18))
        elif how == "empty":
            self.file.write_text("# being written\n")

    def mend(self, text: str) -> None:
        """Put a good file in its place."""
        if self.file.is_dir():
            self.file.rmdir()
        self.file.unlink(missing_ok=True)
        self.file.write_text(text)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return one whose file does not exist yet."""
    return Stage(tmp_path)


UNREADABLE = ["folder", "pipe", "loop", "huge"]


@pytest.mark.parametrize("how", UNREADABLE)
def test_what_it_said_last_holds(stage: Stage, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.31: while it cannot be read, however long; inherited values never take over."""
    stage.file.write_text("A=file\n")
    assert stage.env()["A"] == "file"
    stage.spoil(how)
    for _ in range(3):
        stage.now += 1_000
        assert stage.env()["A"] == "file"
    assert len(caplog.messages) == 1 and str(stage.file) in caplog.text
    stage.mend("A=new\n")
    assert stage.env()["A"] == "new"


def expose(file: Path, how: str) -> str:
    """Let others change the file; return what is said of it. Root alone can give it away."""
    if how == "owner":
        os.chown(file, 12345, -1)
        return "belongs to another user (uid 12345); chown it to yourself"
    if how == "folder":
        file.parent.chmod(0o777)
        return f"its folder is world-writable; chmod o-w {file.parent}"
    mode = 0o660 if how == "group" else 0o666
    if how == "group":  # not one's own
        os.chown(file, -1, 54321)
    file.chmod(mode)
    return f"others may write it (mode {mode:04o}); chmod go-w {file}"


EXPOSED = ["mode", "folder", *(["owner", "group"] if os.getuid() == 0 else [])]


@pytest.mark.parametrize("how", EXPOSED)
def test_one_that_others_may_write_is_refused(
    stage: Stage, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """ADP-6.34: what it said last holds, told once with the way out; without that, an error."""
    stage.file.write_text("A=file\n")
    assert stage.env()["A"] == "file"
    stage.mend("A=theirs\n")
    said = expose(stage.file, how)
    for _ in range(3):
        stage.now += 1_000
        assert stage.env()["A"] == "file"
    assert len(caplog.messages) == 1 and f"{stage.file} is not used: " in caplog.text
    assert said in caplog.text and "theirs" not in caplog.text
    with pytest.raises(Unavailable) as refused:
        Environment({"A": "inherited"}, stage.file)()
    assert said in refused.value.text and str(stage.file) in refused.value.text
    stage.file.parent.chmod(0o700)
    stage.file.chmod(0o600)
    os.chown(stage.file, os.getuid(), os.getgid())
    assert stage.env()["A"] == "theirs"


def test_a_file_of_root_is_used(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-6.34: whoever runs; root may write any file anyway."""
    stage.file.write_text("A=file\n")
    if stage.file.stat().st_uid == 0:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert stage.env()["A"] == "file"


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_being_written(stage: Stage, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.31: one that is empty or gone has some seconds to come back; then it is empty."""
    stage.file.write_text("A=file\n")
    assert stage.env()["A"] == "file"
    stage.spoil(how)
    assert stage.env()["A"] == "file"
    stage.now += GRACE_S - 0.1
    assert stage.env()["A"] == "file" and len(caplog.messages) == 1
    stage.now += 0.2
    assert stage.env()["A"] == "inherited"


def test_back_in_time(stage: Stage) -> None:
    """ADP-6.31: the seconds begin anew with each good read."""
    for text in ("A=1\n", "A=2\n"):
        stage.mend(text)
        assert stage.env()["A"] == text[2]
        stage.spoil("gone")
        assert stage.env()["A"] == text[2]
        stage.now += GRACE_S - 0.1
        assert stage.env()["A"] == text[2]


@pytest.mark.parametrize("how", UNREADABLE)
def test_nothing_good_yet(stage: Stage, how: str) -> None:
    """ADP-6.31: it is `not_sent`, naming the file; there may be values in it."""
    stage.file.write_text("")
    stage.spoil(how)
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            stage.env()
        assert str(stage.file) in caught.value.text and "hush" not in caught.value.text
    stage.mend("A=new\n")
    assert stage.env()["A"] == "new"


@pytest.mark.parametrize(
    "data",
    [
        "A=café".encode(),
        "A=café".encode("latin-1"),
        "A=café".encode("utf-16"),
        b"\xfe\xff" + "A=café".encode("utf-16-be"),
        b"\xef\xbb\xbf" + "A=café".encode(),
    ],
)
def test_decoded_as_hermes_does(stage: Stage, data: bytes) -> None:
    """UTF-8, else Latin-1; what Notepad calls Unicode, too."""
    stage.file.write_bytes(data)
    assert stage.env()["A"] == "café"
