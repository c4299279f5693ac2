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
    """The commonest case: no broker has started here."""
    with pytest.raises(NotRunning, match="no broker"):
        paths.read_address(tmp_path)
    with pytest.raises(NotRunning):
        paths.read_address(tmp_path / "missing")


def test_the_file_holds_json(tmp_path: Path) -> None:
    """PROTOCOL-1.5: other languages read it too."""
    paths.write_address(tmp_path, {"router": "ipc:///ü"})
    assert json.loads((tmp_path / "address.json").read_text(encoding="utf-8"))
