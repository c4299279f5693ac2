"""
The terminal of a listening process: whole lines, one writer at a time.

Rule 1: what is printed was rendered and cleaned before. Rule 2: a terminal that went away costs
nothing but the lines.
"""

import os
import sys
import threading
from typing import TextIO


class Screen:
    """Prints texts to `stream` without mixing them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._lock = threading.Lock()
        self.color = self._stream.isatty() and not os.environ.get("NO_COLOR")

    def show(self, text: str) -> str:
        """Print `text`; return an error, or "" when it was printed."""
        with self._lock:
            try:
                self._stream.write(f"{text}\n")
                self._stream.flush()
                return ""
            except UnicodeEncodeError:
                coding = self._stream.encoding or "ascii"
                self._stream.write(text.encode(coding, "replace").decode(coding) + "\n")
                self._stream.flush()
                return ""
            except (OSError, ValueError) as exc:
                return f"the terminal does not take it: {exc}"
