"""
A `.env` read as Hermes reads it.

Rule 1: pure. Rule 2: every value is the one that python-dotenv gives Hermes, its oddities too: one
file must not name two chats. Rule 3: a `${NAME}` is what stands above it in the file, else the
process's, else the default of `${NAME:-default}`; what was put in is not read once more. Rule 4:
expansion adds at most ROOM characters; a value that would take more is a bad line.
Source: python-dotenv 1.2 (parser.py, variables.py, main.py), hermes_cli/env_loader.py of 0.19.0.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

ROOM: Final = 1 << 20

# Possessive throughout: what one part has taken, no later one gets back. `K= # c` has the value
# `# c`: the blanks go with the `=`, and a comment needs blanks before it.
_ENTRY: Final = re.compile(
    r"""\s*+
    (?>export[^\S\n]++)?+
    (?: (?=\#) | '(?P<quoted>[^']++)' | (?P<key>(?!')[^=\#\s]++) )
    [^\S\n]*+
    (?P<value> = [^\S\n]*+ (?:
        (?> '(?P<single>[^']*(?:(?<=\\)'[^']*)*)' )
      | (?> "(?P<double>[^"]*(?:(?<=\\)"[^"]*)*)" )
      | (?!['"])(?P<bare>[^\n]*+)
    ) )?+""",
    re.VERBOSE,
)
_END: Final = re.compile(r"(?:[^\S\n]*+#[^\n]*+)?+[^\S\n]*+(?:\n|\Z)")
_REST: Final = re.compile(r"\s*+[^\n]*+\n?+")
_LINE: Final = re.compile(r"[^\n]*+\n?+")
_COMMENT: Final = re.compile(r"(?<!\s)\s++#.*")
_ESCAPE: Final = re.compile(r"\\([\\'\"abfnrtv])")
_SINGLE: Final = re.compile(r"\\([\\'])")
_ESCAPES: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
# No longer names, and no search without a `}`: a file of `${` would be read for hours.
_VARIABLE: Final = re.compile(r"\$\{([^}:]{0,100})(?::-([^}]*))?\}")


class Parsed(NamedTuple):
    """The values of a `.env`, "" for an empty one, and the numbers of the lines that are none."""

    values: dict[str, str]
    bad_lines: list[int]


def parse(text: str, process: Mapping[str, str]) -> Parsed:
    """Return what a file says, with `process` for the names that only it has."""
    # NUL: Hermes takes it out before it reads the file.
    text = text.removeprefix("\ufeff").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    found, at, line, room = Parsed({}, []), 0, 1, ROOM
    while at < len(text):
        entry, end = _next(text, at)
        first = line + _blank_lines(text, at, end)
        if entry is None:
            found.bad_lines.append(first)
        elif entry.key:
            value = _expanded(entry.value, found.values, process, room + len(entry.value))
            if value is None:
                found.bad_lines.append(first)
            else:
                found.values[entry.key] = value
                room -= max(0, len(value) - len(entry.value))
        line, at = line + text.count("\n", at, end), end
    return found


class _Entry(NamedTuple):
    """A key and its value; "" as the key: a comment, or nothing."""

    key: str
    value: str


def _next(text: str, at: int) -> tuple[_Entry | None, int]:
    """Return the next entry, None for a bad one, and where the one after it begins."""
    found = _ENTRY.match(text, at)
    if found is None:
        end = _end(_REST, text, at)
        return (None if text[at:end].strip() else _Entry("", "")), end
    if (rest := _END.match(text, found.end())) is None:
        return None, _end(_LINE, text, found.end())
    return _entry(found), rest.end()


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else len(text)


def _entry(found: re.Match[str]) -> _Entry | None:
    key = found["quoted"] or found["key"] or ""
    if key and found["value"] is None:
        return None  # a name alone sets nothing
    return _Entry(key, _value(found))


def _value(found: re.Match[str]) -> str:
    if found["single"] is not None:
        return _SINGLE.sub(r"\1", found["single"])
    if found["double"] is not None:
        return _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), found["double"])
    return _COMMENT.sub("", found["bare"] or "").rstrip()


def _expanded(
    value: str, values: Mapping[str, str], process: Mapping[str, str], most: int
) -> str | None:
    """Return `value` with its variables put in; None where it takes more than `most`."""
    pieces, at, size = [], 0, 0
    for found in _VARIABLE.finditer(value, 0, value.rfind("}") + 1):
        name, default = found[1], found[2] or ""
        put_in = values[name] if name in values else process.get(name, default)
        pieces += [value[at : found.start()], put_in]
        at, size = found.end(), size + len(put_in)
        if size > most:
            return None
    return "".join([*pieces, value[at:]])


def _blank_lines(text: str, at: int, end: int) -> int:
    """Return how many lines stand empty before the entry at `at`."""
    entry = text[at:end]
    return entry.count("\n", 0, len(entry) - len(entry.lstrip()))
