"""
The smallest edits of a YAML text: every other byte stays as the user wrote it.

Rule 1: pure; a text and a path go in, a text comes out. Rule 2: positions come from PyYAML's own
nodes, and the caller compares what the new text means with what was wanted: a layout that is not
understood here raises CannotEdit, it never changes anything else. Rule 3: a container that an edit
leaves empty goes with it.
"""

from typing import Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Path = tuple[str, ...]
INDENT: Final = "  "


class CannotEdit(ValueError):
    """The text is laid out in a way that is not understood here."""


def add_item(text: str, path: Path, item: str) -> str:
    """Return `text` with the plain word `item` first in the list at `path`, made if need be."""
    node, left = _deepest(text, path)
    if not left and isinstance(node, SequenceNode):
        return _into_list(text, node, item)
    return _fill(text, node, left, f"[{item}]", ["- " + item])


def put(text: str, path: Path, value: str) -> str:
    """Return `text` with the plain scalar `value` at `path`; mappings on the way are made."""
    node, left = _deepest(text, path)
    if not left and isinstance(node, ScalarNode) and node.start_mark.index < node.end_mark.index:
        return text[: node.start_mark.index] + value + text[node.end_mark.index :]
    return _fill(text, node, left, value, [])


def drop_item(text: str, path: Path, item: str) -> str:
    """Return `text` without `item` in the list at `path`; it must be there."""
    node, left = _deepest(text, path)
    if left or not isinstance(node, SequenceNode):
        raise CannotEdit
    for one in node.value:
        if isinstance(one, ScalarNode) and one.value == item:
            if len(node.value) == 1:
                return drop_key(text, path)
            return _cut(text, node, one, one)
    raise CannotEdit


def drop_key(text: str, path: Path) -> str:
    """Return `text` without the key at `path`, and without the mappings that this leaves empty."""
    node, left = _deepest(text, path[:-1])
    if left or not isinstance(node, MappingNode):
        raise CannotEdit
    if len(node.value) == 1 and len(path) > 1:
        return drop_key(text, path[:-1])
    for key, value in node.value:
        if key.value == path[-1]:
            return _cut(text, node, key, value)
    raise CannotEdit


def _deepest(text: str, path: Path) -> tuple[Node | None, Path]:
    """Return the node as far along `path` as there are mappings, and what of the path is left."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, name in enumerate(path):
        found = _value(node, name)
        if found is None:
            return node, path[depth:]
        node = found
    return node, ()


def _value(node: Node | None, name: str) -> Node | None:
    pairs = node.value if isinstance(node, MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _fill(text: str, node: Node | None, left: Path, flow: str, block: list[str]) -> str:
    """Return `text` with the mappings `left` and in them a value, written as `flow` or `block`."""
    inline = "".join(f"{{{name}: " for name in left[1:]) + flow + "}" * len(left[1:])
    if isinstance(node, MappingNode) and left:
        if node.flow_style:
            comma = ", " if node.value else ""
            return _insert(text, node.start_mark.index + 1, f"{left[0]}: {inline}{comma}", "{")
        return _into_block(text, node, _lines(left, flow, block))
    if isinstance(node, ScalarNode) and node.tag.endswith(":null"):
        start, end = node.start_mark.index, node.end_mark.index
        whole = inline if not left else f"{{{left[0]}: {inline}}}"
        return text[:start] + ("" if start < end else " ") + whole + text[end:]
    if node is None:
        return _at_end(text, _lines(left, flow, block))
    raise CannotEdit


def _lines(left: Path, flow: str, block: list[str]) -> list[str]:
    """Return the keys `left`, each below and inside the one before, and the value."""
    found = [INDENT * depth + f"{name}:" for depth, name in enumerate(left)]
    if not block:
        found[-1] += f" {flow}"
    return found + [INDENT * len(left) + line for line in block]


def _into_block(text: str, node: MappingNode, lines: list[str]) -> str:
    """Return `text` with `lines` before a block mapping's first key; in the root, at the end."""
    mark = node.value[0][0].start_mark
    start = mark.index - mark.column
    prefix = text[start : mark.index]
    if prefix.strip():
        raise CannotEdit
    if not prefix:
        return _at_end(text, lines)
    return text[:start] + "".join(prefix + line + _newline(text) for line in lines) + text[start:]


def _at_end(text: str, lines: list[str]) -> str:
    newline = _newline(text)
    gap = "" if not text or text.endswith("\n") else newline
    return text + gap + "".join(line + newline for line in lines)


def _into_list(text: str, node: SequenceNode, item: str) -> str:
    if node.flow_style:
        comma = ", " if node.value else ""
        return _insert(text, node.start_mark.index + 1, item + comma, "[")
    mark = node.value[0].start_mark
    start = mark.index - mark.column
    prefix = text[start : mark.index]
    if prefix.strip() != "-":
        raise CannotEdit
    return text[:start] + prefix + item + _newline(text) + text[start:]


def _insert(text: str, at: int, what: str, behind: str) -> str:
    if text[at - 1] != behind:
        raise CannotEdit
    return text[:at] + what + text[at:]


def _cut(text: str, node: MappingNode | SequenceNode, first: Node, last: Node) -> str:
    """Return `text` without the entry of `node` that reaches from `first` to `last`."""
    start, end = first.start_mark.index, _end(last)
    if node.flow_style:
        return _cut_flow(text, start, end)
    line = start - first.start_mark.column
    if text[line:start].strip() not in ("", "-"):
        raise CannotEdit
    stop = text.find("\n", end)
    return text[:line] + ("" if stop < 0 else text[stop + 1 :])


def _cut_flow(text: str, start: int, end: int) -> str:
    """Return `text` without what lies between two positions and without one comma beside it."""
    behind = text[end:].lstrip(" ")
    if behind.startswith(","):
        return text[:start] + behind[1:].lstrip(" ")
    before = text[:start].rstrip(" ")
    return before.removesuffix(",") + text[end:]


def _end(node: Node) -> int:
    """Return where a node's own text ends; a block's end mark lies behind the comments after it."""
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        return _end(node.value[-1][1])
    if isinstance(node, SequenceNode) and not node.flow_style and node.value:
        return _end(node.value[-1])
    return int(node.end_mark.index)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
