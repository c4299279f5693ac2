"""
What is logged while Hermes does one thing for us: some say only there why it failed.

Mattermost's adapter returns "Failed to create post" for all (plugins/platforms/mattermost/
adapter.py:376 of hermes-agent 0.19.0) and logs status or fault; a turn that Hermes has accepted is
refused there, and nowhere else (gateway/run_plugin_injection.py of 0.22.2). Rule 1: only what this
very thing logs, as a warning or worse: others run beside it on the same loop. Rule 2: nothing of it
is kept.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

MOST: Final = 50  # lines of one thing
# Of gateway/run_plugin_injection.py:68, 99, 103, gateway/platforms/base.py:4043, 4065,
# gateway/run_turn.py:428, 439, gateway/run_busy.py:418, all of 0.22.2.
_REFUSAL: Final = re.compile(
    r"Plugin message injection (?:denied|failed|was not routed|authorization check failed)|"
    r"Dropping (?:internally routed event|inbound message|busy-mode follow-up|"
    r"message from unauthorized user)"
)

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
    """Inside, what this task (or thread) logs, and what it begins, is appended to `heard`."""
    listener, before = _Listener(heard), _current.set(heard)
    logging.getLogger().addHandler(listener)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(listener)
        _current.reset(before)


def refusal_in(heard: Iterable[str]) -> str:
    """Return the line by which Hermes said that it drops the turn that it had accepted, or ""."""
    return next((line for line in list(heard) if _REFUSAL.search(line)), "")
