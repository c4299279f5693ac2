"""wakebus as a folder plugin of Hermes, loaded as Hermes loads it."""

import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fakes.hermes_ctx import Ctx
from fakes.hermes_isolated import IsolatedCtx
from wakebus.broker import __version__
from wakebus.plugin import hermes
from wakebus.plugin.hermes import runtime as runtimes
from wakebus.plugin.hermes.hooks import NEWER
from wakebus.plugin.hermes.isolated_hooks import IsolatedHooks

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


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ctx]:
    """What `register` has given to Hermes."""
    monkeypatch.setattr(runtimes, "_runtimes", {})
    newer = SimpleNamespace(VALID_HOOKS={*NEWER})  # an older Hermes would warn of them
    monkeypatch.setitem(sys.modules, "hermes_cli.plugins", newer)
    ctx = Ctx()
    hermes.register(ctx)
    yield ctx
    runtimes.runtime_of(None).stop()


def manifest(folder: Path) -> dict[str, Any]:
    """Return what stands in a folder's plugin.yaml."""
    found: dict[str, Any] = yaml.safe_load((folder / "plugin.yaml").read_text(encoding="utf-8"))
    return found


def test_manifest() -> None:
    """Version is the package's; the name is the entry point's, so that both at once are one."""
    found = manifest(FOLDER)
    assert found["name"] == "wakebus" and found["manifest_version"] == 1
    assert found["version"] == __version__ and found["requires_hermes"] == ">=0.19"
    assert found["license"] == "MIT" and found["kind"] == "standalone"


def test_all_that_is_registered_is_declared(registered: Ctx) -> None:
    """HERMES-1.1: `hermes plugins validate` refuses what is not, and doubts what is too much."""
    found, isolated = manifest(FOLDER), IsolatedCtx()
    process: Any = SimpleNamespace(told=None)
    IsolatedHooks(process).register(isolated)
    assert sorted(found["provides_tools"]) == sorted(registered.tools)
    assert found["provides_hooks"] == sorted({*registered._manager._hooks, *isolated.hooks})


def test_entry_point_and_folder_have_one_manifest() -> None:
    """HERMES-1.1: two files, for Hermes copies only the folder."""
    package = Path(hermes.__file__).parent
    text = (FOLDER / "plugin.yaml").read_text(encoding="utf-8")
    assert (package / "plugin.yaml").read_text(encoding="utf-8") == text


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
