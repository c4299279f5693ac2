"""The bus folder and its files are one user's."""

import os
import stat
from pathlib import Path

import pytest

from wakebus.broker.system.private_files import CannotStart, append_to, make_folder


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def test_every_parent_that_is_made_is_private(tmp_path: Path) -> None:
    """PROTOCOL-1.1: whatever the umask lets; what was there stays as it was."""
    tmp_path.chmod(0o755)
    old = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b" / "bus")
    finally:
        os.umask(old)
    assert [mode(tmp_path / p) for p in ("a", "a/b", "a/b/bus", ".")] == [0o700] * 3 + [0o755]


@pytest.mark.parametrize(("wide", "good"), [(0o777, False), (0o757, False), (0o1777, True)])
def test_a_parent_that_everybody_may_write(tmp_path: Path, wide: int, good: bool) -> None:
    """PROTOCOL-1.1: it is named, with the command that mends it; a sticky one is /tmp's kind."""
    parent = tmp_path / "p"
    parent.mkdir()
    parent.chmod(wide)
    if good:
        make_folder(parent / "bus")
    else:
        with pytest.raises(CannotStart, match=f"chmod o-w {parent}"):
            make_folder(parent / "bus")


def test_a_file_among_the_parents(tmp_path: Path) -> None:
    """PROTOCOL-1.1: an error that names the folder."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CannotStart, match="file/x/bus"):
        make_folder(tmp_path / "file" / "x" / "bus")


def test_appending(tmp_path: Path) -> None:
    """PROTOCOL-1.8: made 0600, narrowed, and nothing of it is lost."""
    path = tmp_path / "log"
    path.write_text("one ")
    path.chmod(0o666)
    with os.fdopen(append_to(path), "w") as file:
        file.write("two")
    assert path.read_text() == "one two" and mode(path) == 0o600


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_what_is_no_file_of_ours(tmp_path: Path, kind: str) -> None:
    """PROTOCOL-1.8: it is named, and neither followed nor changed."""
    path, mine = tmp_path / "log", tmp_path / "mine"
    mine.write_text("mine")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(mine if kind == "link" else tmp_path / "nothing")
    with pytest.raises(CannotStart, match=f"{path}.*move it away"):
        append_to(path)
    assert mine.read_text() == "mine" and not (tmp_path / "nothing").exists()
