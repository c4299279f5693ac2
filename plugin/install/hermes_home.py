"""
wakebus in one Hermes home: the plugin enabled, its grant, the gateway hook, the skill.

Rule 1: first look, then say what would change, then change it; `--check` and `--dry-run` stop
early, so all three tell the same. Rule 2: of `config.yaml` one line or two change, and the state
before the last change is kept beside it. Rule 3: a file that the user changed stays, unless forced.
Rule 4: what was put in can be taken out, and nothing else is.
"""

import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.plugin.install import (
    hermes_python,
    next_steps,
    shipped_files,
    user_files,
)
from wakebus.plugin.install.errors import CannotInstall
from wakebus.plugin.install.hermes_config import PLUGIN, PluginConfig, change_config, read_config

CONFIG: Final = "config.yaml"
BACKUP: Final = "config.yaml.wakebus.bak"
# (what it is, where below the home, where below plugin/hermes)
SHIPPED: Final = (
    ("hook", "hooks/wakebus/HOOK.yaml", "gateway_hook/HOOK.yaml"),
    ("hook", "hooks/wakebus/handler.py", "gateway_hook/handler.py"),
    # ctx.register_skill alone leaves a skill out of the list that the model sees (Hermes 0.19.0,
    # hermes_cli/plugins.py:1200): nobody would ever load it.
    ("skill", "skills/notification-protocol/SKILL.md", "skills/notification-protocol/SKILL.md"),
)
_SOURCES: Final = Path(__file__).parents[1] / "hermes"


class ShippedFile(NamedTuple):
    """One file of ours. `text`: as it is shipped; `found`: as it is, None if it is not there."""

    what: str
    path: Path
    text: str
    found: str | None

    @property
    def state(self) -> shipped_files.FileState:
        """Return missing, current, outdated or changed."""
        return shipped_files.file_state(self.found, self.text)


class Installation(NamedTuple):
    """What a home holds. `text`: of config.yaml, None if there is none."""

    home: Path
    text: str | None
    state: PluginConfig
    items: tuple[ShippedFile, ...]

    @property
    def config(self) -> Path:
        """Return the path of config.yaml."""
        return self.home / CONFIG


class Change(NamedTuple):
    """One file that changes. `text`: what it then holds, None if it goes; `says`: in words."""

    what: str
    path: Path
    text: str | None
    says: str


def inspect_home(home: Path) -> Installation:
    """Return what `home` holds. Raises CannotInstall where there is no folder or a bad config."""
    if not os.path.isdir(home):  # noqa: PTH112 - it says no where Path.is_dir raises
        raise CannotInstall(
            f"no Hermes home: {home} is no folder", "Name it: --home DIR, or run hermes once"
        )
    text = user_files.read_file(home / CONFIG)
    state = read_config(text or "", str(home / CONFIG))
    return Installation(home, text, state, tuple(_item(home, *entry) for entry in SHIPPED))


def _item(home: Path, what: str, place: str, source: str) -> ShippedFile:
    text = user_files.read_file(_SOURCES / source)
    if text is None:
        raise CannotInstall(
            f"this wakebus is incomplete: {_SOURCES / source} is missing",
            f"Install it again: {next_steps.pip(sys.executable, '--force-reinstall')}",
        )
    text = shipped_files.stamped(text, markdown=source.endswith(".md"))
    return ShippedFile(what, home / place, text, user_files.read_file(home / place))


def to_install(found: Installation, *, turns: bool | None, force: bool) -> list[Change]:
    """
    Return what `install` changes. `turns`: give or take the grant for gateway turns, None leaves
    it. Raises CannotInstall where the user has switched the plugin off and nothing is forced.
    """
    if found.state.disabled and not force:
        again = ["--force", *(["--allow-gateway-turns"] if turns else [])]
        raise CannotInstall(
            f"{found.config}: plugins.disabled holds {PLUGIN}, which beats plugins.enabled",
            f"To take it out of there: {next_steps.install(found.home, *again)}",
        )
    # No key is the same as false: where nothing was granted, nothing is written.
    grant = found.state.grant if turns is None else (True if turns else None)
    wanted = PluginConfig(enabled=True, disabled=False, grant=grant)
    replaced = ("missing", "outdated", *(["changed"] if force else []))
    written = [
        Change(item.what, item.path, item.text, f"{item.what}: {item.path}")
        for item in found.items
        if item.state in replaced
    ]
    return _config_change(found, wanted) + written


