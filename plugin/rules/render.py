"""
Formats: `{name}` and `{name:spec}` become the message's fields and the terminal's colours.

Rule 1: pure; a message's own time zone is the machine's. Rule 2: one pass, so text that holds
`{type}` stays text. Rule 3: `{{` and `}}` are braces; what is no placeholder stays as written.
Rule 4: fields are cleaned before they go in, the whole is cleaned when it is done.
"""

import datetime
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from wakebus.broker.protocol.message import Message
from wakebus.plugin.rules.sanitize import sanitize, sanitize_line, sanitize_terminal

RenderTarget = Literal["terminal", "plain"]
"""`terminal`: colours are shown; `plain`: for a model, a chat or a file, they render to nothing."""

COLORS: Final[Mapping[str, str]] = {
    name: str(30 + code)
    for code, name in enumerate(
        ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
    )
}
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([a-z_]+)(?::([^{}\n]*))?\}")
# glibc, musl and macOS agree on these; others come out as they are, or not at all.
_DIRECTIVE: Final = re.compile(r"%(?:[-_0^#]?[aAbBcCdDeFgGHIjklmMnpPrRsStTuUVwWxXyYzZ%]|(.?.?))")


class FormatPart(NamedTuple):
    """A piece of a format: literal text (`name` is "") or a placeholder."""

    literal: str
    name: str = ""
    spec: str = ""


class Template(NamedTuple):
    """A compiled format. `unknown`: what looks like a placeholder and is none, as written."""

    parts: tuple[FormatPart, ...]
    unknown: tuple[str, ...]


_FIELDS: Final[Mapping[str, Callable[[Message], str]]] = {
    "from": lambda message: sanitize_line(message.sender),
    "text": lambda message: sanitize(message.text),
    "type": lambda message: sanitize_line(message.type),
    "channel": lambda message: sanitize_line(message.channel, 512),
    "id": lambda message: sanitize_line(message.id),
    "session": lambda message: sanitize_line(message.session or ""),
    "to": lambda message: sanitize_line(message.to),
}


@lru_cache(maxsize=256)
def compile_format(source: str) -> Template:
    """Return the format's parts; anything compiles."""
    parts: list[FormatPart] = []
    unknown: list[str] = []
    end = 0
    for token in _TOKEN.finditer(source):
        parts.append(FormatPart(source[end : token.start()]))
        end = token.end()
        part = _part(token)
        if part is None:
            unknown.append(token[0])
            part = FormatPart(token[0])
        parts.append(part)
    parts.append(FormatPart(source[end:]))
    return Template(tuple(part for part in parts if part != FormatPart("")), tuple(unknown))


def _part(token: re.Match[str]) -> FormatPart | None:
    if token[1] is None:
        return FormatPart(token[0][0])
    name, spec = token[1], token[2]
    known = (
        name == "ts"
        or (name == "color" and sgr(spec or "") is not None)
        or (spec is None and (name in _FIELDS or name in ("bold", "reset")))
    )
    return FormatPart("", name, spec or "") if known else None


def sgr(color: str) -> str | None:
    """Return the escape sequence of `red` or `bold_red`, or None for an unknown colour."""
    name = color.lower()
    bold = name.startswith("bold_")
    code = COLORS.get(name.removeprefix("bold_"))
    if code is None:
        return None
    return f"\x1b[1;{code}m" if bold else f"\x1b[{code}m"


def doubtful_times(template: Template) -> list[str]:
    """Return the `{ts:...}` directives in `template` that not every system knows."""
    specs = [part.spec for part in template.parts if part.name == "ts"]
    return [hit[0] for spec in specs for hit in _DIRECTIVE.finditer(spec) if hit[1] is not None]


def render(source: str, message: Message, target: RenderTarget, *, color: bool = True) -> str:
    """Return the format filled with the message's fields. `color=False`: a dumb terminal."""
    styled = target == "terminal" and color
    text = "".join(_fill(part, message, styled) for part in compile_format(source).parts)
    return sanitize_terminal(text) if styled else sanitize(text)


def _fill(part: FormatPart, message: Message, styled: bool) -> str:
    if not part.name:
        return part.literal
    if field := _FIELDS.get(part.name):
        return field(message)
    if part.name == "ts":
        return sanitize_line(time_text(message.ts, part.spec))
    if not styled:
        return ""
    return {"bold": "\x1b[1m", "reset": "\x1b[0m"}.get(part.name) or sgr(part.spec) or ""


def time_text(ts: float, spec: str) -> str:
    """Return `ts` (Unix seconds) by strftime `spec` in local time; whole seconds without one."""
    if not spec:
        return str(int(ts))
    try:
        return datetime.datetime.fromtimestamp(ts).strftime(spec)
    except (ValueError, OverflowError, OSError):  # a year beyond 9999, a spec that libc refuses
        return str(int(ts))
