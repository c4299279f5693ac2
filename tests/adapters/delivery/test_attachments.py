"""Files that were taken to be sent."""

import os
import socket
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebus.adapters.delivery import attachments
from wakebus.adapters.delivery.attachments import (
    KEEP_S,
    MAX_FILE,
    clean_name,
    forget,
    load,
    store,
    sweep,
)
from wakebus.adapters.errors import Rejected, Unavailable
from wakebus.adapters.sanitize import line


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    (tmp_path / "bus").mkdir()
    return tmp_path / "bus"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(b"\x89PNG" * 100)
    return path


def copy_of(body: Mapping[str, Any], bus: Path) -> Path:
    return bus / "files" / str(body["file"]["copy"])


def test_stored_and_loaded(photo: Path, bus: Path) -> None:
    """ADP-5.25: a copy for the courier's eyes only, whatever becomes of the file meanwhile."""
    body = {"file": store(photo, bus)}
    assert {name: body["file"][name] for name in ("name", "size", "media_type")} == {
        "name": "photo.png",
        "size": 400,
        "media_type": "image/png",
    }
    photo.unlink()
    file = load(body, bus)
    assert file is not None
    assert (file.name, file.data, file.media_type) == ("photo.png", b"\x89PNG" * 100, "image/png")
    assert stat.S_IMODE(copy_of(body, bus).stat().st_mode) == 0o600
    assert stat.S_IMODE((bus / "files").stat().st_mode) == 0o700


def test_without_a_file(bus: Path) -> None:
    """A message without one."""
    assert load({"text": "hi"}, bus) is None
    forget({}, bus)
    assert sweep(bus, 0.0) == 0


def test_two_of_one_name(photo: Path, bus: Path) -> None:
    """ADP-5.25: copies never meet."""
    assert store(photo, bus)["copy"] != store(photo, bus)["copy"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "no such file"),
        (Path.mkdir, "is a folder"),
        (os.mkfifo, "is a pipe"),
        (Path.touch, "is empty"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device"),
    ],
)
def test_what_is_not_sent(make: Any, says: str, tmp_path: Path, bus: Path) -> None:
    """ADP-5.25: only regular files with something in them; the error names the path."""
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(Rejected, match=says) as caught:
        store(path, bus)
    assert str(path) in caught.value.text and not (bus / "files").exists()


