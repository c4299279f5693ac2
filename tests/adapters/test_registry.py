"""Adapters by entry point."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from wakebus.adapters import registry
from wakebus.adapters.errors import BrokenAdapter, UnknownAdapter
from wakebus.adapters.platforms.console import Console


def entry(name: str, value: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name=name, value=value, group=registry.GROUP)}


CONSOLE = entry("console", "wakebus.adapters.platforms.console:Console")


def test_the_installed_ones() -> None:
    """ADP-1.1: this package's own are found by entry point."""
    assert "console" in registry.known()
    assert registry.load("console") is Console


@pytest.mark.parametrize("name", ["consol", "Console", "konsole"])
def test_a_near_name_is_said(name: str) -> None:
    """ADP-7.5: an unknown platform is refused with near names and all known ones."""
    with pytest.raises(UnknownAdapter, match=r"did you mean console\?.*known: console") as caught:
        registry.load(name, CONSOLE)
    assert caught.value.data["near"] == ["console"]


def test_no_near_name() -> None:
    """ADP-7.5: without a near name the known ones are listed all the same."""
    with pytest.raises(UnknownAdapter, match=r"'zzz' \(known: console\)"):
        registry.load("zzz", CONSOLE)
    with pytest.raises(UnknownAdapter, match="known: none"):
        registry.load("zzz", {})


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("no_such_module_7f3a:X", "ModuleNotFoundError"),
        ("wakebus.adapters.platforms.console:Missing", "AttributeError"),
        ("broken_adapter_7f3a:X", "ZeroDivisionError"),
    ],
)
def test_a_broken_one_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, named: str
) -> None:
    """ADP-1.6: one that cannot be imported is named with its error; the others still load."""
    (tmp_path / "broken_adapter_7f3a.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    installed = CONSOLE | entry("broken", value)
    with pytest.raises(BrokenAdapter, match=f"'broken' .*{named}"):
        registry.load("broken", installed)
    assert registry.load("console", installed) is Console


def install(folder: Path, name: str) -> None:
    """Do what pip does with a package that brings an adapter."""
    (folder / f"{name}_7f3a.py").write_text("class Own:\n    pass\n")
    info = folder / f"{name}_7f3a-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-7f3a\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = {name}_7f3a:Own\n")


def test_one_that_was_just_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ADP-1.7: a process that runs finds it; what is installed is not read for every wrong name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "AGAIN_S", 0.0)
    monkeypatch.setattr(registry, "_last", None)
    with pytest.raises(UnknownAdapter):
        registry.load("first")
    install(tmp_path, "first")
    assert registry.load("first").__name__ == "Own" and "first" in registry.known()
    monkeypatch.setattr(registry, "AGAIN_S", 1e9)
    install(tmp_path, "second")
    with pytest.raises(UnknownAdapter):
        registry.load("second")
    assert "second" not in registry.known()
    monkeypatch.setattr(registry, "AGAIN_S", 0.0)
    assert "second" in registry.known()
