"""
The values of a file that others write, over the moments in which it cannot be read.

Rule 1: while it cannot be read, what it said last holds, and the log says why, once. Nothing else
may take the place of its values: old ones that the process inherited led to another chat. Rule 2:
one that said something and is now empty or gone is perhaps being written: what it said holds for
some seconds; then it is really empty. Rule 3: one that cannot be read and has never said anything
is an error, `not_sent`: there may be values in it. Rule 4: what could not be read is tried again
each time: not all that stood in the way leaves a trace in the file.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from wakebus.adapters.errors import Unavailable
from wakebus.adapters.settings.hermes_config import state_of

log = logging.getLogger(__name__)

KEEP_S: Final = 5.0  # an editor that writes a file anew needs milliseconds


class _Seen(NamedTuple):
    """What was read last; `since`: when the file was found empty or gone (monotonic seconds)."""

    state: object = None
    values: dict[str, str] = {}  # noqa: RUF012 - never changed
    since: float | None = None
    said: str = ""  # the problem that is in the log


class Kept:
    """
    Call it for the values. Thread-safe: what it keeps is replaced whole.

    read: returns a file's values, or raises OSError whose strerror says why not.
    """

    def __init__(
        self,
        file: Path,
        read: Callable[[Path], dict[str, str]],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file, self._read, self._ticks = file, read, ticks
        self._seen = _Seen()

    def __call__(self) -> dict[str, str]:
        """Return what holds now. Raises Unavailable, which names the file."""
        seen, state = self._seen, state_of(self._file)
        if state == seen.state:
            return seen.values
        try:
            values = self._read(self._file)
        except FileNotFoundError:
            values = {}
        except OSError as exc:
            return self._unreadable(seen, exc.strerror or type(exc).__name__)
        now = self._ticks()
        since = now if seen.since is None else seen.since
        if not values and seen.values and now - since < KEEP_S:
            return self._kept(seen._replace(since=since), f"{self._file} is empty or gone")
        self._seen = _Seen(state, values)
        return values

    def _unreadable(self, seen: _Seen, why: str) -> dict[str, str]:
        problem = f"{self._file} cannot be read: {why}"
        if not seen.values:
            raise Unavailable(f"{problem}; see to its mode and owner, and to HERMES_HOME")
        return self._kept(seen, problem)

    def _kept(self, seen: _Seen, problem: str) -> dict[str, str]:
        if seen.said != problem:
            log.warning("%s; what it said before holds for now", problem)
        # Not its state: it is read again at the next call.
        self._seen = seen._replace(state=None, said=problem)
        return seen.values
