"""RULES-7.1, ADP-6.34: files that others could have written are not used."""

import os
from pathlib import Path

import pytest

from wakebus.broker.system.file_trust import refusal, refusal_of

UID = os.getuid()


def _check(path: Path, uid: int = UID) -> str:
    return refusal(path.stat(), path.parent.stat(), uid, str(path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that only its owner may write."""
    path = tmp_path / "f"
    path.write_text("x")
    path.chmod(0o644)
    return path


def test_an_own_file_is_used(file: Path) -> None:
    """Others may read it."""
    assert _check(file) == ""


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o602])
def test_a_file_that_others_may_write_is_refused(file: Path, mode: int) -> None:
    """The reason has the mode and the command that mends it."""
    file.chmod(mode)
    assert f"{mode:04o}" in _check(file) and f"chmod go-w {file}" in _check(file)


def test_another_users_file_is_refused(file: Path) -> None:
    """Root's is fine, everybody else's is not."""
    reason = _check(file, uid=UID + 1)
    assert ("belongs to another user" in reason) == (file.stat().st_uid != 0)
    os.chown(file, 12345, -1) if UID == 0 else None
    assert UID != 0 or "uid 12345" in _check(file)


def test_a_folder_where_anyone_may_replace_it_is_refused(file: Path) -> None:
    """Unless the sticky bit protects it, as in /tmp."""
    file.parent.chmod(0o777)
    assert "world-writable" in _check(file)
    file.parent.chmod(0o1777)
    assert _check(file) == ""


def test_a_folder_or_device_is_no_file(tmp_path: Path) -> None:
    """Only regular files."""
    assert _check(tmp_path) == "not a file"
    assert _check(Path("/dev/null")) == "not a file"


def test_every_folder_above_counts(tmp_path: Path) -> None:
    """RULES-7.1, ADP-6.34: who may write the folder of its folder may replace it, too."""
    (folder := tmp_path / "a" / "b").mkdir(parents=True)
    (file := folder / "f").write_text("x")
    assert refusal_of(file, file.stat()) == ""
    (tmp_path / "a").chmod(0o777)
    assert f"o-w {tmp_path / 'a'} " in refusal_of(file, file.stat())
    (tmp_path / "a").chmod(0o1777)
    assert refusal_of(file, file.stat()) == ""


def test_the_way_to_it_counts(tmp_path: Path, file: Path) -> None:
    """Neither the folder of a link nor the one that it leads to may be anyone's."""
    (folder := tmp_path / "links").mkdir()
    (link := folder / "f").symlink_to(file)
    assert refusal_of(link, link.stat()) == refusal_of(file, file.stat()) == ""
    for place in (folder, tmp_path):
        before = place.stat().st_mode
        place.chmod(0o777)
        assert f"chmod o-w {place}" in refusal_of(link, link.stat()) + "$"
        place.chmod(before)
