"""wakebus in one Hermes home: looked at, put in, taken out."""

import os
import sys
from pathlib import Path

import pytest
import yaml

from wakebus.plugin.install import hermes_home as hermes
from wakebus.plugin.install import next_steps, shipped_files, user_files
from wakebus.plugin.install.errors import CannotInstall

CONFIG = "# mine\nplugins:\n  enabled:\n    - other\n\n# end\nmodel: {default: m}\n"
HANDLER = "hooks/wakebus/handler.py"
SKILL = "skills/notification-protocol/SKILL.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Hermes home with a config of its user."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "config.yaml").chmod(0o640)
    return tmp_path


def install(home: Path, *, turns: bool | None = None, force: bool = False) -> list[str]:
    found = hermes.inspect_home(home)
    changes = hermes.to_install(found, turns=turns, force=force)
    hermes.apply_changes(found, changes)
    return [one.what for one in changes]


def remove(home: Path, *, force: bool = False) -> list[str]:
    found = hermes.inspect_home(home)
    changes = hermes.to_remove(found, force=force)
    hermes.apply_changes(found, changes)
    return [one.what for one in changes]


def all_files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_install_and_remove(home: Path) -> None:
    """Everything goes in once, and comes out without a trace but the backup."""
    assert len(hermes.faults_of(hermes.inspect_home(home))) == 4
    assert install(home) == ["config", "hook", "hook", "skill"]
    assert hermes.faults_of(hermes.inspect_home(home)) == [] and install(home) == []
    assert (home / "config.yaml").stat().st_mode & 0o777 == 0o640
    assert (home / hermes.BACKUP).read_text() == CONFIG
    assert (home / hermes.BACKUP).stat().st_mode & 0o777 == 0o640
    assert remove(home) == ["config", "hook", "hook", "skill"] and remove(home) == []
    assert (home / "config.yaml").read_text() == CONFIG
    assert all_files(home) == {"config.yaml", hermes.BACKUP}


def test_what_is_installed_is_what_hermes_reads(home: Path) -> None:
    """A HOOK.yaml with name and events, a handler with `handle`, a skill with its front matter."""
    install(home)
    hook = yaml.safe_load((home / "hooks/wakebus/HOOK.yaml").read_text())
    assert hook["name"] == "wakebus" and "gateway:startup" in hook["events"]
    space: dict[str, object] = {}
    exec(compile((home / HANDLER).read_text(), HANDLER, "exec"), space)
    assert callable(space["handle"])
    assert (home / SKILL).read_text().startswith("---\nname: notification-protocol\n")


def test_the_grant(home: Path) -> None:
    """Given and taken only when asked for; without a word it stays as it is."""
    key = {"wakebus": {"allow_gateway_injection": True}}
    install(home, turns=False)
    assert "entries" not in yaml.safe_load((home / "config.yaml").read_text())["plugins"]
    assert install(home, turns=True) == ["config"]
    assert yaml.safe_load((home / "config.yaml").read_text())["plugins"]["entries"] == key
    assert install(home) == [] and install(home, turns=False) == ["config"]
    assert hermes.inspect_home(home).state.grant is None


def test_a_home_without_config(tmp_path: Path) -> None:
    """Gets one, readable by its user alone."""
    assert install(tmp_path) == ["config", "hook", "hook", "skill"]
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == {
        "plugins": {"enabled": ["wakebus"]}
    }
    assert (tmp_path / "config.yaml").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / hermes.BACKUP).exists()


def test_what_the_user_changed_stays(home: Path) -> None:
    """Unless forced, both ways; an older version of ours is replaced."""
    install(home)
    (home / SKILL).write_text("mine")
    assert install(home) == [] and hermes.changed_files(hermes.inspect_home(home)) == [home / SKILL]
    assert "skill" not in remove(home) and (home / SKILL).read_text() == "mine"
    assert "skill" in install(home, force=True)
    assert hermes.changed_files(hermes.inspect_home(home)) == []
    (home / SKILL).write_text("mine")
    assert "skill" in remove(home, force=True)
    install(home)
    (home / HANDLER).write_text(shipped_files.stamped("old = 1", markdown=False))
    assert hermes.faults_of(hermes.inspect_home(home)) == [f"{home / HANDLER}: outdated"]
    assert install(home) == ["hook"] and hermes.faults_of(hermes.inspect_home(home)) == []


