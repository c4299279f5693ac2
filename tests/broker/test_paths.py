"""Where the bus lives."""

import os
import pwd
from pathlib import Path

import pytest

from wakebus.broker import paths
from wakebus.broker.address import router_address
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


def test_a_root_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.1: one sentence that can be printed, for clients too."""
    monkeypatch.setenv("HERMES_BUS_ROOT", "/tmp/\udcff")
    for function in (paths.bus_root, paths.bus_dir, router_address):
        with pytest.raises(NotRunning, match=r"HERMES_BUS_ROOT .* not UTF-8") as caught:
            function()
        caught.value.text.encode()


def test_a_childs_roots_are_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.9: what was given; what was not stays away."""
    monkeypatch.setenv("HERMES_HOME", "some/home")
    found = paths.child_environ()
    assert found["HERMES_HOME"] == str(Path.cwd() / "some/home")
    assert "HERMES_BUS_ROOT" not in found
