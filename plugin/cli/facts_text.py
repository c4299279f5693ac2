"""
Facts that programs tell each other, as people read them: `rule 1: directive, turn (exit 0)`.

Rule 1: JSON is for scripts, and comes with `--json` alone. Rule 2: pure; whatever the facts are,
nothing raises.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

LONGEST: Final = 200  # characters of a value; all of it: wakebus trace ID, --json
DEEPEST: Final = 20
CLOCKS: Final = ("at", "ended", "started", "t")  # `wakebus trace` shows the times
_WORDS: Final[Mapping[object, str]] = {True: "yes", False: "no", None: "none"}


def facts_text(facts: Mapping[str, Any], skip: Collection[str] = ()) -> str:
    """Return facts in words, on one line. `skip`: keys that are left out, at every depth."""
    return _text(facts, skip, 0)


def outcome_text(outcome: Mapping[str, Any]) -> str:
    """Return what a receiver says that it did, in words."""
    return facts_text(outcome, CLOCKS)


def _text(value: Any, skip: Collection[str], depth: int) -> str:
    if depth > DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        some = [(key, one) for key, one in value.items() if key not in skip and one not in ("", [])]
        return ", ".join(f"{_short(key)} {_inner(one, skip, depth)}" for key, one in some)
    if isinstance(value, list | tuple):
        return ", ".join(_inner(one, skip, depth) for one in value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    return _short(value)


def _inner(value: Any, skip: Collection[str], depth: int) -> str:
    text = _text(value, skip, depth + 1)
    return f"({text})" if isinstance(value, Mapping) else text


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