def test_a_socket(tmp_path: Path, bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.25: it is not opened; nobody hangs."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("s")
        with pytest.raises(Rejected, match="'s' is a socket"):
            store(Path("s"), bus)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_a_path_that_is_none(path: str, bus: Path) -> None:
    """ADP-5.25: named, no traceback."""
    with pytest.raises(Rejected, match="file '"):
        store(Path(path), bus)


def test_another_users(photo: Path, bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.25: an agent that is talked into it sends no file of the system."""
    monkeypatch.setattr(os, "geteuid", lambda: photo.stat().st_uid + 1)
    with pytest.raises(Rejected, match="belongs to another user"):
        store(photo, bus)


def test_too_large(tmp_path: Path, bus: Path) -> None:
    """ADP-5.25: with its size and the limit, before a byte is copied."""
    path = tmp_path / "film"
    with path.open("wb") as film:
        film.truncate(MAX_FILE + 1)
    with pytest.raises(Rejected, match=r"20971521 bytes; at most 20971520 \(20\.0 MiB\) are"):
        store(path, bus)
    assert not (bus / "files").exists()


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="Linux only")
def test_one_whose_size_nobody_knows(bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.25: it has no size and is not empty; that is what is said."""
    monkeypatch.setattr(os, "geteuid", lambda: Path("/proc/version").stat().st_uid)
    with pytest.raises(Rejected, match="no regular file of a known size"):
        store(Path("/proc/version"), bus)


@pytest.mark.parametrize(("more", "says"), [(b"x", "changed"), (b"x" * MAX_FILE, "grew")])
def test_one_that_grows(
    more: bytes, says: str, photo: Path, bus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADP-5.25: half a file is no file, and nothing of it stays."""
    check = attachments._check

    def grow(path: Path, source: int) -> None:
        check(path, source)
        with path.open("ab") as file:
            file.write(more)

    monkeypatch.setattr(attachments, "_check", grow)
    if says == "changed":
        read = os.read
        sizes = iter([100, 300])
        monkeypatch.setattr(os, "read", lambda fd, count: read(fd, next(sizes, 0)))
    with pytest.raises(Rejected, match=says):
        store(photo, bus)
    assert list((bus / "files").iterdir()) == []


def test_nowhere_to_keep_it(photo: Path, bus: Path) -> None:
    """ADP-5.25: it may work later, and where it is to be is said."""
    (bus / "files").write_text("no folder")
    with pytest.raises(Unavailable, match=r"cannot be kept in .*files"):
        store(photo, bus)


# --- what a message says of its file ---------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("copy", "../../../etc/passwd", "names no file of the bus"),
        ("copy", "photo.png", "names no file of the bus"),
        ("copy", None, "names no file of the bus"),
        ("copy", "0" * 32, "is gone"),
        ("copy", "0" * 32 + "\n", "names no file of the bus"),
        ("size", 399, "was changed"),
        ("size", True, "size is none of"),
        ("size", 0, "size is none of"),
        ("size", MAX_FILE + 1, "size is none of"),
        ("sha256", "0" * 64, "was changed"),
        ("sha256", ["x"], "is no hash"),
    ],
)
def test_a_forged_description(field: str, value: object, says: str, photo: Path, bus: Path) -> None:
    """ADP-5.26: a sender cannot make the courier send another file: `rejected`, and why."""
    body = {"file": {**store(photo, bus), field: value}}
    with pytest.raises(Rejected, match=says):
        load(body, bus)


@pytest.mark.parametrize("held", ["/etc/passwd", 7, [], True])
def test_no_description(held: object, bus: Path) -> None:
    """ADP-5.26: said with the command that makes one."""
    with pytest.raises(Rejected, match="wakebus send --file"):
        load({"file": held}, bus)


@pytest.mark.parametrize("what", ["link", "hard link", "folder", "pipe", "bytes"])
def test_another_thing_in_its_place(what: str, photo: Path, bus: Path) -> None:
    """ADP-5.26: nothing but the very copy is read, through no link."""
    body = {"file": store(photo, bus)}
    copy = copy_of(body, bus)
    if what == "hard link":
        (bus / "files" / "other").hardlink_to(copy)
    else:
        copy.unlink()
    acts: dict[str, Callable[[], object]] = {
        "link": lambda: copy.symlink_to(photo),
        "hard link": lambda: None,
        "folder": copy.mkdir,
        "pipe": lambda: os.mkfifo(copy),
        "bytes": lambda: copy.write_bytes(b"x" * 400),
    }
    acts[what]()
    with pytest.raises(Rejected, match="was changed"):
        load(body, bus)


def test_a_link_in_the_place_of_the_folder(photo: Path, bus: Path) -> None:
    """ADP-5.26: their folder is no link."""
    body = {"file": store(photo, bus)}
    (bus / "files").rename(bus / "elsewhere")
    (bus / "files").symlink_to(bus / "elsewhere")
    with pytest.raises(Rejected, match="was changed"):
        load(body, bus)


def test_one_that_cannot_be_read(photo: Path, bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-5.26: an error of the disk is `not_sent`: the file is still there."""
    body = {"file": store(photo, bus)}

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(Unavailable, match="input/output error"):
        patch.setattr(os, "fdopen", fails)
        load(body, bus)


def test_what_a_peer_writes_as_name_and_kind(photo: Path, bus: Path) -> None:
    """ADP-5.26: they go into forms and headers: one clean line, a type or none."""
    held = {
        **store(photo, bus),
        "name": "../a\r\nb\u202e/c\x1b[0md.png",
        "media_type": "a/b\r\nX: y",
    }
    file = load({"file": held}, bus)
    assert file is not None
    assert (file.name, file.media_type) == ("cd.png", "application/octet-stream")


# --- what goes -------------------------------------------------------------------------------


def test_forget(photo: Path, bus: Path) -> None:
    """ADP-5.26: what was sent goes; what a peer names beside it stays."""
    body, other = {"file": store(photo, bus)}, {"file": store(photo, bus)}
    forget(body, bus)
    forget(body, bus)
    assert not copy_of(body, bus).exists() and copy_of(other, bus).exists()
    forget({"file": {"copy": "../../photo.png"}}, bus)
    forget({"file": "photo.png"}, bus)
    assert photo.exists()


def test_sweep(photo: Path, bus: Path) -> None:
    """ADP-5.26: after 8 days, and only what is ours."""
    body = {"file": store(photo, bus)}
    (bus / "files" / "notes.txt").write_text("mine")
    (bus / "files" / ("f" * 32)).mkdir()
    now = copy_of(body, bus).stat().st_mtime
    assert sweep(bus, now + KEEP_S - 1) == 0
    assert sweep(bus, now + KEEP_S + 1) == 1
    assert not copy_of(body, bus).exists() and (bus / "files" / "notes.txt").exists()


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("a.txt", "a.txt"),
        ("报告 2026.pdf", "报告 2026.pdf"),
        ("a/b\\c.txt", "c.txt"),
        ("..", "file"),
        ("", "file"),
        ("x" * 300 + ".tar.gz", "x" * 117 + ".gz"),
        ("x" * 300, "x" * 120),
        ("a\udcffb", "a\ufffdb"),
    ],
)
def test_clean_names(name: str, clean: str) -> None:
    """ADP-5.26: its ending is kept: by it people and platforms know what it is."""
    assert clean_name(name) == clean


@given(st.text(max_size=130))
@settings(max_examples=60)
def test_any_name(name: str) -> None:
    """ADP-5.26: one line, no slash, never empty, and cleaning twice changes nothing."""
    clean = clean_name(name)
    assert 0 < len(clean) <= 120 and "/" not in clean and clean == line(clean)
    assert clean_name(clean) == clean
