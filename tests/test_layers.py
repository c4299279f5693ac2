"""
The house: which room may import which, what is pure, how large a thing may be, what names mean.

A room is a folder. README.md ("Change it") draws them, CONTRIBUTING.md tells their rules.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from fakes.code_lines import code_lines

ROOT = Path(__file__).parents[1]
FOLDERS = ("broker", "adapters", "plugin")

# What every room of a package may import: the files of the package's own folder, but its face.
GROUND: Final = {
    "broker": {
        "errors",
        "paths",
        "address",
        "folder_trust",
        "denial",
        "settings",
        "duration",
        "other_version",
        "user_unit",
    },
    "adapters": {
        *("abilities", "base", "channel", "errors", "platform_names", "registry", "sanitize")
    },
    "plugin": set[str](),
}

# A room, its rule, and what it imports beside itself and its package's ground.
PAGE: Final = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROW: Final = re.compile(r"^\| `([a-z_/]+)` \| (.+) \| (.*) \|$", re.M)
ROOMS: Final = {
    room.replace("/", "."): set(re.findall(r"`(.+?)`", imports.replace("/", ".")))
    for room, _, imports in ROW.findall(PAGE)
}

# No socket, no file, no clock: rooms, and single files of others.
PURE: Final = (
    "broker.protocol",
    "broker.errors",
    "broker.duration",
    "broker.core.loop_guard",
    "broker.core.mailbox",
    "broker.core.mailbox_entry",
    "broker.store.rows",
    "broker.system.text_width",
    "broker.pubsub.sequences",
    "adapters.abilities",
    "adapters.base",
    "adapters.channel",
    "adapters.errors",
    "adapters.platform_names",
    "adapters.sanitize",
    "adapters.kit",
    "adapters.markdown",
    "adapters.platforms",
    "adapters.delivery.places",
    "adapters.delivery.split",
    "adapters.pacing.bulkhead",
    "adapters.pacing.chat_lease",
    "adapters.pacing.circuit_breaker",
    "adapters.pacing.cooldowns",
    "adapters.pacing.counters",
    "adapters.pacing.rate_buckets",
    "adapters.pacing.rate_limiter",
    "adapters.settings.redact",
    "plugin.rules.model",
    "plugin.rules.match",
    "plugin.rules.text_search",
    "plugin.rules.yaml_hints",
    "plugin.rules.render",
    "plugin.rules.sanitize",
    "plugin.rules.errors",
    "plugin.processes.environment",
    "plugin.prompt.label",
    "plugin.harness.agent_command",
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

MAX_FILES = 15  # in a room
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
                if alias.name == "__version__":
                    continue  # what a package's face may be asked for from below
                whole = f"{node.module}.{alias.name}"
                inner = whole.removeprefix("wakebus.") in modules()
                found.add(whole if inner else str(node.module))
    return {name.removeprefix("wakebus.") for name in found if name.startswith("wakebus.")}


def is_face(module: str) -> bool:
    """Return whether a module is a package's `__init__`: it hands names on, lazily."""
    return modules()[module].name == "__init__.py"


FACES: Final = {*FOLDERS, "broker.client", "broker.aio", "broker.__main__"}
"""Modules that hand on names of their rooms, lazily."""


@cache
def imported_rooms(room: str) -> dict[str, str]:
    """Return the rooms that a room's files import, each with one of those files."""
    top = room.partition(".")[0]
    found = {}
    for module in modules():
        if room_of(module) == room and module not in FACES:
            for name in uses(module):
                if name not in {f"{top}.{ground}" for ground in GROUND[top]}:
                    found[room_of(name)] = module
    found.pop(room, None)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_its_row_says(room: str) -> None:
    """All imports count, also those inside functions and under TYPE_CHECKING."""
    found = imported_rooms(room)
    told = {name: module for name, module in found.items() if name not in ROOMS[room]}
    assert not told, f"CONTRIBUTING.md does not allow {room} to import: {told}"
    assert not ROOMS[room] - set(found), f"CONTRIBUTING.md lets {room} import what it does not"


def test_the_table_of_rooms_is_the_house() -> None:
    """Every folder with modules has its row, and every row its folder."""
    assert {room_of(module) for module in modules()} == set(ROOMS)


