"""`wakebus` and `wakebus.broker`: their exports, and what importing them costs."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import wakebus
from wakebus import adapters, broker


def type_checkers_block(package: ModuleType) -> dict[str, str]:
    """Return the names that a package's `if TYPE_CHECKING` imports, and from where."""
    assert package.__file__
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (block,) = [n for n in tree.body if isinstance(n, ast.If)]
    return {
        str(alias.asname): str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


# --- wakebus.broker ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", broker.__all__)
def test_every_export_exists_where_it_is_said_to(name: str) -> None:
    """And is the object of its module."""
    home = importlib.import_module(f"wakebus.broker.{broker._HOME[name]}")
    assert getattr(broker, name) is getattr(home, name)


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING are the exports."""
    homes = {name: f"wakebus.broker.{home}" for name, home in broker._HOME.items()}
    assert type_checkers_block(broker) == homes


@pytest.mark.parametrize(
    ("room", "name"), [("client", "Client"), ("client.client", "Client"), ("aio", "AsyncClient")]
)
def test_a_client_is_found_in_its_room(room: str, name: str) -> None:
    """Where it was when the room was one file, too; a room has no other names."""
    found = importlib.import_module(f"wakebus.broker.{room}")
    assert getattr(found, name) is getattr(broker, name)
    with pytest.raises(AttributeError, match="Server"):
        _ = found.Server


# --- wakebus ----------------------------------------------------------------------------------


def test_the_face_of_the_whole() -> None:
    """The names that most programs need, the same objects; type checkers see them, too."""
    assert set(wakebus.__all__) == {"AsyncClient", "Client", "Later", "Refusal", "errors"}
    for name in ("AsyncClient", "Client", "Later", "Refusal"):
        assert getattr(wakebus, name) is getattr(broker, name)
    assert wakebus.errors is importlib.import_module("wakebus.broker.errors")
    assert wakebus.__version__ == broker.__version__
    assert type_checkers_block(wakebus) == dict.fromkeys(wakebus.__all__, "wakebus.broker")


# --- both -------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", [wakebus, broker])
def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="Server"):
        _ = package.Server
    assert not hasattr(package, "Server")


@pytest.mark.parametrize("package", ["wakebus", "wakebus.broker"])
def test_exports_are_lazy(package: str) -> None:
    """Importing a package imports none of its modules, and nothing of weight."""
    script = (
        f"import sys; before = set(sys.modules); import {package}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    new = set(found.stdout.split())
    assert {m for m in new if m.startswith("wakebus")} == {"wakebus", "wakebus.broker"}
    assert not new & {"zmq", "json", "msgspec", "psutil", "sqlite3", "httpx", "yaml", "rich"}


@pytest.mark.parametrize("package", [broker, adapters])
def test_the_map_lists_every_room_and_module(package: ModuleType) -> None:
    """The docstring of a package is its map: its rooms, and the files beside them."""
    assert package.__doc__ and package.__file__
    folder = Path(package.__file__).parent
    files = {f.stem for f in folder.glob("*.py")} - {"__init__", "__main__"}
    rooms = {f"{f.parent.name}/" for f in folder.glob("*/__init__.py")}
    assert files | rooms <= set(package.__doc__.split())
