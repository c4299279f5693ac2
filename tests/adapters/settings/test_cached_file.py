"""The values of a file, over the moments in which it cannot be read."""

import os
from pathlib import Path

import pytest

from wakebus.adapters.errors import Unavailable
from wakebus.adapters.settings.cached_file import KEEP_S, Kept
from wakebus.adapters.settings.environment import Environment


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


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_being_written(stage: Stage, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """ADP-6.31: one that is empty or gone has some seconds to come back; then it is empty."""
    stage.file.write_text("A=file\n")
    assert stage.env()["A"] == "file"
    stage.spoil(how)
    assert stage.env()["A"] == "file"
    stage.now += KEEP_S - 0.1
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
        stage.now += KEEP_S - 0.1
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


def test_what_leaves_no_trace(tmp_path: Path) -> None:
    """What could not be read is tried again although nothing of the file has changed."""
    file = tmp_path / ".env"
    file.write_text("A=1\n")
    readable = False

    def read(path: Path) -> dict[str, str]:
        if not readable:
            raise PermissionError(13, "Permission denied")
        return {"A": path.read_text()[2]}

    kept = Kept(file, read)
    with pytest.raises(Unavailable, match="Permission denied"):
        kept()
    readable = True
    assert kept() == {"A": "1"}


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


def test_utf_32(stage: Stage) -> None:
    """It is no such text, and said."""
    stage.file.write_bytes("A=1".encode("utf-32"))
    with pytest.raises(Unavailable, match="UTF-8"):
        stage.env()
