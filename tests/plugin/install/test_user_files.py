"""A user's file is replaced in one step, or not at all."""

import os
from pathlib import Path

import pytest

from wakebus.plugin.install import user_files
from wakebus.plugin.install.errors import CannotInstall


def test_line_ends_stay(tmp_path: Path) -> None:
    """What is read and written back is the same bytes."""
    path = tmp_path / "f"
    path.write_bytes(b"a\r\nb\n")
    text = user_files.read_file(path)
    assert text == "a\r\nb\n"
    user_files.write_file(path, text)
    assert path.read_bytes() == b"a\r\nb\n"
    assert [one.name for one in tmp_path.iterdir()] == ["f"]


def test_mode_and_link_stay(tmp_path: Path) -> None:
    """A config that links into somebody's dotfiles keeps doing so."""
    real, link = tmp_path / "dotfiles", tmp_path / "config.yaml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    user_files.write_file(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_new_file_is_private(tmp_path: Path) -> None:
    """Its folders are made."""
    user_files.write_file(tmp_path / "a" / "b" / "f", "x")
    assert (tmp_path / "a" / "b" / "f").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """No file is None; a folder, other bytes and far too many of them are told."""
    assert user_files.read_file(tmp_path / "none") is None
    (tmp_path / "latin").write_bytes(b"a: 1\nb: \xe9\n")
    (tmp_path / "big").write_bytes(b" " * (user_files.MAX_BYTES + 1))
    for name, words in (
        ("latin", "latin:2: not UTF-8"),
        ("big", "larger than 4 MiB"),
        (".", "read"),
    ):
        with pytest.raises(CannotInstall, match=words):
            user_files.read_file(tmp_path / name)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    """The reason, the old file, and no draft beside it."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotInstall, match="cannot write"):
        user_files.write_file(tmp_path / "file" / "f", "y")
    folder = tmp_path / "folder"
    (folder / "f").mkdir(parents=True)
    with pytest.raises(CannotInstall, match="cannot write"):
        user_files.write_file(folder / "f", "y")
    assert [one.name for one in folder.iterdir()] == ["f"]


def test_remove(tmp_path: Path) -> None:
    """With what Python keeps beside it, and the folder if nothing else is in it."""
    for name in ("one", "two"):
        user_files.write_file(tmp_path / name / "handler.py", "x")
    cache = tmp_path / "one" / "__pycache__"
    cache.mkdir()
    (cache / "handler.cpython-311.pyc").write_bytes(b"x")
    (tmp_path / "two" / "mine").write_text("x")
    user_files.remove_file(tmp_path / "one" / "handler.py")
    user_files.remove_file(tmp_path / "two" / "handler.py")
    user_files.remove_file(tmp_path / "none" / "f")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["mine", "two"]


def test_a_folder_without_a_file_may_be_written(tmp_path: Path) -> None:
    """Nothing is there yet: nothing stands in the way, and nothing is made."""
    user_files.check_writable(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_what_is_read_only_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file or its folder, through a link, and how to look why."""
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    for name in ("real", tmp_path.name):
        monkeypatch.setattr(os, "access", lambda path, _, name=name: Path(path).name != name)
        with pytest.raises(CannotInstall, match=f"{name} is read-only; nothing") as caught:
            user_files.check_writable(tmp_path / "link")
        assert f"lsattr -d {tmp_path / 'real'}" in caught.value.data["step"]
