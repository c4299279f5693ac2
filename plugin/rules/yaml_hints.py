"""
What somebody meant who wrote something else in YAML: the line, and the right way of writing it.

Rule 1: pure; knows YAML's signs, not what a rule is. Rule 2: a hint quotes the line that is wrong
and shows it as it should be; where nothing fits, the parser's own words are shown. Rule 3: what is
valid YAML and surely not meant (`print_format: new #7`) is a doubt, for a warning.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

LONGEST: Final = 120  # characters of a line that is shown

_ENTRY: Final = re.compile(r"(?P<head>\s*(?:-\s+)*(?P<key>[\w.-]+):\s+)(?P<value>\S.*?)\s*\Z")
_NO_BLANK: Final = re.compile(
    r"(?P<head>\s*(?:-\s+)*)(?P<key>[A-Za-z_][\w-]*):(?P<value>[^\s:/].*)"
)
_DASH: Final = re.compile(r"(?P<head>\s*)-(?P<rest>[A-Za-z_]\w*:.*)")
_QUOTED: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*(?:#.*)?\Z""")
_SIGNS: Final = {
    "*": "names an alias",
    "&": "begins an anchor",
    "!": "begins a tag",
    "@": "is reserved",
    "`": "is reserved",
    "%": "begins a directive",
    "|": "begins a text of several lines",
    ">": "begins a text of several lines",
    "[": "begins a list",
    "{": "begins a map",
    "]": "ends a list",
    "}": "ends a map",
    ",": "parts the items of a list",
    "?": "begins a key",
}


class Hint(NamedTuple):
    """`line`: from 1."""

    line: int
    text: str


def explain(error: yaml.MarkedYAMLError, text: str) -> Hint:
    """Return what is wrong with `text`, which the parser gave up with this error."""
    problem, context = error.problem or "not YAML", error.context or ""
    mark = error.problem_mark or error.context_mark
    at = mark.line if mark else 0
    # A line of its own is what YAML ends a line by, not what str.splitlines does.
    lines = re.split("\r\n|\r|\n|\x85|\u2028|\u2029", text)
    if "'\\t'" in problem:
        return Hint(at + 1, "a tab; YAML is indented with spaces")
    if "quoted scalar" in context and error.context_mark:
        at = error.context_mark.line
        if "unexpected end" in problem or "document separator" in problem:
            return Hint(at + 1, "a quoted scalar: the quote that opens here is never closed")
    if "flow" in context and error.context_mark:
        at = error.context_mark.line
    for number in (at, at - 1):
        if 0 <= number < len(lines) and (hint := _slip(lines[number], own=number == at)):
            alias = "undefined alias: " if "undefined alias" in problem else ""
            return Hint(number + 1, alias + hint)
    if "block end" in problem or ("mapping values" in problem and _ENTRY.match(lines[at])):
        return Hint(
            at + 1, "this line does not begin where the ones above it do; indent it as they are"
        )
    if "could not find expected ':'" in problem:
        return Hint(max(at, 1), "a line without `key: value`")
    if "single document" in context or "document" in problem:
        return Hint(at + 1, "a second document (`---`), where a single document belongs")
    return Hint(at + 1, f"{problem} ({context})" if context else problem)


def _slip(line: str, *, own: bool) -> str:
    """Return what is wrong with one line, "" where it is none of the usual slips."""
    if found := _DASH.match(line):
        return f"write a blank behind the dash: {_cut('- ' + found['rest'])}"
    if (found := _NO_BLANK.match(line)) and not _ENTRY.match(line):
        return f"write a blank behind the colon: {_cut(found['key'] + ': ' + found['value'])}"
    found = _ENTRY.match(line) if own else None
    if found is None:
        return ""
    key, value = found["key"], found["value"]
    if value[0] == '"' and "\\" in value and not _QUOTED.match(value.replace("\\", "")):
        return ""
    why = _why_quoted(value)
    return f"{why}; write {_right(key, value)}" if why else ""


def _why_quoted(value: str) -> str:
    """Return why a value wants quotes, "" where it does not."""
    first = value[0]
    if first in _SIGNS:
        return f"`{first}` at the beginning of a value {_SIGNS[first]} in YAML"
    if value.startswith("- "):
        return "`- ` begins an item of a list in YAML"
    if first in "\"'":
        if not _QUOTED.match(value):
            return "text behind a closing quote"
        return "in double quotes `\\` begins an escape" if first == '"' and "\\" in value else ""
    if ": " in value or value.endswith(":"):
        return "`: ` within a value begins a map in YAML"
    return ""


def _right(key: str, value: str) -> str:
    if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1:
        value = value[1:-1]
    return _cut(f"{key}: {quoted(value)}")


def quoted(value: str) -> str:
    """Return a text as YAML writes it so that nothing in it is a sign."""
    return "'" + value.replace("'", "''") + "'"


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def source_of(node: Node) -> str:
    """Return how a value is written, "" where that is not known."""
    start, end = node.start_mark, node.end_mark
    if start.buffer is None:
        return ""
    return str(start.buffer[start.pointer : end.pointer]).strip()


def as_text(node: Node) -> str:
    """Return how a map, list or tagged value is written if text was meant, "" for what is none."""
    source = source_of(node)
    flow = isinstance(node, MappingNode | SequenceNode) and source[:1] in ("{", "[")
    if not (flow or source.startswith("!")) or "\n" in source:
        return ""
    why = f"`{source[0]}` {_SIGNS[source[0]]} in YAML"
    return f"; {why}: for the text, write {_cut(quoted(source))}"


def doubts(node: Node, key: str) -> Iterator[Hint]:
    """Yield what is valid in a value and surely not meant, item by item."""
    for one in node.value if isinstance(node, SequenceNode) else [node]:
        if isinstance(one, ScalarNode) and (said := _doubt(one, key)):
            yield Hint(int(one.start_mark.line) + 1, said)


def _doubt(node: ScalarNode, key: str) -> str:
    buffer, start, end = node.start_mark.buffer, node.start_mark.pointer, node.end_mark.pointer
    if buffer is None or node.style in ("|", ">"):
        return ""
    source = buffer[start:end]
    rest = re.match(r"[ \t]*(#[^\s#][^\r\n]*)", buffer[end : end + 2 * LONGEST])
    if rest and node.style is None:
        whole = quoted(f"{source} {rest[1]}".strip())
        return f"what is behind ` #` is a comment; for the text, write {_cut(f'{key}: {whole}')}"
    anchor = re.match(r"&([^\s,\[\]{}]+)\s*", source)
    if anchor and not re.search(rf"\*{re.escape(anchor[1])}(?![\w-])", buffer):
        right = _cut(f"{key}: {quoted(source)}")
        return f"`&{anchor[1]}` is an anchor in YAML and no part of the text; write {right}"
    if source[:1] in ("“", "”", "‘", "’", "„", "«"):
        return f"{source[0]} is no quote in YAML and a part of the text; write \" or '"
    return ""
