"""
Who may import whom: the broker knows no platform and no agent, adapters know no agent, and pure
modules do no IO.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("broker", "adapters", "plugin")

# What adapters may know of the broker: its client and what a client is made of.
FOR_ADAPTERS = {"client", "receiver", "message", "errors", "paths"}
CLIENT_NAMES = {"Client", "Delivery", "Later", "Message", "Outcome", "Refusal", "Receipt", "Answer"}

PURE = [
    *("broker.wire", "broker.message", "broker.state", "broker.mailbox", "broker.errors"),
    *("broker.topics", "broker.event"),
    *("adapters.base", "adapters.abilities", "adapters.channel", "adapters.errors"),
    *("adapters.home", "adapters.aside", "adapters.dotenv"),
    *(
        "adapters.pace",
        "adapters.buckets",
        "adapters.circuit",
        "adapters.crowd",
        "adapters.tally",
        "adapters.waits",
        "adapters.turns",
        "adapters.shuts",
        "adapters.passing",
    ),
    *("adapters.markup", "adapters.answers", "adapters.bodies", "adapters.codes", "adapters.ids"),
    *("adapters.urls", "adapters.split", "adapters.calls", "adapters.mask", "adapters.facts"),
    *("adapters.feishu", "adapters.dingtalk", "broker.gaps"),
    *("adapters.telegram", "adapters.slack", "adapters.discord"),
    *("adapters.mattermost", "adapters.matrix", "adapters.ntfy"),
    *("adapters.wecom", "adapters.weixin", "adapters.webhook", "adapters.apprise"),
    *("plugin.rules.model", "plugin.rules.match", "plugin.rules.render", "plugin.rules.clean"),
    *("plugin.rules.errors", "plugin.environment", "plugin.receive.label"),
    *("plugin.hermes.names", "plugin.hermes.schemas", "plugin.hermes.chattext"),
    *("plugin.install.yamltext", "plugin.install.config", "plugin.install.shipped"),
    *("plugin.install", "plugin.install.errors"),
]
NOT_PURE = {
    *("zmq", "httpx", "psutil", "sqlite3", "socket", "subprocess", "threading", "asyncio"),
    *("time", "pathlib", "shutil", "tempfile", "logging", "random"),
}
# Files, clocks, and all of `os` but its random bytes.
IMPURE = re.compile(r"(?<!def )(?<![\w.])open\(|\.(now|today|utcnow)\(|\bos\.(?!urandom\b)")


@cache
def modules() -> dict[str, Path]:
    """Return every module of the project, without `wakebus.`."""
    found = {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = file
    return found


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


# A platform's facts are data and what reads it; markup is text to text.
PURE += [name for name in modules() if name.startswith(("adapters.facts.", "adapters.marks"))]


def stdlib() -> frozenset[str]:
    """Return the names of the standard library."""
    return sys.stdlib_module_names


def ours(file: Path) -> set[str]:
    """Return the imported names below `wakebus.`."""
    return {
        name.removeprefix("wakebus.") for name in imports_of(file) if name.startswith("wakebus.")
    }


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("broker")])
def test_the_broker_knows_nobody(module: str) -> None:
    """Neither adapters nor plugin: services are found by entry point."""
    assert not [n for n in ours(modules()[module]) if not n.startswith("broker")]


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("adapters")])
def test_adapters_know_the_client_only(module: str) -> None:
    """Nothing of the plugin, and of the broker what a client is made of."""
    for name in ours(modules()[module]):
        room, _, rest = name.partition(".")
        assert room != "plugin", f"{module} imports {name}"
        first = rest.partition(".")[0]
        if room == "broker" and rest:
            assert first in FOR_ADAPTERS | CLIENT_NAMES, f"{module} imports {name}"


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_do_no_io(module: str) -> None:
    """No socket, no file, no clock: `now` is an argument."""
    tops = {name.partition(".")[0] for name in imports_of(modules()[module])}
    assert not tops & NOT_PURE, f"{module} imports {sorted(tops & NOT_PURE)}"
    assert not IMPURE.findall(_code(modules()[module]))


def _code(file: Path) -> str:
    """Return a file's code without comments and with plain strings."""
    return ast.unparse(tree_of(file))


def test_pure_modules_import_pure_modules() -> None:
    """Of this project."""
    for module in PURE:
        for name in ours(modules()[module]):
            if name in modules() and name not in ("broker", "adapters", "plugin"):
                assert name in PURE, f"{module} imports {name}, which is not pure"


def test_no_module_imports_itself_in_a_circle() -> None:
    """At import time: the order of the layers inside a room holds too."""
    graph = {}
    for module, file in modules().items():
        names = set()
        for node in tree_of(file).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
        below = {n.removeprefix("wakebus.") for n in names}
        graph[module] = {n for n in below if n in modules() and n != module and "." in n}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join((*path, module))
        if module not in done:
            for other in graph[module]:
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("module", sorted(modules()))
def test_every_file_opens_with_its_rules(module: str) -> None:
    """A docstring first; no file over 300 lines."""
    text = modules()[module].read_text(encoding="utf-8")
    if module != "broker.__main__":
        assert ast.get_docstring(tree_of(modules()[module])), module
    assert len(text.splitlines()) <= 300, f"{module} is over its budget"
