"""A file that others write: its last good value."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.cached_file import (
    LastGood,
    Unusable,
    bytes_of,
    json_of,
    state_of,
    text_of,
)


class Stage:
    """A file, what was told of it, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.file = folder / "values"
        self.reads = 0
        self.told: list[str] = []

    def last_good(self, **policies: object) -> LastGood[str]:
        """Return what keeps the file's value."""
        made: Callable[..., LastGood[str]] = LastGood
        return made(
            self.file,
            self.parse,
            lambda problem: self.told.append(str(problem)),
            ticks=lambda: self.now,
            **policies,
        )

    def parse(self, file: Path) -> str:
        """Return the text of the file, unless it is bad."""
        self.reads += 1
        text = text_of(file, 1000).strip()
        if text.startswith("bad"):
            raise Unusable(f"{file}: {text}")
        return text

    def replace(self, text: str) -> None:
        """Put another file in its place, as editors do: another inode, whatever the clock says."""
        draft = self.file.with_name("draft")
        draft.write_text(text)
        draft.replace(self.file)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return one whose file does not exist yet."""
    return Stage(tmp_path)


def test_it_is_read_when_it_changed(stage: Stage) -> None:
    """And only then."""
    stage.replace("a")
    value = stage.last_good()
    assert (value(), value(), stage.reads) == ("a", "a", 1)
    stage.replace("b")
    assert (value(), value(), stage.reads) == ("b", "b", 2)


def test_what_it_said_last_holds_and_the_problem_is_told_once(stage: Stage) -> None:
    """What is wrong with the text is looked at once per change; each problem is told once."""
    stage.replace("a")
    value = stage.last_good()
    value()
    stage.replace("bad 1")
    assert (value(), value(), stage.reads) == ("a", "a", 2)
    assert stage.told == [f"{stage.file}: bad 1"] == [str(value.problem)]
    stage.replace("bad 2")
    assert value() == "a" and len(stage.told) == 2
    stage.replace("b")
    assert value() == "b" and value.problem is None


def test_nothing_good_yet(stage: Stage) -> None:
    """An error, at each call: there may be values in it; also of one that was empty before."""
    stage.replace("")
    value = stage.last_good()
    assert value() == ""
    stage.replace("bad")
    for _ in range(2):
        with pytest.raises(Unusable, match="bad"):
            value()
    assert (stage.reads, stage.told) == (2, [])
    stage.replace("a")
    assert value() == "a"


def test_a_fallback(stage: Stage) -> None:
    """It holds until something good was read; what is wrong is told."""
    stage.replace("bad")
    value = stage.last_good(fallback="else")
    assert (value(), value(), len(stage.told)) == ("else", "else", 1)
    stage.replace("a")
    assert value() == "a"


def test_a_missing_file(stage: Stage) -> None:
    """It has a value of its own, or is a problem as any."""
    assert stage.last_good(missing="none")() == "none"
    with pytest.raises(Unusable, match="cannot be read: No such file"):
        stage.last_good()()


@pytest.mark.parametrize("text", ["", None])
def test_a_grace_for_one_that_is_being_written(stage: Stage, text: str | None) -> None:
    """Empty or gone, it has some seconds to come back; they begin anew with each good read."""
    value = stage.last_good(missing="", grace_s=5.0)
    for good in ("a", "b"):
        stage.replace(good)
        assert value() == good
        stage.file.unlink() if text is None else stage.replace(text)
        assert value() == good
        stage.now += 4.9
        assert value() == good
    assert len(stage.told) == 2 and "is empty or gone" in stage.told[0]
    stage.now += 0.2
    assert value() == ""


def test_one_that_is_being_written_is_read_when_it_keeps_still(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time it is not waited for; then as long as it changes, but not for ever."""
    waits: list[float] = []

    def write_on(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) < 3:
            stage.replace("b" * len(waits))

    monkeypatch.setattr("time.sleep", write_on)
    stage.replace("a")
    value = stage.last_good(settle_s=0.05)
    assert (value(), waits) == ("a", [])
    stage.replace("b")
    assert (value(), waits, stage.reads) == ("bb", [0.05] * 3, 2)
    monkeypatch.setattr("time.sleep", lambda seconds: stage.replace("c"))
    stage.replace("c")
    assert value() == "c"


def test_what_leaves_no_trace(stage: Stage) -> None:
    """What could not be read is tried again although nothing of the file has changed."""
    stage.replace("a")
    readable = False

    def read(path: Path) -> str:
        if not readable:
            raise PermissionError(13, "Permission denied")
        return path.read_text()

    value = LastGood(stage.file, read)
    with pytest.raises(Unusable, match="Permission denied"):
        value()
    readable = True
    assert value() == "a"


def test_a_problem_is_no_longer_when_it_is_raised_again(stage: Stage) -> None:
    """Its traceback does not grow in a process that lives for months."""
    stage.replace("bad")
    value = stage.last_good()
    depths = set()
    for _ in range(3):
        with pytest.raises(WakebusError) as caught:
            value()
        depths.add(len(caught.traceback))
    assert len(depths) == 1


def test_a_mode_that_changed(stage: Stage) -> None:
    """ADP-7.7: what could not be read is read again once it may be."""
    stage.replace("a: 1\n")
    before = state_of(stage.file)
    stage.file.chmod(0o000)
    barred = state_of(stage.file)
    stage.file.chmod(0o600)
    assert len({before, barred, state_of(stage.file)}) == 3


def test_a_file_that_others_may_write(stage: Stage) -> None:
    """ADP-6.34: as one that cannot be read, told once; also by its folder. One's own group may."""
    values = stage.last_good()
    stage.replace("a")
    stage.file.chmod(0o664)
    assert values() == "a"
    stage.replace("b")
    stage.file.chmod(0o646)
    assert (values(), values()) == ("a", "a")
    way = f"others may write it (mode 0646); chmod go-w {stage.file}"
    assert stage.told == [f"{stage.file} is not used: {way}"]
    stage.file.chmod(0o644)
    stage.file.parent.chmod(0o777)
    assert values() == "a" and "anyone may replace it" in stage.told[1]
    stage.file.parent.chmod(0o700)
    assert values() == "b" and len(stage.told) == 2
    assert values.problem is None


@pytest.mark.parametrize("kind", ["folder", "pipe", "huge", "gone"])
def test_bytes_of_a_file(stage: Stage, kind: str) -> None:
    """Nothing waits, nothing is read without bound, no descriptor is left open."""
    if kind == "folder":
        stage.file.mkdir()
    elif kind == "pipe":
        os.mkfifo(stage.file)
    elif kind == "huge":
        stage.replace("x" * 3000)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112, PTH208
    says = {"huge": "over 2 KiB", "gone": "No such file"}.get(kind, "not a file")
    for _ in range(3):
        with pytest.raises(OSError) as caught:
            bytes_of(stage.file, 2048)
        assert says in str(caught.value)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff", "is not UTF-8"),
        (b'{\n"a": hush}', ":2 is not JSON"),
        (b"[" * 100_000, " is not JSON"),
    ],
)
def test_what_is_no_json(stage: Stage, data: bytes, says: str) -> None:
    """The file and the line are named; its text is not shown."""
    stage.file.write_bytes(data)
    with pytest.raises(Unusable) as caught:
        json_of(stage.file, 1 << 20)
    assert str(caught.value) == f"{stage.file}{says}" or says == "is not UTF-8"
    assert str(caught.value).endswith(says) and "hush" not in str(caught.value)
