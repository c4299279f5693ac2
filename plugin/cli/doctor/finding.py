"""
What a check saw: a word, a text in one line, and the next step.

Rule 1: what is wrong has a next step, whole, to be pasted. Rule 2: `note` is no fault.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

FindingState = Literal["ok", "note", "wrong"]


class Finding(NamedTuple):
    """One thing that a check saw. `step`: what to do about it, "" for nothing."""

    state: FindingState
    text: str
    step: str = ""


Check = Callable[[], Iterable[Finding]]
"""A check reads and asks, and changes nothing; a WakebusError or OSError of it is a fault."""
