"""
What can be wrong with rules, and how it is said: `FILE:LINE: KEY: TEXT`.

* WakebusError
    * RulesError     a rules file that is not loaded; `.problems` has all that was found
    * ScriptError    a format script that gave no text; the caller shows the plain text instead
"""

from collections.abc import Sequence
from typing import NamedTuple

from wakebus.broker.errors import WakebusError


class Problem(NamedTuple):
    """One thing wrong, or doubtful, in a rules file. `line` 0: the file as a whole."""

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.text) if part)


class RulesError(WakebusError):
    """A rules file that is not loaded; the text is the first problem and counts the others."""

    code = "rules"

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, *more = problems
        super().__init__(f"{first} (and {len(more)} more)" if more else str(first))
        self.problems = tuple(problems)
        self.file, self.line, self.key = first.file, first.line, first.key


class ScriptError(WakebusError):
    """A format script that gave no text: missing, refused, failed, silent or too slow."""

    code = "script"
