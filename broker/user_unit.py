"""
The broker as a service of this user: where its unit is, and how the service manager starts it.

Rule: a unit counts for the bus that it names, and for no other: a start elsewhere is nobody's unit.
"""

import os
import pwd
import sys
from pathlib import Path
from typing import Final

from wakebus.broker import paths

BROKER: Final = "broker"
ROOT_LINE: Final = "Root="  # in a section that systemd leaves alone (systemd.unit(5): X-)


def unit_file(name: str) -> Path:
    """Return the path of the unit of service `name`: systemd's, or launchd's on macOS."""
    home = _home()
    if sys.platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{label_of(name)}.plist"
    given = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(given) if given.startswith("/") else home / ".config"
    return config / "systemd" / "user" / unit_of(name)


def unit_of(name: str) -> str:
    """Return the name of a service to systemd."""
    return f"wakebus-{name}.service"


def label_of(name: str) -> str:
    """Return the name of a service to launchd."""
    return f"wakebus.{name}"


def start_command() -> list[str]:
    """Return what has the service manager start the broker of this bus; [] where it has none."""
    try:
        root = root_of_unit(unit_file(BROKER).read_bytes())
    except OSError:
        return []
    if root != paths.root_of("HERMES_BUS_ROOT"):
        return []
    if sys.platform == "darwin":
        return ["launchctl", "kickstart", f"gui/{os.getuid()}/{label_of(BROKER)}"]
    return ["systemctl", "--user", "start", unit_of(BROKER)]


def root_of_unit(data: bytes) -> str:
    """Return the root of the bus that a unit is for, "" for what is no unit of wakebus."""
    if data.startswith(b"<?xml"):
        return _root_of_plist(data)
    lines = data.decode(errors="replace").splitlines()
    return next((one.removeprefix(ROOT_LINE) for one in lines if one.startswith(ROOT_LINE)), "")


def _root_of_plist(data: bytes) -> str:
    import plistlib  # on macOS alone

    try:
        found = plistlib.loads(data)
        ours = str(found["Label"]).startswith(label_of(""))
        return str(found["EnvironmentVariables"]["HERMES_BUS_ROOT"]) if ours else ""
    except Exception:  # expat's errors, and whatever somebody else wrote
        return ""


def _home() -> Path:
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container's user without an entry
        return Path(os.environ.get("HOME") or "/")
