"""
The logs of the broker and of its services (PROTOCOL.md section 1).

Rule 1: they rotate, so that no disk is filled. Rule 2: what goes wrong with one harms nobody. Rule
3: what comes again and again is told once, and again after it was quiet for a minute.
"""

import logging
import logging.handlers
import os
import sys
import time
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from wakebus.broker.settings import Settings
from wakebus.broker.system.private_files import CannotStart, append_to, is_same_file

QUIET_S: Final = 60.0


class _RotatingLog(logging.handlers.RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return os.fdopen(append_to(Path(self.baseFilename)), "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk takes no line about itself; the broker goes on without its log."""


class RepeatFilter(logging.Filter):
    """Keeps back a line that came less than `QUIET_S` ago: what is met again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is news; a fault, with its traceback, always is."""
        if record.exc_info:
            return True
        now, text = time.monotonic(), record.getMessage()
        self._last = {line: t for line, t in self._last.items() if now - t < QUIET_S}
        is_news = text not in self._last
        self._last[text] = now
        return is_news


def start_log(path: Path, chosen: Settings, console: bool) -> None:
    """Write what the broker says to `path`, and to standard error with `console`."""
    handlers: list[logging.Handler] = [
        _RotatingLog(
            path, maxBytes=chosen.log_bytes, backupCount=chosen.log_files, encoding="utf-8"
        )
    ]
    if console:
        handlers.append(logging.StreamHandler())
    root = logging.getLogger("wakebus")
    root.setLevel(logging.INFO)
    root.handlers = handlers
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in handlers:
        handler.setFormatter(form)
        handler.addFilter(RepeatFilter())


def reopen_log(logger: logging.Logger | None) -> None:
    """Let a log whose file was removed go on in a new one."""
    for handler in logger.handlers if logger else ():
        if not isinstance(handler, logging.FileHandler):
            continue
        handler.acquire()
        try:
            path, stream = Path(handler.baseFilename), handler.stream
            if stream is not None and not is_same_file(path, stream.fileno()):
                os.close(append_to(path))  # raises before the old one is given up
                handler.close()
                handler.stream = None  # opened at the next line
        finally:
            handler.release()


class OutputLog:
    """The file that standard output and error of this process append to, if they do."""

    def __init__(self, path: Path, chosen: Settings) -> None:
        self._path, self._limit, self._kept = path, chosen.log_bytes, chosen.log_files
        self._said = False  # once: the line makes the file that cannot be rotated longer

    def rotate(self) -> None:
        """Change to a new file where this one is over its limit; what is in the way is left."""
        try:
            if not self._is_ours() or os.fstat(2).st_size <= self._limit:
                return
            for number in range(self._kept, 0, -1):
                older = Path(f"{self._path}.{number}")
                newer = Path(f"{self._path}.{number - 1}") if number > 1 else self._path
                if newer.exists():
                    newer.replace(older)
            file = append_to(self._path)
        except (OSError, CannotStart) as exc:
            if not self._said:
                self._said = True
                print(f"{self._path} cannot be rotated: {exc}", file=sys.stderr)
            return
        for descriptor in (1, 2):
            os.dup2(file, descriptor)
        os.close(file)

    def _is_ours(self) -> bool:
        """Whether both are this file: not a terminal, nor a file of whoever runs it by hand."""
        try:
            named = self._path.lstat()
        except FileNotFoundError:
            return False
        return all(os.path.samestat(os.fstat(number), named) for number in (1, 2))
