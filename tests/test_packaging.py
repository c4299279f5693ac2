"""What is built and installed: packages, files, commands, entry points."""

import importlib
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from wakebus import broker

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = ("broker", "adapters", "plugin")


def packages_on_disk() -> set[str]:
    """Return every folder that holds modules, as its package."""
    found = set()
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            found.add("wakebus." + ".".join(file.parent.relative_to(ROOT).parts))
    return found


def test_every_folder_is_packaged() -> None:
    """`wakebus/` links to each of the three: setuptools finds what lies below it."""
    assert PROJECT["tool"]["setuptools"]["packages"]["find"] == {
        "include": ["wakebus*"],
        "namespaces": False,
    }
    for folder in FOLDERS:
        link = ROOT / "wakebus" / folder
        assert link.is_symlink() and link.readlink() == Path("..", folder)


def test_every_package_has_its_own_opening() -> None:
    """No accidental namespace packages: each has an `__init__.py` with a docstring."""
    for package in packages_on_disk():
        file = ROOT.joinpath(*package.split(".")[1:], "__init__.py")
        assert file.read_text(encoding="utf-8").lstrip().startswith('"""'), file


def test_types_and_documents_are_packaged() -> None:
    """py.typed and the pages beside the code travel with it."""
    globs = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    assert {"py.typed", "*.md"} <= set(globs)
    for folder in FOLDERS:
        assert (ROOT / folder / "py.typed").exists()
    assert (ROOT / "broker" / "PROTOCOL.md").exists()


@pytest.mark.parametrize(("command", "target"), sorted(PROJECT["project"]["scripts"].items()))
def test_every_command_can_be_imported(command: str, target: str) -> None:
    """Each console command names a function that exists."""
    module, _, function = target.partition(":")
    assert callable(getattr(importlib.import_module(module), function)), command


@pytest.mark.parametrize("group", sorted(PROJECT["project"]["entry-points"]))
def test_every_entry_point_can_be_loaded(group: str) -> None:
    """Also in the installed metadata: an old install would hide a new service."""
    wanted = PROJECT["project"]["entry-points"][group]
    installed = {
        e.name: e for e in entry_points(group=group) if e.dist and e.dist.name == "wakebus"
    }
    assert {name: e.value for name, e in installed.items()} == wanted
    for entry in installed.values():
        found = entry.load()  # Hermes asks for a module with `register`
        assert callable(found.register if group == "hermes_agent.plugins" else found)


def test_the_version_is_said_once_and_the_same() -> None:
    """pyproject.toml and the package agree."""
    assert PROJECT["project"]["version"] == broker.__version__


# Modules that use an extra, and say so where it is missing.
WITH_EXTRA = {"adapters.transports.apprise_call": "apprise"}


def test_what_is_imported_is_declared() -> None:
    """Every third-party import of the three folders is a dependency, or the module's extra."""
    declared = {
        requirement.split(">")[0].split("[")[0].strip().lower()
        for requirement in PROJECT["project"]["dependencies"]
    }
    imports = {
        "zmq": "pyzmq",
        "yaml": "pyyaml",
        "dotenv": "python-dotenv",
        "markdown_it": "markdown-it-py",
        "pydantic_settings": "pydantic-settings",
    }
    from test_layers import imports_of, modules, stdlib

    for module, file in modules().items():
        for name in imports_of(file):
            top = name.partition(".")[0]
            if WITH_EXTRA.get(module) == top:
                assert top in PROJECT["project"]["optional-dependencies"]
            elif top not in stdlib() and top != "wakebus":
                assert imports.get(top, top) in declared, f"{module} imports {top}"