def test_disabled_by_the_user(home: Path) -> None:
    """Is not undone without being asked for: plugins.disabled beats plugins.enabled."""
    (home / "config.yaml").write_text("plugins: {disabled: [wakebus, x]}\n")
    with pytest.raises(CannotInstall, match=r"plugins\.disabled holds wakebus") as caught:
        install(home, turns=True)
    again = f"wakebus install hermes --home {home} --force --allow-gateway-turns"
    assert caught.value.data["step"].endswith(again)
    assert all_files(home) == {"config.yaml"}
    install(home, force=True)
    assert yaml.safe_load((home / "config.yaml").read_text())["plugins"] == {
        "disabled": ["x"],
        "enabled": ["wakebus"],
    }


def test_a_bad_config_changes_nothing(home: Path) -> None:
    """Its line is named; no file of ours is there either."""
    (home / "config.yaml").write_text("a: 1\nb: [\n")
    with pytest.raises(CannotInstall, match=r"config\.yaml:3: no YAML"):
        install(home)
    assert all_files(home) == {"config.yaml"}


@pytest.mark.parametrize(
    "text",
    ["plugins:\nx: 1", "plugins: # mine\n", "plugins: {enabled: []}\n", "plugins: {}", "# c"],
)
def test_one_change_and_back(home: Path, text: str) -> None:
    """Byte by byte what it was, from what was kept beside it."""
    (home / "config.yaml").write_text(text)
    install(home, turns=True)
    assert hermes.inspect_home(home).state.enabled
    remove(home)
    assert (home / "config.yaml").read_text() == text


def test_what_was_changed_since_is_kept(home: Path) -> None:
    """What lies beside it is not put back over the user's later words."""
    install(home)
    with (home / "config.yaml").open("a") as file:
        file.write("later: 1\n")
    remove(home)
    assert (home / "config.yaml").read_text() == CONFIG + "later: 1\n"


def test_a_config_that_may_not_be_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is half done: it is asked before the other files are written."""
    # Not by its mode: root, as whom tests run in containers, may write all the same.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "config.yaml")
    with pytest.raises(CannotInstall, match="is read-only; nothing was changed"):
        install(home)
    assert all_files(home) == {"config.yaml"}


def test_what_was_done_before_a_failure_is_told(home: Path) -> None:
    """A backup that is a folder: the config stays, hook and skill are named."""
    (home / hermes.BACKUP).mkdir()
    found = hermes.inspect_home(home)
    with pytest.raises(CannotInstall, match=f"done before that: .*{HANDLER}"):
        hermes.apply_changes(found, hermes.to_install(found, turns=None, force=False))
    assert (home / "config.yaml").read_text() == CONFIG


def test_no_home(tmp_path: Path) -> None:
    """A path that is no folder."""
    with pytest.raises(CannotInstall, match="no Hermes home"):
        hermes.inspect_home(tmp_path / "none")


def test_an_incomplete_wakebus(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel without its files is said to be one."""
    monkeypatch.setattr(hermes, "_SOURCES", home)
    with pytest.raises(CannotInstall, match="incomplete"):
        hermes.inspect_home(home)


def test_the_python_of_hermes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named or found; it must have wakebus. With none, a config is what makes a Hermes home."""
    monkeypatch.setenv("PATH", str(home))
    assert hermes.checked_python(home, sys.executable) == sys.executable
    assert hermes.checked_python(home, None) == ""
    with pytest.raises(CannotInstall, match="/bin/false is no Python: exit status 1") as caught:
        hermes.checked_python(home, "/bin/false")
    assert "pip" not in caught.value.data["step"]
    bare = home / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # no site-packages
    bare.chmod(0o755)
    with pytest.raises(CannotInstall, match="does not find wakebus") as caught:
        hermes.checked_python(home, str(bare))
    assert caught.value.data["step"] == next_steps.pip(str(bare), has_pip=False)
    user_files.remove_file(home / "config.yaml")
    with pytest.raises(CannotInstall, match="no hermes on PATH"):
        hermes.checked_python(home, None)
