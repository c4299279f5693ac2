"""
What is told of a message, made to fit: an outcome has 16 KiB, and too much would be no outcome.

Rule 1: pure. Rule 2: what is short is never cut: which rule, what was done, whether it worked; long
texts lose their beginning, long lists their middle. Rule 3: `answered`, `awaits` and `failed` are
always kept: somebody may be waiting for an answer that will not come.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from wakebus.broker.protocol.outcome import MAX_OUTCOME

# Longest text (characters), longest list, tried in turn until it fits.
_STEPS: Final = ((4096, 200), (1500, 100), (600, 30), (200, 20), (80, 8))
_LAST: Final[tuple[str, ...]] = (
    "rule",
    "at",
    "wake",
    "answered",
    "awaits",
    "failed",
    "together_with",
    "interrupted_by",
)


def fit_outcome(outcome: Mapping[str, Any], limit: int = MAX_OUTCOME) -> dict[str, Any]:
    """Return `outcome` with at most `limit` bytes as JSON."""
    for text, many in _STEPS:
        shorter = {name: _shorter(value, text, many) for name, value in outcome.items()}
        if _size(shorter) <= limit:
            return shorter
    short = {name: value for name, value in outcome.items() if isinstance(value, str | float | int)}
    rest = {name: _shorter(short[name], 80, 8) for name in _LAST if name in short}
    return {**rest, "note": f"the rest of the outcome was over {limit} bytes"}


def _size(value: Mapping[str, Any]) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _shorter(value: Any, text: int, many: int) -> Any:
    if isinstance(value, str):
        value = value.encode(errors="replace").decode()  # names of files may hold surrogates
        return value if len(value) <= text else f"…{value[-text:]}"
    if isinstance(value, Mapping):
        return {name: _shorter(item, text, many) for name, item in value.items()}
    if isinstance(value, list):
        items = [_shorter(item, text, many) for item in value]
        if len(items) <= many:
            return items
        half = many // 2
        return [*items[:half], f"… {len(items) - 2 * half} more …", *items[-half:]]
    return value
