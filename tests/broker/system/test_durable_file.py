"""Small files that a cut of power leaves whole."""

import errno
import os
from pathlib import Path

import pytest

from wakebus.broker.system import durable_file
from wakebus.broker.system.durable_file import (
    make_folders,
    put_in_place,
    replace_file,
    sync_file,
    sync_folder,
)


def test_it_is_replaced_whole(tmp_path: Path) -> None:
    """Private whatever the umask lets, and nothing else is left."""
    old = os.umask(0o277)
    try:
        replace_file(tmp_path / "f", b"one")
        replace_file(tmp_path / "f", b"two", mode=0o640)
    finally:
        os.umask(old)
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"two" and file.stat().st_mode & 0o777 == 0o640


def test_only_new(tmp_path: Path) -> None:
    """What is there stays."""
    replace_file(tmp_path / "f", b"one", only_new=True)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "f", b"two", only_new=True)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one"]


def test_a_planted_draft_is_not_followed(tmp_path: Path) -> None:
    """Nor is a link at the name itself."""
    (tmp_path / "mine").write_text("mine")
    for name in (f".f.{os.getpid()}.draft", "f"):
        (tmp_path / name).symlink_to("mine")
    replace_file(tmp_path / "f", b"x")
    assert (tmp_path / "mine").read_text() == "mine" and not (tmp_path / "f").is_symlink()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_does_not_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The old file, whole, and no draft."""
    replace_file(tmp_path / "f", b"old")

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable_file, "sync_file", fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        replace_file(tmp_path / "f", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
    (tmp_path / "draft").write_bytes(b"new")
    with pytest.raises(OSError, match=os.strerror(number)):
        put_in_place(tmp_path / "draft", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "told"), [(errno.EIO, True), (errno.EINVAL, False), (errno.ENOTSUP, False)]
)
def test_a_file_system_that_syncs_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    """The file is there all the same; an error of the disk is an error."""

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable_file, "sync_file", fail)
    if told:
        with pytest.raises(OSError, match=os.strerror(number)):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may be made in it: they are."""
    real = os.open

    def refuse(path: Path, flags: int, *args: int) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *args)

    monkeypatch.setattr(os, "open", refuse)
    replace_file(tmp_path / "f", b"x")
    assert (tmp_path / "f").read_bytes() == b"x"


@pytest.mark.parametrize("known", [True, False])
def test_the_drives_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """macOS has F_FULLFSYNC for it; where the file system knows none, fsync."""
    asked = []

    def ask(descriptor: int, command: int) -> None:
        asked.append(command)
        if not known:
            raise OSError(errno.ENOTTY, "not known")

    monkeypatch.setattr(durable_file, "_FULL", 51)
    monkeypatch.setattr("fcntl.fcntl", ask)
    monkeypatch.setattr(os, "fsync", lambda descriptor: asked.append(-1))
    with (tmp_path / "f").open("wb") as file:
        sync_file(file.fileno())
    assert asked == ([51] if known else [51, -1])


def test_folders_are_made(tmp_path: Path) -> None:
    """With their mode, also the parents; what was there stays as it was."""
    tmp_path.chmod(0o755)
    make_folders(tmp_path / "a" / "b", 0o700)
    made = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert [one.stat().st_mode & 0o777 for one in made] == [0o755, 0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        make_folders(tmp_path / "file" / "x")


def test_what_a_cut_left_goes(tmp_path: Path) -> None:
    """A draft of a process that was killed, at the next writing; what others may write stays."""
    names = [".f.17.draft", ".f.18.draft", ".f.17", "f.17.draft", ".g.17.draft"]
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".f.18.draft").touch()
    replace_file(tmp_path / "f", b"x")
    assert {file.name for file in tmp_path.iterdir()} == {"f", *names[1:]}


def test_a_draft_that_goes_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has put it in place: that is no error."""
    (draft := tmp_path / ".f.17.draft").touch()
    real = os.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)
        if path == draft:
            draft.unlink()
        return found

    monkeypatch.setattr(os, "stat", stat)
    replace_file(tmp_path / "f", b"x")
    assert [file.name for file in tmp_path.iterdir()] == ["f"]
