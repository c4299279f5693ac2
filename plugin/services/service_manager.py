"""
Units in place and out of it, and the commands that make a service manager follow.

Rule 1: a file that wakebus did not make is named and left alone. Rule 2: a second run changes
nothing. Rule 3: what systemd or launchd refuses is an error in its own words.
"""

import os
import pwd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.broker.user_unit import (
    BROKER,
    label_of,
    root_of_unit,
    unit_file,
    unit_of,
)
from wakebus.plugin.install import user_files
from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.services.unit_files import Service, launchd_plist, systemd_unit

COMMAND_S: Final = 60.0
ON_MACOS: Final = sys.platform == "darwin"

Words = list[str]


class ServiceUnit(NamedTuple):
    """A service's unit: its file, what that says or is to say, and whether this is new."""

    name: str
    path: Path
    text: str
    changed: bool


def unit_for(service: Service) -> ServiceUnit:
    """Return the unit of a service, compared with the one that is there. Raises CannotInstall."""
    text = launchd_plist(service) if ON_MACOS else systemd_unit(service)
    path = unit_file(service.name)
    found = user_files.read_file(path)
    if found is not None and not root_of_unit(found.encode()):
        raise CannotInstall(
            f"{path} is there and was not made by wakebus; it was left alone",
            "Move it away, or rename it",
        )
    return ServiceUnit(service.name, path, text, found != text)


def installed_units() -> list[ServiceUnit]:
    """Return the units that wakebus made, listeners first: each needs the broker."""
    pattern, found = unit_file("*"), []
    prefix = pattern.name.partition("*")[0]
    for path in sorted(pattern.parent.glob(pattern.name)):
        text = user_files.read_file(path)
        if text and root_of_unit(text.encode()):
            found.append(ServiceUnit(path.stem.removeprefix(prefix), path, text, False))
    return sorted(found, key=lambda one: one.name == BROKER)


def why_no_manager() -> str:
    """Return why units have no effect here, "" where a service manager of this user answers."""
    on_macos = ["launchctl", "print", f"gui/{os.getuid()}"]
    try:
        run_command(on_macos if ON_MACOS else _systemctl("show-environment"))
    except CannotInstall as exc:
        return exc.text
    return ""


def enable_commands(unit: ServiceUnit, *, start: bool) -> list[Words]:
    """Return what makes a unit that is in place take effect; `start`: now, too."""
    if ON_MACOS:
        domain = f"gui/{os.getuid()}"
        gone = [["launchctl", "bootout", f"{domain}/{label_of(unit.name)}"]] if unit.changed else []
        return [*gone, ["launchctl", "bootstrap", domain, str(unit.path)]] if start else []
    name = unit_of(unit.name)
    started = [_systemctl("restart" if unit.changed else "start", name)] if start else []
    return [_systemctl("daemon-reload"), _systemctl("enable", name), *started]


def disable_commands(unit: ServiceUnit) -> list[Words]:
    """Return what stops a service and makes the manager forget it, before its file is removed."""
    if ON_MACOS:
        return [["launchctl", "bootout", f"gui/{os.getuid()}/{label_of(unit.name)}"]]
    return [_systemctl("disable", "--now", unit_of(unit.name))]


def is_active(unit: ServiceUnit) -> bool:
    """Whether the service manager has the service running."""
    on_macos = ["launchctl", "print", f"gui/{os.getuid()}/{label_of(unit.name)}"]
    try:
        run_command(on_macos if ON_MACOS else _systemctl("is-active", unit_of(unit.name)))
    except CannotInstall:
        return False
    return True


def put_unit(unit: ServiceUnit, *, start: bool) -> None:
    """Write a unit and let it take effect. Raises CannotInstall."""
    if ON_MACOS and not unit.changed and is_active(unit):
        return  # launchd refuses to load twice
    if unit.changed:
        user_files.write_file(unit.path, unit.text)
    for command in enable_commands(unit, start=start):
        run_command(command, allow_failure=command[1] == "bootout")


def remove_unit(unit: ServiceUnit, *, managed: bool) -> None:
    """Stop a service and remove its unit. `managed`: the manager answers. Raises CannotInstall."""
    for command in disable_commands(unit) if managed else ():
        run_command(command, allow_failure=ON_MACOS)  # one that is not loaded
    try:
        unit.path.unlink(missing_ok=True)
    except OSError as exc:
        raise user_files.failed("remove", unit.path, exc) from exc
    if managed and not ON_MACOS:
        run_command(_systemctl("daemon-reload"))


def run_command(words: Words, *, allow_failure: bool = False) -> None:
    """Run a command of the service manager. Raises CannotInstall with its words."""
    line = shlex.join(words)
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_S,
            check=False,
        )
    except FileNotFoundError:
        raise CannotInstall(f"there is no {words[0]} here", f"Where there is one: {line}") from None
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise CannotInstall(f"{line}: {exc}", f"By hand: {line}") from exc
    if done.returncode and not allow_failure:
        said = (done.stderr or done.stdout).strip().replace("\n", " ")
        raise CannotInstall(f"{line}: {said or f'exit {done.returncode}'}", f"By hand: {line}")


def needs_linger() -> bool:
    """Whether this user's services end at logout, as systemd has it unless told otherwise."""
    return not ON_MACOS and not Path("/var/lib/systemd/linger", user_name()).exists()


def user_name() -> str:
    """Return the name of this user, the number where there is none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _systemctl(*words: str) -> Words:
    return ["systemctl", "--user", *words]
