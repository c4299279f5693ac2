"""Where the bus lives."""

import json
import os
import pwd
import stat
from pathlib import Path

import pytest

from wakebus.broker import paths
from wakebus.broker.errors import NotRunning


def test_the_root_is_the_real_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.1: from the user database; $HOME is not looked at."""
    monkeypatch.setenv("HOME", "/nowhere")
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert paths.bus_dir() == home / ".hermes" / "bus"
    assert paths.hermes_home() == home / ".hermes"


def test_the_environment_moves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.1: an empty variable counts as none; a relative path becomes absolute."""
    monkeypatch.setenv("HERMES_BUS_ROOT", "some/where")
    assert paths.bus_dir() == Path.cwd() / "some" / "where" / "bus"
    monkeypatch.setenv("HERMES_BUS_ROOT", "  ")
    monkeypatch.setenv("HOME", "/nowhere")
    assert paths.bus_root() == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".hermes"


def test_the_address_is_private_and_whole(tmp_path: Path) -> None:
    """PROTOCOL-1.5: 0600, in one step, nothing else left."""
    paths.write_address(tmp_path, {"router": "ipc:///x", "pid": 5})
    assert paths.read_address(tmp_path) == {"router": "ipc:///x", "pid": 5}
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"router": 5}', "\udcff"])
def test_a_bad_address_file_is_named(tmp_path: Path, text: str) -> None:
    """PROTOCOL-1.5: whatever it holds, the error is NotRunning with the path."""
    (tmp_path / "address.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(NotRunning, match=r"address\.json"):
        paths.read_address(tmp_path)


def test_no_address_file(tmp_path: Path) -> None:
    """The commonest case: none has started here, or it was stopped."""
    with pytest.raises(NotRunning, match="no broker runs here"):
        paths.read_address(tmp_path)
    with pytest.raises(NotRunning):
        paths.read_address(tmp_path / "missing")


def test_the_file_holds_json(tmp_path: Path) -> None:
    """PROTOCOL-1.5: other languages read it too."""
    paths.write_address(tmp_path, {"router": "ipc:///ü"})
    assert json.loads((tmp_path / "address.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_an_address_that_is_no_file(tmp_path: Path, kind: str) -> None:
    """PROTOCOL-1.5: a link is not followed, a pipe holds nobody."""
    path = tmp_path / "address.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "other").write_text('{"router": "ipc:///evil"}')
        path.symlink_to(tmp_path / "other")
    with pytest.raises(NotRunning, match=r"address\.json"):
        paths.read_address(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_somebody_elses_address(tmp_path: Path, whose: str) -> None:
    """PROTOCOL-1.5: it is not trusted, and named."""
    folder = tmp_path / "bus"
    folder.mkdir()
    paths.write_address(folder, {"router": "ipc:///x"})
    theirs = folder / "address.json" if whose == "file" else folder
    os.chown(theirs, 12345, 12345)
    with pytest.raises(NotRunning, match=f"{theirs} is not"):
        paths.read_address(folder)


def test_a_planted_draft_is_not_followed(tmp_path: Path) -> None:
    """PROTOCOL-1.5: nor is a link at the address itself."""
    (tmp_path / "mine").write_text("mine")
    for name in (f".address.json.{os.getpid()}", "address.json"):
        (tmp_path / name).symlink_to(tmp_path / "mine")
    paths.write_address(tmp_path, {"router": "ipc:///x"})
    assert (tmp_path / "mine").read_text() == "mine"
    assert paths.read_address(tmp_path) == {"router": "ipc:///x"}


def test_a_root_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.1: one sentence that can be printed, for clients too."""
    monkeypatch.setenv("HERMES_BUS_ROOT", "/tmp/\udcff")
    for function in (paths.bus_root, paths.bus_dir, paths.router_address):
        with pytest.raises(NotRunning, match=r"HERMES_BUS_ROOT .* not UTF-8") as caught:
            function()
        caught.value.text.encode()


def test_a_childs_roots_are_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.9: what was given; what was not stays away."""
    monkeypatch.setenv("HERMES_HOME", "some/home")
    found = paths.child_environ()
    assert found["HERMES_HOME"] == str(Path.cwd() / "some/home")
    assert "HERMES_BUS_ROOT" not in found
