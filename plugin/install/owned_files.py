"""
Files of this wakebus that another package owns too, has replaced, or took away when it left.

pip removes what a package's RECORD names, whoever wrote it last: `pip uninstall hermes-bus` takes
wakebus's `hermes-busd` along, and an update of hermes-notify puts its own `notify-hermes` there.

Rule 1: what is installed is only looked at (packaging.python.org, "Recording installed projects").
Rule 2: what other packages own is read from the same environment as this file is.
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, NamedTuple

from wakebus.plugin.install import next_steps

OURS: Final = "wakebus"
PROBE_S: Final = 30.0
# They own our scripts, or need a package that does.
PREDECESSORS: Final = ("hermes-bus", "hermes-notify", "hermes-bus-plugin")


class FileFault(NamedTuple):
    """
    What is wrong with one file. `owners`: other packages that own it, each as `name version`.

    shared: ours, and owned by others; replaced: there, but not ours; missing: gone.
    """

    path: Path
    state: Literal["shared", "replaced", "missing"]
    owners: tuple[str, ...]

    @property
    def says(self) -> str:
        """What people are told of it, in one line."""
        others = " and ".join(self.owners)
        if self.state == "missing":
            return f"{self.path} is gone: an uninstall of another package that owns it removes it"
        if self.state == "replaced":
            return f"{self.path} is not wakebus's, but {f'that of {others}' if others else 'other'}"
        return f"{self.path} belongs to {others} as well, whose uninstall deletes it"


class OwnedFiles(NamedTuple):
    """What is wrong with the files of a wakebus, and the command that mends it, or ""."""

    faults: list[FileFault]
    repair: str

    @property
    def broken(self) -> list[FileFault]:
        """Return what does not work now."""
        return [fault for fault in self.faults if fault.state != "shared"]

    @property
    def at_stake(self) -> list[FileFault]:
        """Return what works until another package goes or is updated."""
        return [fault for fault in self.faults if fault.state == "shared"]


def look_at_files() -> OwnedFiles:
    """Look at the environment that this file is in; nothing is wrong where pip knows no wakebus."""
    try:
        ours = distribution(OURS)
    except PackageNotFoundError:
        return OwnedFiles([], "")
    found: dict[str, Distribution] = {}
    for one in distributions():  # the first on sys.path is the one that is imported
        found.setdefault(_name(one), one)
    others = [one for name, one in found.items() if name != OURS]
    faults = file_faults(ours, others)
    return OwnedFiles(faults, _repair(faults, found) if faults else "")


def look_at_files_of(python: str) -> OwnedFiles:
    """Look at the environment of another Python; nothing where it says nothing (an older one)."""
    if python == sys.executable:
        return look_at_files()
    command = [python, "-P", "-c", _PROBE]
    try:
        said = subprocess.run(
            command, cwd="/", capture_output=True, timeout=PROBE_S, stdin=subprocess.DEVNULL
        )
        faults, repair = json.loads(said.stdout)
        return OwnedFiles([FileFault(Path(path), *rest) for path, *rest in faults], repair)
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
        return OwnedFiles([], "")


_PROBE: Final = (
    "import json; from wakebus.plugin.install.owned_files import look_at_files; "
    "found = look_at_files(); "
    "print(json.dumps([[(str(one.path), *one[1:]) for one in found.faults], found.repair]))"
)


def is_foreign(name: str, path: str) -> bool:
    """Whether the script at `path`, which is called as our `name`, is another package's."""
    try:
        ours = distribution(OURS).entry_points.select(group="console_scripts", name=name)
    except PackageNotFoundError:
        return False
    return any(_state(Path(path), entry.module) == "replaced" for entry in ours)


def file_faults(ours: Distribution, others: Iterable[Distribution]) -> list[FileFault]:
    """Return what is wrong with the files of `ours`, by path."""
    place, files = _place(ours), _recorded(ours)
    owners: dict[str, list[str]] = {}
    for other in others:
        if _place(other) == place:
            for file in files & _recorded(other):
                owners.setdefault(file, []).append(f"{_name(other)} {other.version}")
    modules = {one.name: one.module for one in ours.entry_points.select(group="console_scripts")}
    faults = []
    for file in sorted(files):
        path = Path(os.path.normpath(place / file))
        module = modules.get(path.name, "") if path.parent.name == "bin" else ""
        state = _state(path, module) or ("shared" if file in owners else None)
        if state:
            faults.append(FileFault(path, state, tuple(sorted(owners.get(file, ())))))
    return faults


def _state(path: Path, module: str) -> Literal["replaced", "missing"] | None:
    """Return what is wrong with a file of ours; a script names its `module`."""
    try:
        data = path.read_bytes() if module else b""
    except FileNotFoundError:
        return "missing"
    except OSError:
        return None  # there, and nobody can tell whose
    if not path.exists():
        return "missing"
    return "replaced" if module.encode() not in data else None


def _recorded(package: Distribution) -> set[str]:
    """Return its files as RECORD names them; `files` leaves out what is missing (Python 3.12)."""
    rows = csv.reader((package.read_text("RECORD") or "").splitlines())
    return {row[0] for row in rows if row and not row[0].endswith(".pyc")}


def _place(package: Distribution) -> Path:
    return Path(str(package.locate_file("")))


def _name(package: Distribution) -> str:
    # A folder without metadata has no name (Python 3.11 says None).
    return re.sub(r"[-_.]+", "-", str(package.metadata["Name"])).lower()


def _repair(faults: list[FileFault], found: dict[str, Distribution]) -> str:
    """Return the command: the others go first, as their going takes files of ours along."""
    named = {owner.partition(" ")[0] for fault in faults for owner in fault.owners}
    gone = sorted(named | {name for name in PREDECESSORS if name in found})
    has_pip = find_spec("pip") is not None
    uninstall = next_steps.pip_uninstall(sys.executable, *gone, has_pip=has_pip)
    again = next_steps.pip(sys.executable, "--force-reinstall", "--no-deps", has_pip=has_pip)
    return f"{uninstall} && {again}" if gone else again
