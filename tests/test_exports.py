"""`wakebus.broker`: its exports, and what importing it costs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from wakebus import adapters, broker

assert broker.__file__
FOLDER = Path(broker.__file__).parent


@pytest.mark.parametrize("name", broker.__all__)
def test_every_export_exists_where_it_is_said_to(name: str) -> None:
    """And is the object of its module."""
    home = importlib.import_module(f"wakebus.broker.{broker._HOME[name]}")
    assert getattr(broker, name) is getattr(home, name)


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING are the exports."""
    tree = ast.parse((FOLDER / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [n for n in tree.body if isinstance(n, ast.If)]
    seen = {
        alias.asname: str(node.module).removeprefix("wakebus.broker.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == broker._HOME


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="Server"):
        _ = broker.Server
    assert not hasattr(broker, "Server")


def test_exports_are_lazy() -> None:
    """Importing the package imports none of its modules, and nothing of weight."""
    script = (
        "import sys; before = set(sys.modules); import wakebus.broker\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    new = set(found.stdout.split())
    assert not [m for m in new if m.startswith("wakebus.broker.")]
    assert not new & {"zmq", "json", "msgspec", "psutil", "sqlite3", "httpx", "yaml", "rich"}


@pytest.mark.parametrize("package", [broker, adapters])
def test_the_map_lists_every_room_and_module(package: ModuleType) -> None:
    """The docstring of a package is its map: its rooms, and the files beside them."""
    assert package.__doc__ and package.__file__
    folder = Path(package.__file__).parent
    files = {f.stem for f in folder.glob("*.py")} - {"__init__", "__main__"}
    rooms = {f"{f.parent.name}/" for f in folder.glob("*/__init__.py")}
    assert files | rooms <= set(package.__doc__.split())
