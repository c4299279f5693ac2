"""What launchd is asked, and what systemd: the same steps, each in its own words."""

import os
import plistlib
from pathlib import Path

import pytest

from wakebus.broker import user_unit
from wakebus.plugin.services import service_manager as manager
from wakebus.plugin.services.unit_files import Service

SERVICE = Service(
    "broker",
    "wakebus: the broker",
    ("/v/bin/python", "-P", "-m", "wakebus.broker", "run"),
    {"HERMES_BUS_ROOT": "/r"},
    Path("/"),
    Path("/r/bus/broker.out"),
)


@pytest.fixture
def macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A macOS, as far as these files ask; its home."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(manager, "ON_MACOS", True)
    monkeypatch.setattr(user_unit, "_home", lambda: tmp_path)
    return tmp_path


def test_macos_from_nothing_to_nothing(macos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.23: a plist in LaunchAgents, bootstrapped; again: nothing; booted out, removed."""
    asked: list[str] = []
    monkeypatch.setattr(manager, "run_command", lambda words, **_: asked.append(" ".join(words)))
    domain, path = f"gui/{os.getuid()}", macos / "Library/LaunchAgents/wakebus.broker.plist"
    unit = manager.unit_for(SERVICE)
    assert (unit.path, unit.changed) == (path, True)
    manager.put_unit(unit, start=True)
    assert asked == [
        f"launchctl bootout {domain}/wakebus.broker",
        f"launchctl bootstrap {domain} {path}",
    ]
    assert plistlib.loads(path.read_bytes())["ProgramArguments"][-1] == "run"
    asked.clear()
    again = manager.unit_for(SERVICE)
    manager.put_unit(again, start=True)
    assert not again.changed and asked == [f"launchctl print {domain}/wakebus.broker"]
    (found,) = manager.installed_units()
    assert (found.name, found.path) == ("broker", path)
    asked.clear()
    manager.remove_unit(found, managed=True)
    assert asked == [f"launchctl bootout {domain}/wakebus.broker"] and not path.exists()


def test_the_start_on_macos(macos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL-1.23: by launchd where the plist is for this bus, by hand elsewhere."""
    monkeypatch.setattr(manager, "run_command", lambda words, **_: None)
    assert user_unit.start_command() == []
    manager.put_unit(manager.unit_for(SERVICE), start=False)
    monkeypatch.setenv("HERMES_BUS_ROOT", "/r")
    assert user_unit.start_command() == [
        "launchctl",
        "kickstart",
        f"gui/{os.getuid()}/wakebus.broker",
    ]
    monkeypatch.setenv("HERMES_BUS_ROOT", "/other")
    assert user_unit.start_command() == []
