"""
What a file says that others write: read again when it changed, over the moments in which it cannot
be used.

Rule 1: while it cannot be used, what it said last holds, and the problem is told once. Rule 2: one
that cannot be used and has never said anything is an error: there may be values in it. Rule 3:
what stood in the way of reading may leave no trace in the file: it is tried again at each call;
what is wrong with the text stays wrong until the file changes. Rule 4: a file that others may have
written is as one that cannot be read (file_trust.py).
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from wakebus.broker.errors import WakebusError
from wakebus.broker.system.file_trust import refusal_of

T = TypeVar("T")

_SETTLE_TRIES: Final = 10


class Unusable(WakebusError):
    """A file that is there and cannot be used; the text names it, and the line if one is wrong."""

    code = "unusable_file"


class NotTrusted(OSError):
    """A file that somebody else may have written; its strerror says how and what to do."""


class _Seen(NamedTuple, Generic[T]):
    """What was read last; `empty_since`: when the file was found empty (monotonic seconds)."""

    state: object = None  # None: to be read again
    value: T | None = None
    problem: WakebusError | None = None
    empty_since: float | None = None


class LastGood(Generic[T]):
    """
    Call it for the value. Thread-safe: what it knows is replaced whole.

    parse: returns what stands in the file; raises OSError, whose strerror says why not, or an error
    of ours that names the file. tell: gets each problem once while another value holds. missing:
    the value of a file that is not there (None: that is a problem as any). fallback: what holds
    before anything good was read (None: the problem is raised). An editor truncates, then writes:
    settle_s: a file that changed is read when it has kept still for so long; grace_s: so long does
    an empty value not take the place of another one.
    """

    def __init__(
        self,
        file: Path,
        parse: Callable[[Path], T],
        tell: Callable[[WakebusError], None] = lambda problem: None,
        *,
        missing: T | None = None,
        fallback: T | None = None,
        settle_s: float = 0.0,
        grace_s: float = 0.0,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.file = file
        self._parse, self._tell, self._ticks = parse, tell, ticks
        self._missing, self._fallback = missing, fallback
        self._settle_s, self._grace_s = settle_s, grace_s
        self._seen: _Seen[T] = _Seen()

    def __call__(self) -> T:
        """Return what holds now. Raises Unusable, or what `parse` raised."""
        seen, state = self._seen, state_of(self.file)
        if state != seen.state:
            if self._settle_s and seen.state is not None:
                state = self._settled(state)
            seen = self._seen = self._read(seen, state)
        if seen.value is None:
            problem = seen.problem or Unusable(f"{self.file} says nothing")
            raise problem.with_traceback(None)  # else it grows with each call
        return seen.value

    @property
    def problem(self) -> WakebusError | None:
        """Why the file could not be used when it was read last."""
        return self._seen.problem

    def _settled(self, state: object) -> object:
        for _ in range(_SETTLE_TRIES):
            time.sleep(self._settle_s)
            before, state = state, state_of(self.file)
            if state == before:
                break
        return state

    def _read(self, seen: _Seen[T], state: object) -> _Seen[T]:
        try:
            value = self._value()
        except OSError as exc:
            what = "is not used" if isinstance(exc, NotTrusted) else "cannot be read"
            why = exc.strerror or type(exc).__name__
            return self._problem(seen, None, Unusable(f"{self.file} {what}: {why}"))
        except WakebusError as exc:
            return self._problem(seen, state, exc)
        if value or not seen.value or not self._grace_s:
            return _Seen(state, value)
        now = self._ticks()
        since = now if seen.empty_since is None else seen.empty_since
        if now - since >= self._grace_s:
            return _Seen(state, value)
        problem = Unusable(f"{self.file} is empty or gone")
        return self._problem(seen._replace(empty_since=since), None, problem)

    def _value(self) -> T:
        try:
            return self._parse(self.file)
        except FileNotFoundError:
            if self._missing is None:
                raise
            return self._missing

    def _problem(self, seen: _Seen[T], state: object, problem: WakebusError) -> _Seen[T]:
        value = seen.value or self._fallback
        if value is not None and str(problem) != str(seen.problem):
            self._tell(problem)
        return seen._replace(state=state, value=value, problem=problem)


def state_of(file: Path) -> object:
    """Return what changes when the file does, or whether it can be read: an errno where not."""
    try:
        found = file.stat()
    except OSError as exc:
        return exc.errno
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def bytes_of(file: Path, most: int, *, own_group: bool = True) -> bytes:
    """
    Return a file's bytes; raises OSError, also NotTrusted, whose strerror says why not.

    own_group: the user's own may write it (file_trust.py).
    """
    # NONBLOCK: a pipe that nobody writes would hold us for ever.
    source = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if reason := refusal_of(file, os.fstat(source), own_group=own_group):
            raise NotTrusted(0, reason)
        with os.fdopen(source, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
    finally:
        os.close(source)
    if len(data) > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise OSError(0, f"it is over {size}")
    return data


def text_of(file: Path, most: int) -> str:
    """Return `bytes_of` as text. Raises OSError, Unusable."""
    try:
        return bytes_of(file, most).decode()
    except UnicodeDecodeError:  # its text quotes the file
        raise Unusable(f"{file} is not UTF-8") from None


def json_of(file: Path, most: int) -> Any:
    """Return what a JSON file holds. Raises OSError, Unusable, which shows nothing of the text."""
    try:
        return json.loads(text_of(file, most))
    except (ValueError, RecursionError) as exc:
        line = getattr(exc, "lineno", None)
        raise Unusable(f"{file}{f':{line}' if line else ''} is not JSON") from None
