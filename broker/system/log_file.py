"""
The broker's log (PROTOCOL.md section 1).

Rule 1: it rotates, so that no disk is filled. Rule 2: what goes wrong with it harms nobody.
"""

import logging
import logging.handlers
import os
from io import TextIOWrapper
from pathlib import Path

from wakebus.broker.settings import Settings
from wakebus.broker.system.private_files import append_to, same


class _Log(logging.handlers.RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        return os.fdopen(append_to(Path(self.baseFilename)), "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk takes no line about itself; the broker goes on without its log."""


def start_log(path: Path, chosen: Settings, console: bool) -> None:
    """Write what the broker says to `path`, and to standard error with `console`."""
    handlers: list[logging.Handler] = [
        _Log(path, maxBytes=chosen.log_bytes, backupCount=chosen.log_files, encoding="utf-8")
    ]
    if console:
        handlers.append(logging.StreamHandler())
    root = logging.getLogger("wakebus")
    root.setLevel(logging.INFO)
    root.handlers = handlers
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in handlers:
        handler.setFormatter(form)


def look_after_log(logger: logging.Logger | None) -> None:
    """Let a log whose file was removed go on in a new one."""
    for handler in logger.handlers if logger else ():
        if not isinstance(handler, logging.FileHandler):
            continue
        handler.acquire()
        try:
            path, stream = Path(handler.baseFilename), handler.stream
            if stream is not None and not same(path, stream.fileno()):
                os.close(append_to(path))  # raises before the old one is given up
                handler.close()
                handler.stream = None  # opened at the next line
        finally:
            handler.release()