def rule_of(room: str) -> str:
    """Return a room's rule: the first paragraph of its `__init__`."""
    text = ast.get_docstring(tree_of(ROOT.joinpath(*room.split("."), "__init__.py"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


@pytest.mark.parametrize(("room", "rule"), [(room, rule) for room, rule, _ in ROW.findall(PAGE)])
def test_a_room_opens_with_its_rule(room: str, rule: str) -> None:
    """CONTRIBUTING.md says what the rooms themselves say."""
    assert rule_of(room.replace("/", ".")) == rule


def circles(graph: dict[str, set[str]]) -> Iterator[str]:
    """Yield the circles of a graph, each once, as `a → b → a`."""
    done: set[str] = set()

    def visit(node: str, path: tuple[str, ...]) -> Iterator[str]:
        if node in path:
            yield " → ".join((*path[path.index(node) :], node))
        elif node not in done:
            for other in sorted(graph.get(node, ())):
                yield from visit(other, (*path, node))
            done.add(node)

    for node in graph:
        yield from visit(node, ())


def test_no_circle_of_files() -> None:
    """Over all imports, also those for types only: each file can be understood on its own."""
    graph = {m: {n for n in uses(m) if n != m and not is_face(n)} for m in modules()}
    graph = {m: names for m, names in graph.items() if not is_face(m)}
    assert list(circles(graph)) == []


def test_no_circle_of_rooms() -> None:
    """The ground of a package is a room below its others."""
    graph: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        if is_face(module) or module == "broker.__main__":
            continue
        here = room_of(module)
        graph[here] |= {room_of(n) for n in uses(module) if not is_face(n)} - {here}
    assert list(circles(graph)) == []


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


def test_rooms_are_small() -> None:
    """No more files in a room than one can look over; `__init__` is its door."""
    rooms = Counter(room_of(module) for module in modules() if not is_face(module))
    assert not {room: count for room, count in rooms.items() if count > MAX_FILES}


def names_of_classes() -> dict[str, list[str]]:
    """Return each public class and type alias with the modules that define it."""
    found = defaultdict(list)
    for module, file in modules().items():
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][a-z]\w*", target.id):
                    found[target.id].append(module)
    return found


def test_one_name_one_meaning() -> None:
    """A public class or type of a name is the only one of it in the house."""
    assert not {name: where for name, where in names_of_classes().items() if len(where) > 1}


# Verbs that say nothing alone: grep finds them everywhere.
EVERYDAY: Final = {
    *("give", "go", "hand", "keep", "kept", "leave", "look", "make", "move", "note", "say"),
    *("take", "tell", "work", "hold", "drop", "end"),
}


@pytest.mark.parametrize("module", sorted(modules()))
def test_names_tell_what_is_done(module: str) -> None:
    """No public function or method is called by one everyday verb alone."""
    for node in ast.walk(tree_of(modules()[module])):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.name not in EVERYDAY, f"{module}:{node.lineno}: {node.name}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_no_literal_is_splatted(module: str) -> None:
    """`f(*(a, b), c)` has one use: fewer lines. An argument a line is read more easily."""
    for node in ast.walk(tree_of(modules()[module])):
        if isinstance(node, ast.Call):
            splats = [arg.value for arg in node.args if isinstance(arg, ast.Starred)]
            splats += [word.value for word in node.keywords if word.arg is None]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            splats = [item.value for item in node.elts if isinstance(item, ast.Starred)]
        else:
            continue
        literals = [s for s in splats if isinstance(s, ast.Tuple | ast.List | ast.Set | ast.Dict)]
        assert not literals, f"{module}:{node.lineno}"


# What the standard library and pyzmq offer under such a name.
FOREIGN_PRIVATE: Final = {
    *("_asdict", "_exit", "_field_defaults", "_fields", "_make", "_replace"),  # namedtuple, os
    *("_fill_text", "_sockets", "_closed"),  # argparse's formatter; zmq.Context's in a forked child
}


@pytest.mark.parametrize("module", sorted(modules()))
def test_no_private_attribute_of_another_class(module: str) -> None:
    """What another class needs is public. Hermes's private names: plugin/hermes/host_api/."""
    if room_of(module) == "plugin.hermes.host_api":
        return
    for node in ast.walk(tree_of(modules()[module])):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            told = f"{module}:{node.lineno}: {ast.unparse(node)}"
            assert own or node.attr in FOREIGN_PRIVATE, told
