"""All private names of Hermes stand in plugin/hermes/host_api."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
ROOM = ROOT / "plugin" / "hermes" / "host_api"
FILES = [
    file
    for folder in ("plugin", "deploy")
    for file in sorted((ROOT / folder).rglob("*.py"))
    if ROOM not in file.parents
]
PRIVATE = re.compile(r"_[a-z]\w*")
# What an object says of itself, or of its own class, is no other's.
OWN = {"self", "cls"}
# Of the standard library.
STANDARD = {"_exit", "_replace", "_asdict", "_fill_text"}


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private names of others: attributes, imports, and texts by which to look one up."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in OWN):
                yield node.attr
        elif isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from filter(PRIVATE.fullmatch, parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from filter(PRIVATE.fullmatch, [node.value])


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_private_name_stands_elsewhere(file: Path) -> None:
    """HERMES-2.15: where Hermes changes inside, one room changes."""
    found = set(private_names(ast.parse(file.read_text(encoding="utf-8"))))
    assert not found - STANDARD


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
