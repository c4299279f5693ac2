"""
What stands in an interactive CLI: prints above its prompt, prompts that are nothing but text.
"""

import re
import sys
from collections.abc import Callable
from typing import Final

from wakebus.broker.system.standard_files import takes_color
from wakebus.plugin.receive.terminal_output import TerminalOutput
from wakebus.plugin.rules.sanitize import sanitize_terminal

# Hermes puts a file of any name in its place, also in the middle of a prompt (cli.py:15062).
_PASTED: Final = re.compile(r"\[(?=Pasted text #)", re.IGNORECASE)


def without_pastes(text: str) -> str:
    """Return a labelled prompt without what the CLI would put a file in place of."""
    return _PASTED.sub("(", text)


class CliOutput(TerminalOutput):
    """
    Prints above the prompt: what is being typed stays as it is.

    `find_printer`: returns Hermes's own, or None; then standard output is used.
    """

    def __init__(self, find_printer: Callable[[], Callable[[str], object] | None]) -> None:
        super().__init__()
        self._find_printer = find_printer
        self.color = takes_color(sys.__stdout__)  # under the prompt, sys.stdout is a proxy of it

    def show(self, text: str) -> str:
        """Print `text`; return an error, or "" when it was handed over. Colours stay, no more."""
        text = sanitize_terminal(text)
        try:
            if (printer := self._find_printer()) is not None:
                printer(text)
                return ""
        except Exception as exc:
            return f"{super().show(text)}{type(exc).__name__}: {exc}"[:200]
        return super().show(text)
