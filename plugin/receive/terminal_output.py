"""
The terminal of a listening process: whole lines, one writer at a time.

Rule 1: what is printed was rendered and cleaned before. Rule 2: a terminal that went away, that
is none or that cannot show a character costs nothing but the lines.
"""

import sys
import threading
from typing import TextIO

from wakebus.broker.system.standard_files import encodable, takes_color


class TerminalOutput:
    """Prints texts to `stream` (standard output) without mixing them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream  # None: it was closed at our start
        self._lock = threading.Lock()
        self.color = takes_color(self._stream)

    def of_session(self, session: str) -> "TerminalOutput":
        """Return what prints where session `session` is looked at; here it is all one place."""
        return self

    def show(self, text: str) -> str:
        """Print `text`; return an error, or "" when it was printed."""
        if self._stream is None:
            return "there is no standard output"
        with self._lock:
            try:
                self._stream.write(f"{encodable(text, self._stream)}\n")
                self._stream.flush()
                return ""
            except (OSError, ValueError, LookupError) as exc:
                return f"the terminal does not take it: {exc}"
