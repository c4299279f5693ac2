"""
One frame: `[version, verb, sequence, payload]` as JSON, as PROTOCOL.md section 2 gives it.

Rule 1: bytes in, values out; no sockets, no clock. Rule 2: any bytes decode, or raise
ProtocolError; never anything else. Rule 3: what this writes, every JSON library reads: no NaN,
no infinity, no lone surrogate.
"""

import json
import math
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from wakebus.broker.errors import BadFrame, BadVersion, TooBig

VERSION: Final = 1
MAX_BODY: Final = 1 << 20  # one message's body: a page of logs fits, a video must be a link
# Escapes (`"` becomes `\"`) can double a body; the rest of a message is a few KiB.
MAX_FRAME: Final = 2 * MAX_BODY + (64 << 10)
MAX_SEQUENCE: Final = (1 << 53) - 1  # every JSON reader keeps integers up to here exact
MAX_DEPTH: Final = 32  # of a body or outcome: no reader's recursion limit is near

_LARGEST: Final = int(sys.float_info.max)
_MANY_DIGITS: Final = re.compile(rb"[0-9]{309}")  # as many as the largest double has


class Frame(NamedTuple):
    """One decoded frame."""

    verb: str
    sequence: int
    payload: dict[str, Any]


def encode(verb: str, sequence: int, payload: dict[str, Any]) -> bytes:
    """Return the frame's bytes, or raise BadFrame for what JSON cannot carry."""
    return dumps([VERSION, verb, sequence, payload])


def dumps(value: Any) -> bytes:
    """Return compact UTF-8 JSON, or raise BadFrame (NaN, lone surrogate, unknown type)."""
    try:
        data = _encode(value).encode()
    except UnicodeEncodeError as exc:
        raise BadFrame("text holds a lone surrogate, which is no Unicode character") from exc
    except RecursionError as exc:
        raise BadFrame("nested too deeply") from exc
    except (ValueError, TypeError) as exc:
        raise BadFrame(f"not JSON: {exc}") from exc
    _check_integers(value, data)
    return data


def _check_integers(value: Any, encoded: bytes) -> None:
    """Raise BadFrame if `value`, whose JSON is `encoded`, holds an integer beyond a double."""
    if len(encoded) < 309 or not _MANY_DIGITS.search(encoded):
        return  # nearly always, and cheap
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list | tuple):
            todo += one
        elif isinstance(one, int) and abs(one) > _LARGEST:
            raise BadFrame("an integer is beyond the range of a double; send it as text")


def encode_around(verb: str, payload: dict[str, Any], message: bytes) -> bytes:
    """Return the frame whose payload is `payload` plus `message`, which is JSON already."""
    return encode(verb, 0, payload)[:-2] + b',"message":' + message + b"}]"


def too_deep(value: Any, encoded: bytes) -> bool:
    """Whether `value`, whose JSON is `encoded`, is nested deeper than MAX_DEPTH."""
    if encoded.count(b"[") + encoded.count(b"{") <= MAX_DEPTH:
        return False  # nearly always, and cheap
    level = [value]
    for _ in range(MAX_DEPTH):
        below = [v.values() if isinstance(v, dict) else v for v in level]
        level = [x for items in below for x in items if isinstance(x, dict | list | tuple)]
    return bool(level)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is out of range")
    return value


# Made once: json.dumps and json.loads make theirs anew each time.
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode


def loads(data: bytes) -> Any:
    """
    Return the JSON value in `data`, by the standard library.

    Raises ValueError (also for NaN, lone surrogates and bytes that are not UTF-8).
    """
    # json.loads(bytes) decodes with "surrogatepass"; the strict decoder is wanted here.
    value = _decode(data.decode())
    # An escaped "\ud800" passes the decoder; only then is the value worth a second look.
    if b"\\u" in data:
        dumps(value)
    return value


def decode(data: bytes, loads: Callable[[bytes], Any] = loads) -> Frame:
    """
    Return the frame in `data`; `loads` may be a faster reader with the same strictness.

    Raises BadFrame, BadVersion or TooBig.
    """
    if len(data) > MAX_FRAME:
        raise TooBig(f"a frame of {len(data)} bytes; the limit is {MAX_FRAME}")
    try:
        parts = loads(data)
    except (ValueError, RecursionError) as exc:
        raise BadFrame(f"not JSON: {str(exc)[:200]}") from exc
    _check_integers(parts, data)
    if not isinstance(parts, list) or not parts:
        raise BadFrame("not a JSON list [version, verb, sequence, payload]")
    if parts[0] != VERSION or not _is_sequence(parts[0]):
        raise BadVersion(
            f"protocol version {str(parts[0])[:20]}; this side speaks {VERSION}",
            min=VERSION,
            max=VERSION,
            sequence=parts[2] if len(parts) > 2 and _is_sequence(parts[2]) else 0,
        )
    if len(parts) != 4:
        raise BadFrame(f"{len(parts)} parts, not [version, verb, sequence, payload]")
    _, verb, sequence, payload = parts
    if not isinstance(verb, str) or not verb or len(verb) > 32:
        raise BadFrame("the verb is not a word of 1 to 32 characters")
    if not isinstance(payload, dict) or not _is_sequence(sequence):
        raise BadFrame("the sequence is no integer from 0 to 2^53-1, or the payload is no object")
    return Frame(verb, sequence, payload)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SEQUENCE
