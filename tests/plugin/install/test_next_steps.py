"""The commands that a user is told to run next."""

import importlib.metadata
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from wakebus.plugin.install import next_steps


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell without $HERMES_HOME."""
    monkeypatch.delenv("HERMES_HOME", raising=False)


def test_the_default_home_needs_no_name() -> None:
    """What a bare command takes is not named."""
    home = next_steps.default_home()
    assert next_steps.install(home, "--force") == "wakebus install hermes --force"
    assert next_steps.restart(home) == "hermes gateway restart"


def test_a_home_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is named all the same: the next shell may not have it; and then the default one is too."""
    monkeypatch.setenv("HERMES_HOME", "/h/x")
    assert next_steps.install(Path("/h/x")) == "wakebus install hermes --home /h/x"
    home = next_steps.default_home()
    assert next_steps.install(home) == f"wakebus install hermes --home {shlex.quote(str(home))}"


def test_restart_names_the_profile() -> None:
    """By `-p` where Hermes finds it so, else by its home."""
    profiles = next_steps.default_home() / "profiles"
    assert next_steps.restart(profiles / "work") == "hermes -p work gateway restart"
    for home in (profiles / "No Name", Path("/h/profiles/ci"), Path("/h")):
        assert next_steps.restart(home) == (
            f"HERMES_HOME={shlex.quote(str(home))} hermes gateway restart"
        )


def test_a_user_without_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers: $HOME, and no error."""
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    monkeypatch.setenv("HOME", "/data")
    assert next_steps.default_home() == Path("/data/.hermes")


class Distribution:
    """As importlib.metadata's, with a direct_url.json (PEP 610)."""

    def __init__(self, said: str | None) -> None:
        self._said = said

    def read_text(self, name: str) -> str | None:
        """Return the file's text, None if there is none."""
        return self._said if name == "direct_url.json" else None


def test_pip_gets_a_path_never_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that this wakebus came from while it is there, else a word to replace."""
    checkout = tmp_path / "my clone"
    checkout.mkdir()
    url = checkout.as_uri()
    for said, path in (
        (json.dumps({"url": url, "dir_info": {"editable": True}}), str(checkout)),
        (json.dumps({"url": "file:///none", "dir_info": {}}), next_steps.CHECKOUT),
        (json.dumps({"url": "https://host/x.whl"}), next_steps.CHECKOUT),
        ("[]", next_steps.CHECKOUT),
        ("no JSON", next_steps.CHECKOUT),
        (None, next_steps.CHECKOUT),
    ):
        monkeypatch.setattr(
            importlib.metadata, "distribution", lambda _, said=said: Distribution(said)
        )
        assert next_steps.pip("/p") == f"/p -m pip install {shlex.quote(path)}"


def test_a_python_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uv makes them for a checkout of Hermes: by uv, else by our pip, else one is put there."""
    monkeypatch.setattr(next_steps, "origin", lambda: "/c")
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/uv")
    assert next_steps.pip("/p", has_pip=False) == "uv pip install --python /p /c"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    ours = f"{shlex.quote(sys.executable)} -m pip --python /p install /c"
    assert next_steps.pip("/p", has_pip=False) == ours
    monkeypatch.setattr(next_steps, "find_spec", lambda _: None)
    assert next_steps.pip("/p", has_pip=False) == "/p -m ensurepip && /p -m pip install /c"