def to_remove(found: Installation, *, force: bool) -> list[Change]:
    """Return what `--remove` changes: what `install` puts in, unless the user changed it."""
    wanted = PluginConfig(enabled=False, disabled=found.state.disabled, grant=None)
    gone = ("current", "outdated", *(["changed"] if force else []))
    removed = [
        Change(item.what, item.path, None, f"{item.what}: {item.path}")
        for item in found.items
        if item.state in gone
    ]
    return _config_change(found, wanted) + removed


def _config_change(found: Installation, wanted: PluginConfig) -> list[Change]:
    if found.state == wanted:
        return []
    text = _before(found, wanted) or change_config(found.text or "", wanted, str(found.config))
    said = [line for line in _said(found.state, wanted) if line]
    return [Change("config", found.config, text, f"{found.config}: {', '.join(said)}")]


def _before(found: Installation, wanted: PluginConfig) -> str | None:
    """Return the text before the last change, if undoing that is all there is to do."""
    try:
        old = user_files.read_file(found.home / BACKUP)
        if old and read_config(old, BACKUP) == wanted:
            return old if change_config(old, found.state, BACKUP) == found.text else None
    except CannotInstall:
        pass
    return None


def _said(has: PluginConfig, wanted: PluginConfig) -> list[str]:
    enabled = "plugin enabled" if wanted.enabled else "plugin no longer enabled"
    turns = "gateway turns allowed" if wanted.grant else "gateway turns no longer allowed"
    return [
        enabled if has.enabled != wanted.enabled else "",
        "taken out of plugins.disabled" if has.disabled != wanted.disabled else "",
        turns if has.grant != wanted.grant else "",
    ]


def changed_files(found: Installation) -> list[Path]:
    """Return the files that the user changed, which only `--force` touches."""
    return [item.path for item in found.items if item.state == "changed"]


def apply_changes(found: Installation, changes: list[Change]) -> None:
    """Make `changes`, the config last: what it switches on is there then. Raises CannotInstall."""
    if any(change.what == "config" for change in changes):
        user_files.check_writable(found.config)
    done: list[str] = []
    for change in sorted(changes, key=lambda one: one.what == "config"):
        try:
            _apply(found, change)
        except CannotInstall as exc:
            before = f"; done before that: {', '.join(done)}" if done else "; nothing was changed"
            raise CannotInstall(f"{exc.text}{before}", exc.data["step"]) from exc
        done.append(str(change.path))


def _apply(found: Installation, change: Change) -> None:
    if change.what == "config" and found.text is not None:
        _keep_backup(found)
    if change.text is None:
        user_files.remove_file(change.path)
    else:
        user_files.write_file(change.path, change.text)


def _keep_backup(found: Installation) -> None:
    mode = found.config.stat().st_mode & 0o7777
    backup = found.home / BACKUP
    try:
        # Its mode may be older and wider than that of what it holds now.
        backup.unlink(missing_ok=True)
    except OSError as exc:
        raise user_files.failed("replace", backup, exc) from exc
    user_files.write_file(backup, found.text or "", mode=mode)


def faults_of(found: Installation) -> list[str]:
    """Return what `--check` finds wrong, each in one line."""
    wrong = [] if found.state.enabled else [f"{found.config}: the plugin is not enabled"]
    if found.state.disabled:
        wrong.append(f"{found.config}: plugins.disabled holds {PLUGIN}")
    states = ("missing", "outdated")
    return wrong + [f"{one.path}: {one.state}" for one in found.items if one.state in states]


def checked_python(home: Path, given: str | None) -> str:
    """
    Return the Python that runs Hermes, "" if nobody can tell.

    Raises CannotInstall when it has no wakebus, or when nothing says that a Hermes lives here.
    """
    # Not resolved: the `python` of an environment is a link, and the link is the environment.
    found = str(Path(given).expanduser().absolute()) if given else hermes_python.find_python()
    if not found:
        if not (home / CONFIG).is_file():
            raise CannotInstall(
                f"no Hermes: {home} has no {CONFIG}, and there is no hermes on PATH",
                "Install and set up Hermes first, or name both: --home DIR --python PATH",
            )
        return ""
    asked = hermes_python.ask_python(found)
    if not asked.is_python:
        raise CannotInstall(
            f"{found} is no Python: {asked.problem}", "Name the one that runs Hermes: --python PATH"
        )
    if asked.problem:
        raise CannotInstall(
            f"{found}, which runs Hermes, does not find wakebus: {asked.problem}",
            next_steps.pip(found, has_pip=asked.has_pip),
        )
    return found
