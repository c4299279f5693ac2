"""
The smallest edits of a YAML text: every other byte stays as the user wrote it.

Rule 1: pure; a text and a path go in, a text comes out. Rule 2: positions come from PyYAML's own
nodes, and the caller compares what the new text means with what was wanted: a layout that is not
understood here raises CannotEdit, it never changes anything else. Rule 3: a container that an edit
leaves empty goes with it, as `add_item` and `put` made it: one in flow style, or with a comment on
its line, is the user's and stays. Rule 4: a last line without an end never gets one.
"""

from typing import Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.tokens import (
    FlowMappingEndToken,
    FlowMappingStartToken,
    FlowSequenceEndToken,
    FlowSequenceStartToken,
)

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
            if len(node.value) == 1 and not _stays(text, path, node):
                return drop_key(text, path)
            return _cut(text, node, one, one)
    raise CannotEdit


def drop_key(text: str, path: Path) -> str:
    """Return `text` without the key at `path`, and without what this leaves empty (rule 3)."""
    node, left = _deepest(text, path[:-1])
    if left or not isinstance(node, MappingNode):
        raise CannotEdit
    if len(path) > 1 and len(node.value) == 1 and not _stays(text, path[:-1], node):
        return drop_key(text, path[:-1])
    for key, value in node.value:
        if key.value == path[-1]:
            return _cut(text, node, key, value)
    raise CannotEdit


def _stays(text: str, path: Path, node: MappingNode | SequenceNode) -> bool:
    """Return whether the container `node` at `path` is left, empty."""
    above, _ = _deepest(text, path[:-1])
    if not isinstance(above, MappingNode):
        raise CannotEdit
    if node.flow_style:
        return not above.flow_style
    key = next(key for key, _ in above.value if key.value == path[-1])
    return "#" in text[key.start_mark.index : node.start_mark.index]


def find_duplicate_key(text: str, path: Path) -> tuple[str, int, int] | None:
    """Return the first key on `path` that stands twice in its mapping, and both lines."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for name in path:
        pairs = node.value if isinstance(node, MappingNode) else []
        lines = [key.start_mark.line + 1 for key, _ in pairs if key.value == name]
        if len(lines) > 1:
            return name, lines[0], lines[1]
        node = _value(node, name)
    return None


def find_open_bracket(text: str) -> int | None:
    """Return the line of the innermost bracket that a broken `text` leaves open, if any."""
    lines: list[int] = []
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, FlowSequenceStartToken | FlowMappingStartToken):
                lines.append(token.start_mark.line + 1)
            elif isinstance(token, FlowSequenceEndToken | FlowMappingEndToken):
                del lines[-1:]
    except yaml.YAMLError:
        pass
    return lines[-1] if lines else None


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
    # An end would become part of a block scalar that has none: there the lines come first.
    if not prefix and not _open_ended(text, node):
        return _at_end(text, lines)
    return text[:start] + "".join(prefix + line + _newline(text) for line in lines) + text[start:]


def _at_end(text: str, lines: list[str]) -> str:
    newline = _newline(text)
    if text and not text.endswith("\n"):
        return text + "".join(newline + line for line in lines)
    return text + "".join(line + newline for line in lines)


def _open_ended(text: str, node: Node) -> bool:
    """Return whether `text` ends in a block scalar without an end of its last line."""
    while isinstance(node, MappingNode | SequenceNode) and node.value and not node.flow_style:
        node = node.value[-1][1] if isinstance(node, MappingNode) else node.value[-1]
    block = isinstance(node, ScalarNode) and node.style in ("|", ">")
    return block and not text.endswith("\n")


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
    if stop < 0:
        return text[:line].removesuffix("\n").removesuffix("\r")
    return text[:line] + text[stop + 1 :]


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
