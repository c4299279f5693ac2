"""
Why a message that was handled has no answer, in words.

Rule 1: pure; an outcome is its receiver's own: what is in none of ours is told as it is.
"""

from collections.abc import Mapping
from typing import Any, Final

from wakebus.plugin.cli.facts_text import outcome_text


def why_no_answer(outcome: Mapping[str, Any] | None) -> str:
    """Return an outcome without an answer in words; what is in none of ours, as it is."""
    turn = outcome.get("turn") if outcome else None
    if not isinstance(turn, dict) or not (how := turn.get("error") or turn.get("note")):
        return _why_no_turn(outcome or {}) or outcome_text(outcome or {})
    said = str(turn.get("stderr") or turn.get("stdout") or "").strip()
    return f"the agent: {how}" + (f": {said[-500:]}" if said else "")


def _why_no_turn(outcome: Mapping[str, Any]) -> str:
    """Return in words why a message began no turn, "" where its outcome does not tell."""
    if note := outcome.get("note") or outcome.get("skipped"):
        return str(note)
    if outcome.get("wake") in _NO_TURN:
        return f"{_NO_TURN[outcome['wake']]} (wake: {outcome['wake']})"
    return ""


_NO_TURN: Final = {
    "next_turn": "it waits for the next turn of its session there, and starts none",
    "silent": "it lies in the inbox there, and starts no turn",
}
