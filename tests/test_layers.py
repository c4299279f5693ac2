"""
The house: which room may import which, what is pure, how large a thing may be, what names mean.

A room is a folder. README.md ("Change it") draws them, CONTRIBUTING.md tells their rules.
"""

import ast
import io
import re
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("broker", "adapters", "plugin")


# No socket, no file, no clock: rooms, and single files of others.
PURE: Final = (
    "broker.protocol",
    "broker.errors",
    "broker.core.mailbox",
    "broker.store.rows",
    "broker.pubsub.sequences",
    "adapters.abilities",
    "adapters.base",
    "adapters.errors",
    "adapters.sanitize",
    "adapters.kit",
    "adapters.markdown",
    "adapters.platforms",
    "adapters.delivery.split",
    "adapters.settings.redact",
    "plugin.rules.model",
    "plugin.rules.match",
    "plugin.rules.render",
    "plugin.rules.sanitize",
    "plugin.rules.errors",
    "plugin.processes.environment",
    "plugin.prompt.label",
    "plugin.hermes.endpoint_name",
    "plugin.hermes.tools.schemas",
    "plugin.hermes.shared.safe_chat_text",
    "plugin.install.yaml_edit",
    "plugin.install.hermes_config",
    "plugin.install.shipped_files",
    "plugin.install.errors",
)
NOT_PURE = {
    *("zmq", "httpx", "psutil", "sqlite3", "socket", "subprocess", "threading", "asyncio"),
    *("time", "pathlib", "shutil", "tempfile", "logging", "random"),
}
# Files, clocks, and all of `os` but its random bytes.
IMPURE = re.compile(r"(?<!def )(?<![\w.])open\(|\.(now|today|utcnow)\(|\bos\.(?!urandom\b)")

MAX_FILE = 300  # code lines: no docstrings, comments, imports, empty lines
MAX_CLASS = 250  # code lines
MAX_FUNCTION = 60  # lines


@cache
def modules() -> dict[str, Path]:
    """Return every module of the project, without `wakebus.`."""
    found = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


def room_of(module: str) -> str:
    """Return the folder in which a module lies, as a dotted name."""
    return ".".join(modules()[module].parent.relative_to(ROOT).parts)


@cache
def tree_of(file: Path) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports_of(file: Path) -> set[str]:
    """Return all that a file imports, anywhere in it; `from a import b` gives a and a.b."""
    found = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_pure(module: str) -> bool:
    """Return whether PURE names a module, or its room."""
    return module in PURE or module.startswith(tuple(f"{name}." for name in PURE))


def stdlib() -> frozenset[str]:
    """Return the names of the standard library."""
    return sys.stdlib_module_names


@cache
def uses(module: str) -> set[str]:
    """
    Return the modules of this project that a module imports, anywhere in it, also for types only.

    `from package import module` is the module; `from package import name` is the package's face.
    """
    found = set()
    for node in ast.walk(tree_of(modules()[module])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                inner = whole.removeprefix("wakebus.") in modules()
                found.add(whole if inner else str(node.module))
    return {name.removeprefix("wakebus.") for name in found if name.startswith("wakebus.")}


def is_face(module: str) -> bool:
    """Return whether a module is a package's `__init__`: it hands names on, lazily."""
    return modules()[module].name == "__init__.py"


@pytest.mark.parametrize("module", [m for m in modules() if is_pure(m)])
def test_pure_modules_do_no_io(module: str) -> None:
    """No socket, no file, no clock: `now` is an argument."""
    tops = {name.partition(".")[0] for name in imports_of(modules()[module])}
    assert not tops & NOT_PURE, f"{module} imports {sorted(tops & NOT_PURE)}"
    assert not IMPURE.findall(ast.unparse(tree_of(modules()[module])))


@pytest.mark.parametrize("module", [m for m in modules() if is_pure(m)])
def test_pure_modules_import_pure_modules(module: str) -> None:
    """Of this project."""
    for name in uses(module):
        assert is_pure(name) or is_face(name), f"{module} imports {name}, which is not pure"


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def code_lines(file: Path) -> frozenset[int]:
    """Return the numbers of a file's lines of code: no docstring, comment, import, empty line."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(file)):
        if isinstance(node, Documented) and ast.get_docstring(node):
            lines -= span(node.body[0])
        elif isinstance(node, ast.Import | ast.ImportFrom):
            lines -= span(node)
    return frozenset(lines)


def span(node: ast.stmt) -> set[int]:
    """Return the numbers of a statement's lines."""
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_file_opens_with_its_rules(module: str) -> None:
    """A docstring first."""
    if module != "broker.__main__":
        assert ast.get_docstring(tree_of(modules()[module])), module


@pytest.mark.parametrize("module", sorted(modules()))
def test_sizes(module: str) -> None:
    """A file, a class, a function is no larger than one can hold in mind."""
    file = modules()[module]
    code = code_lines(file)
    assert len(code) <= MAX_FILE, f"{module}: {len(code)} lines of code"
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.ClassDef):
            assert len(code & span(node)) <= MAX_CLASS, f"{module}: class {node.name}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert len(span(node)) <= MAX_FUNCTION, f"{module}: function {node.name}"
