"""The environment of a profile beside the one that the process was launched for (HERMES-3.16)."""

from pathlib import Path

import pytest

from wakebus.adapters.channel import parse
from wakebus.adapters.settings import home_channel
from wakebus.plugin.hermes.profile_environ import ProfileEnviron
from wakebus.plugin.hermes.profile_home import profile_home


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The launching profile's home and another one's, each with a `.env`."""
    work = tmp_path / "profiles" / "work"
    work.mkdir(parents=True)
    for home in (tmp_path, tmp_path / "profiles", work):
        home.chmod(0o700)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    for home, name in ((tmp_path, "default"), (work, "work")):
        file = home / ".env"
        file.write_text(f"MATTERMOST_TOKEN={name}\n")
        file.chmod(0o600)
    return tmp_path, work


def test_what_the_launchers_env_said_is_not_there(homes: tuple[Path, Path]) -> None:
    """Nor what names its endpoint; the rest of the process's environment is everybody's."""
    home, work = homes
    with (home / ".env").open("a") as file:
        file.write("NTFY_TOPIC=default\n")
    process = {
        "PATH": "/bin",
        "MATTERMOST_TOKEN": "default",
        "NTFY_TOPIC": "default",
        "HERMES_BUS_ENDPOINT": "mine",
        "HERMES_HOME": str(home),
    }
    found = ProfileEnviron(profile_home(work), process)
    assert dict(found) == {"PATH": "/bin", "MATTERMOST_TOKEN": "work", "HERMES_HOME": str(work)}
    own = ProfileEnviron(profile_home(home), process)
    assert own["HERMES_BUS_ENDPOINT"] == "mine" and own["MATTERMOST_TOKEN"] == "default"


def test_it_follows_the_file(homes: tuple[Path, Path]) -> None:
    """HERMES-3.5: /sethome writes there."""
    _, work = homes
    found = ProfileEnviron(profile_home(work), {})
    assert "MATTERMOST_HOME_CHANNEL" not in found and len(found) == 2
    with (work / ".env").open("a") as file:
        file.write("MATTERMOST_HOME_CHANNEL=there\n")
    assert found["MATTERMOST_HOME_CHANNEL"] == "there"


def test_the_configurations_home_channel_is_its_own(homes: tuple[Path, Path]) -> None:
    """HERMES-3.5: of its config.yaml."""
    _, work = homes
    text = "platforms: {mattermost: {home_channel: {chat_id: here}}}"
    (work / "config.yaml").write_text(text)
    found = ProfileEnviron(profile_home(work), {})
    assert home_channel.resolve(parse("mattermost"), found).chat_id == "here"


def test_what_cannot_be_read_is_not_there(homes: tuple[Path, Path]) -> None:
    """HERMES-2.1: nothing is raised."""
    _, work = homes
    (work / ".env").unlink()
    (work / ".env").mkdir()
    found = ProfileEnviron(profile_home(work), {"PATH": "/bin"})
    assert found["PATH"] == "/bin" and found.home("mattermost") is None
