"""
What is logged while Hermes's adapter sends one text: some say only there why it failed.

Mattermost's returns "Failed to create post" for all (plugins/platforms/mattermost/adapter.py:376 of
hermes-agent 0.19.0) and logs status or fault. Rule 1: only what this very send logs, as a warning
or worse: others run beside it on the same loop. Rule 2: nothing of it is kept.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

MOST: Final = 50  # lines of one send

_current: ContextVar[list[str] | None] = ContextVar("wakebus_heard", default=None)


class _Listener(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if _current.get() is self._heard and len(self._heard) < MOST:
            try:
                self._heard.append(record.getMessage())
            except Exception:  # a log line that does not fit its arguments
                self.handleError(record)


@contextmanager
def hearing(heard: list[str]) -> Iterator[None]:
    """Inside, what this task (or thread of its) logs is appended to `heard`."""
    listener, before = _Listener(heard), _current.set(heard)
    logging.getLogger().addHandler(listener)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(listener)
        _current.reset(before)
