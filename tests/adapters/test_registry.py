"""Adapters by entry point."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wakebus import adapters
from wakebus.adapters import base, channel, registry
from wakebus.adapters.errors import BrokenAdapter, Uncertain, UnknownAdapter
from wakebus.adapters.platforms.console import Console
from wakebus.adapters.settings import home_channel


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


EARLIER = """
from wakebus.adapters import marks
from wakebus.adapters.base import Response, Uncertain, Word, json_object
from wakebus.adapters.channel import home_variable, parse, resolve


class Own:
    def shown(self, text):
        return marks.plain(text)

    def read(self, body):
        return json_object(Response(200, body))
"""


def test_one_that_was_written_for_earlier_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADP-1.7: what such a package imports of the contract is found, wherever it is now."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_last", None)
    install(tmp_path, "earlier")
    (tmp_path / "earlier_7f3a.py").write_text(EARLIER)
    own: Any = registry.load("earlier")
    assert own().shown("**a**") == "a" and own().read(b'{"b": 1}') == {"b": 1}
    with pytest.raises(Uncertain):
        own().read(b"<html>")
    module = sys.modules["earlier_7f3a"]
    assert vars(module)["resolve"] is home_channel.resolve
    assert vars(module)["home_variable"] is home_channel.home_variable


@pytest.mark.parametrize("module", [adapters, base, channel])
def test_no_other_name_is_found(module: ModuleType) -> None:
    """A name that none of them has is an error as everywhere."""
    with pytest.raises(AttributeError, match="'nothing_7f3a'"):
        _ = module.nothing_7f3a


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


def test_two_threads_read_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that drop Python's caches at once one may lose: that is no fault of a text."""

    def lose() -> None:
        raise KeyError("/usr/lib/python311.zip")

    monkeypatch.setattr("importlib.invalidate_caches", lose)
    monkeypatch.setattr(registry, "_last", None)
    assert "console" in registry.known()
