"""Checks of what is installed: the commands of wakebus, and wakebus in Hermes."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wakebus.broker import __version__
from wakebus.broker.paths import hermes_home
from wakebus.plugin.cli.doctor.finding import Finding
from wakebus.plugin.install import hermes_home as hermes
from wakebus.plugin.install import next_steps
from wakebus.plugin.install.owned_files import is_foreign, look_at_files

COMMANDS: Final = ("wakebus", "hermes-busd", "notify-hermes", "notify-agent")


def check_commands() -> Iterator[Finding]:
    """Every command of wakebus is on PATH, and is that of this installation."""
    own = Path(sys.argv[0]).resolve().parent
    found = {name: shutil.which(name) for name in COMMANDS}
    # What is nowhere is no matter of PATH: `check_files` says what became of it.
    if missing := [name for name, path in found.items() if not path and (own / name).exists()]:
        yield Finding("wrong", f"not on PATH: {', '.join(missing)}", f'export PATH="{own}:$PATH"')
    for name, path in found.items():
        if not path or (Path(path).parent == own and is_foreign(name, path)):
            continue  # told by `check_files`
        if is_foreign(name, path):
            step = f'export PATH="{own}:$PATH"'
            yield Finding("wrong", f"{name} on PATH is {path}, which is not wakebus's", step)
        elif Path(path).resolve().parent != own:
            yield Finding("note", f"{name} on PATH is {path}, not that in {own}")
    yield Finding("ok", f"wakebus {__version__} in {own}, Python {sys.version.partition(' ')[0]}")


def check_files() -> Iterator[Finding]:
    """Every file of this installation is there, and no other package owns one too."""
    found = look_at_files()
    if found.broken:
        yield Finding("wrong", "; ".join(one.says for one in found.broken), found.repair)
    if found.at_stake:
        yield Finding("note", "; ".join(one.says for one in found.at_stake), found.repair)
    if not found.faults:
        yield Finding("ok", "no file is missing, or owned by another package too")


def check_hermes() -> Iterator[Finding]:
    """Where a Hermes has wakebus, all of it is there, as `wakebus install hermes --check` says."""
    home = hermes_home()
    if not (home / hermes.CONFIG).is_file():
        yield Finding("ok", f"no Hermes in {home}")
        return
    found = hermes.inspect_home(home)
    if not found.state.enabled:
        yield Finding("note", f"wakebus is not in the Hermes of {home}", next_steps.install(home))
        return
    faults = hermes.faults_of(found)
    yield from (Finding("wrong", fault, next_steps.install(home)) for fault in faults)
    hermes.checked_python(home, None)
    if not faults:
        yield Finding("ok", f"the Hermes of {home} has wakebus")
