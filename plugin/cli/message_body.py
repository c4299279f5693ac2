"""
The body of a message as a command line gives it: a text, JSON, or standard input.

Rule 1: what is wrong with it is said before anything is sent.
"""

import argparse
import json
import sys
from typing import Any, Final

from wakebus.broker.protocol.wire import MAX_BODY
from wakebus.plugin.cli.output import Usage, input_text

MAX_STDIN: Final = 16 * MAX_BODY  # JSON may be written widely; more than that is no message


def body_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the body: `--body` or the text, with flags over fields. Raises Usage."""
    raw, text = getattr(args, "body", None), args.text
    if raw is not None and text is not None:
        raise Usage("give either a text or --body JSON, not both")
    if raw is None and text is None:
        raise Usage("give a text, or - to read it from standard input")
    fields = _body(raw) if raw is not None else {"text": _text(text)}
    # An empty channel is what "$WAKEBUS_CHANNEL" gives in a turn without one.
    flags = {"type": args.type, "channel": args.channel or None}
    return fields | {name: value for name, value in flags.items() if value is not None}


def _text(given: str) -> str:
    text = _stdin() if given == "-" else given
    if not text.strip():
        raise Usage("the text is empty")
    return text


def _body(given: str) -> dict[str, Any]:
    value = json_object(given, "--body")
    if not value:
        where = "standard input" if given == "-" else "--body"
        raise Usage(f'{where} is an empty object; write at least {{"text": "…"}}')
    return value


def json_object(given: str, what: str) -> dict[str, Any]:
    """Return the JSON object in `given`, or on standard input for `-`. Raises Usage."""
    where, text = ("standard input", _stdin()) if given == "-" else (what, given)
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        raise Usage(f"{where} is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise Usage(f"{where} is JSON, but not an object {{…}}: {_KINDS[type(value)]}")
    return value


_KINDS: Final[dict[type, str]] = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _stdin() -> str:
    if sys.stdin is None:
        raise Usage("standard input is closed, there is nothing to read")
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise Usage(f"standard input goes on after {MAX_STDIN >> 20} MiB; a body has at most 1 MiB")
    return input_text(data).removesuffix("\n")
