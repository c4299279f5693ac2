"""
YAML as values that know their line, so that every complaint names one.

Rule 1: pure; knows YAML, not what a rule is. Rule 2: any text parses, or raises Wrong. Rule 3: no
tag builds an object and no alias is copied: work and memory stay linear in the text. Rule 4: a
value of the wrong type is an error that says what to write, never a conversion.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from wakebus.plugin.rules import yaml_hints

_TAG: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
    "timestamp": "a date",
}
_TRUE: Final = frozenset({"true", "yes", "on"})


class Wrong(Exception):
    """Something in the text that cannot be used; `line` from 1, 0 if unknown."""

    def __init__(self, line: int, key: str, text: str) -> None:
        super().__init__(text)
        self.line, self.key, self.text = line, key, text


class MapEntry(NamedTuple):
    """One `key: value` of a map."""

    key: str
    line: int
    node: Node


def parse(text: str) -> Node | None:
    """Return the document in `text`, None if it is empty. Raises Wrong."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        hint = yaml_hints.explain(exc, text)
        raise Wrong(hint.line, "", hint.text) from exc
    except yaml.reader.ReaderError as exc:
        line, char = text.count("\n", 0, exc.position) + 1, ord(text[exc.position])
        raise Wrong(line, "", f"character U+{char:04X} may not be in YAML") from exc
    except RecursionError as exc:
        raise Wrong(0, "", "nested too deeply") from exc
    except (ValueError, OverflowError) as exc:  # an escape or a directive beyond any sense
        raise Wrong(0, "", f"not YAML: {exc}") from exc
    return None if node is None or _tag(node) == "null" else node


def line_of(node: Node) -> int:
    """Return the line on which `node` begins, from 1."""
    return int(node.start_mark.line) + 1


def is_nothing(node: Node) -> bool:
    """Return whether the value was left out (`key:`, `~`, `null`)."""
    return _tag(node) == "null"


def _tag(node: Node) -> str:
    return str(node.tag).removeprefix(_TAG)


def entries(node: Node, key: str, wrong: Callable[[Wrong], None]) -> dict[str, MapEntry]:
    """Return the entries of a map, merged ones (`<<`) included. Repeated keys go to `wrong`."""
    return _Maps(key, wrong).entries(node)


class _Maps:
    # A merged map is read once, however often it is named: `<<` cannot explode.
    def __init__(self, key: str, wrong: Callable[[Wrong], None]) -> None:
        self._key, self._wrong = key, wrong
        self._done: dict[int, dict[str, MapEntry]] = {}

    def entries(self, node: Node) -> dict[str, MapEntry]:
        if not isinstance(node, MappingNode):
            raise Wrong(line_of(node), self._key, f"{kind(node)} where a map (key: value) belongs")
        if id(node) in self._done:
            return self._done[id(node)]
        self._done[id(node)] = {}
        own: dict[str, MapEntry] = {}
        merged: dict[str, MapEntry] = {}
        for name, value in node.value:
            if _tag(name) == "merge":
                merged = {**self._merged(value), **merged}
            else:
                self._put(own, name, value)
        self._done[id(node)] = {**merged, **own}
        return self._done[id(node)]

    def _merged(self, value: Node) -> dict[str, MapEntry]:
        found: dict[str, MapEntry] = {}
        for node in value.value if isinstance(value, SequenceNode) else [value]:
            found = {**self.entries(node), **found}
        return found

    def _put(self, own: dict[str, MapEntry], name: Node, value: Node) -> None:
        if not isinstance(name, ScalarNode):
            self._wrong(Wrong(line_of(name), self._key, f"{kind(name)} where a key belongs"))
            return
        if name.value in own:
            first = own[name.value].line
            text = f"stands here twice (first on line {first})"
            self._wrong(Wrong(line_of(name), name.value, text))
        own[name.value] = MapEntry(name.value, line_of(name), value)


def items(node: Node, key: str) -> Iterator[Node]:
    """Return the items of a list. Raises Wrong."""
    if not isinstance(node, SequenceNode):
        raise Wrong(line_of(node), key, f"{kind(node)} where a list (- …) belongs")
    return iter(node.value)


def near(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, or ""."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def kind(node: Node) -> str:
    """Return what a value is, in words for people."""
    if isinstance(node, MappingNode):
        return "a map"
    if isinstance(node, SequenceNode):
        return "a list"
    tag = _tag(node)
    name = _KINDS.get(tag, "text" if tag == "str" else f"tag {tag[:40]}")
    return f"`{str(node.value)[:40]}` ({name} in YAML)" if tag != "null" else "nothing"


def text(node: Node) -> str:
    """Return a text value. Raises Wrong, also for `on`, `no`, `12` without quotes."""
    if _tag(node) == "str" and isinstance(node, ScalarNode):
        return str(node.value)
    hint = yaml_hints.as_text(node)
    if _tag(node) in _KINDS:
        hint = f"; for the text, write {yaml_hints.quoted(str(node.value))}"
    raise Wrong(line_of(node), "", f"{kind(node)} where text belongs{hint}")


def texts(node: Node) -> tuple[str, ...]:
    """Return a text, or a list of texts, as a tuple. Raises Wrong."""
    if isinstance(node, SequenceNode):
        if not node.value:
            raise Wrong(line_of(node), "", "an empty list; leave the key out instead")
        return tuple(text(item) for item in node.value)
    return (text(node),)


def flag(node: Node) -> bool:
    """Return true or false. Raises Wrong."""
    if _tag(node) != "bool":
        raise Wrong(line_of(node), "", f"{kind(node)}; write true or false, without quotes")
    return str(node.value).lower() in _TRUE


def number(low: float, high: float) -> Callable[[Node], float]:
    """Return a reader of numbers from `low` to `high`."""

    def read(node: Node) -> float:
        value = _number(node)
        if value is None or not low <= value <= high:
            raise Wrong(line_of(node), "", f"{kind(node)}; write a number from {low:g} to {high:g}")
        return value

    return read


def _number(node: Node) -> float | None:
    if _tag(node) not in ("int", "float"):
        return None
    try:
        return float(node.value)
    except ValueError:  # 0x10, 1:30, .inf: numbers in YAML, but none here
        return None


def one_of(choices: tuple[Any, ...]) -> Callable[[Node], Any]:
    """Return a reader of one word out of `choices`."""

    def read(node: Node) -> Any:
        if _tag(node) == "str" and node.value in choices:
            return node.value
        hint = near(str(node.value), choices) if isinstance(node, ScalarNode) else ""
        raise Wrong(line_of(node), "", f"{kind(node)}; one of {', '.join(choices)}{hint}")

    return read
