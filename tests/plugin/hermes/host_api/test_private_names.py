"""All private names of Hermes stand in plugin/hermes/host_api."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.private_names import private_names

ROOT = Path(__file__).parents[4]
ROOM = ROOT / "plugin" / "hermes" / "host_api"
FILES = [
    file
    for folder in ("plugin", "deploy")
    for file in sorted((ROOT / folder).rglob("*.py"))
    if ROOM not in file.parents
]
MODULES = {
    *("acp_adapter", "agent", "cli", "cron", "gateway", "hermes_cli", "hermes_constants"),
    *("hermes_state", "run_agent", "tools", "tui_gateway", "utils"),
}
# The gateway's hook finds the plugin that the same process has loaded, or has not.
OURS = {
    "plugin/hermes/gateway_events.py": {"sys.modules"},
    "plugin/hermes/isolated/process.py": {"gateway.sock", "gateway.sock.path"},  # files
}
# Of the standard library.
STANDARD = {"_exit", "_replace", "_asdict", "_fill_text"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_private_name_stands_elsewhere(file: Path) -> None:
    """HERMES-2.15: where Hermes changes inside, one room changes."""
    found = set(private_names(ast.parse(file.read_text(encoding="utf-8"))))
    assert not found - STANDARD


def modules_looked_into(tree: ast.AST) -> Iterator[str]:
    """Yield the modules of Hermes that are imported, and looks at those that it has loaded."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if re.fullmatch(r"\w+(\.\w+)+", node.value) else []
        elif isinstance(node, ast.Attribute) and node.attr == "modules":
            yield "sys.modules"
        yield from (name for name in names if name.partition(".")[0] in MODULES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_module_of_hermes_is_looked_into_elsewhere(file: Path) -> None:
    """HERMES-2.15: nor is one imported: importing `gateway.run` marks the process as a gateway."""
    found = set(modules_looked_into(ast.parse(file.read_text(encoding="utf-8"))))
    assert not found - OURS.get(file.relative_to(ROOT).as_posix(), set())


@pytest.mark.parametrize("file", sorted(ROOM.glob("public_*.py")), ids=lambda file: str(file.stem))
def test_the_public_way_names_none(file: Path) -> None:
    """HERMES-2.15: what Hermes offers needs no look inside."""
    assert not set(private_names(ast.parse(file.read_text(encoding="utf-8"))))


def test_they_stand_here() -> None:
    """The test above sees each way to name one."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in ROOM.glob("*.py")]
    assert len({name for tree in trees for name in private_names(tree)}) > 30
    ways = "getattr(x, '_a'); hasattr(x, '_b'); x._c; f(['_d']); from y import _e; from _f import z"
    assert set(private_names(ast.parse(ways))) == {"_a", "_b", "_c", "_d", "_e", "_f"}
    assert not set(private_names(ast.parse("self._a; x.__class__; '_A'; '_'; 'a _b'")))


def test_modules_are_seen() -> None:
    """Each way to look into one."""
    ways = "import cli; from gateway.run import x; f('tools.approval'); sys.modules; 'gateway'"
    assert set(modules_looked_into(ast.parse(ways))) == {
        *("cli", "gateway.run", "tools.approval", "sys.modules"),
    }


def test_the_seam_is_narrow() -> None:
    """HERMES-2.15: each part of what is asked of Hermes is a dozen functions at most."""
    tree = ast.parse((ROOM / "protocol.py").read_text(encoding="utf-8"))
    asked = {
        node.name: sum(isinstance(one, ast.FunctionDef) for one in node.body)
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    assert {"SessionsApi", "ChatsApi", "TurnsApi"} < set(asked) and max(asked.values()) <= 12
