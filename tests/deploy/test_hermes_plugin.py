"""wakebus as a folder plugin of Hermes, loaded as Hermes loads it."""

import importlib.util
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from wakebus.broker import __version__
from wakebus.plugin import hermes
from wakebus.plugin.hermes.tools import schemas

FOLDER = Path(__file__).parents[2] / "deploy" / "hermes_plugin"


def load() -> Any:
    """Load it under a name of its own (hermes_cli/plugins.py:1830 of hermes-agent 0.19.0)."""
    spec = importlib.util.spec_from_file_location(
        "hermes_plugins.wakebus", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_manifest() -> None:
    """Version and tools are the package's; the name is the entry point's, so that one wins."""
    found = yaml.safe_load((FOLDER / "plugin.yaml").read_text(encoding="utf-8"))
    assert found["name"] == "wakebus" and found["manifest_version"] == 1
    assert found["version"] == __version__
    assert set(found["provides_tools"]) == {one["name"] for one in schemas.ALL}


def test_hermes_takes_it_for_a_plugin_of_its_own_kind() -> None:
    """Words in the code by which Hermes would guess another kind (hermes_cli/plugins.py:1600)."""
    text = (FOLDER / "__init__.py").read_text(encoding="utf-8")
    assert "MemoryProvider" not in text and "register_provider" not in text


def test_it_is_the_package() -> None:
    """The same register, so that both at once are one (HERMES.md)."""
    assert load().register is hermes.register


def test_without_the_package(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log: what to run, with the Python that is running."""
    monkeypatch.setitem(sys.modules, "wakebus.plugin.hermes", None)
    with caplog.at_level(logging.WARNING):
        load().register(object())
    assert len(caplog.messages) == 1
    assert f"{sys.executable} -m pip install PATH_OF_THE_CHECKOUT" in caplog.messages[0]
