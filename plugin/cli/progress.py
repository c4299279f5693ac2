"""
What becomes of a message while a command waits for it: one line of the terminal, redrawn.

Rule 1: it goes to standard error, and only to a terminal; nothing of it is left behind. Rule 2: it
asks beside the wait and changes nothing of it. Rule 3: what a peer wrote is one clean line, and is
cut to the terminal's width: a line that wraps cannot be redrawn. Rule 4: it moves by `\r` and
blanks alone, which every terminal has.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

from wakebus.broker.client.client import Client
from wakebus.broker.duration import seconds_text
from wakebus.broker.errors import WakebusError
from wakebus.broker.protocol.outcome import awaits_reply
from wakebus.broker.system.standard_files import encodable
from wakebus.broker.system.text_width import display_width
from wakebus.plugin.cli.output import echo, one_line
from wakebus.plugin.cli.when import goes_out_text

LOOK_S: Final = 0.5
MARGIN: Final = 3  # columns: behind the line a terminal writes `^C`, and neither may wrap
AWAY: Final = "the broker does not answer; what it has accepted is kept"


@contextmanager
def waiting(client: Client, id: str, wait_s: float, *, step: str, as_json: bool) -> Iterator[None]:
    """
    Show what becomes of message `id` while the body waits for it, at most `wait_s` seconds.

    `step`: what to do later about a message that is left to itself by Ctrl-C.
    """
    try:
        if as_json or sys.stderr is None or not sys.stderr.isatty():
            yield
        else:
            with _redrawn(client, id, wait_s, sys.stderr):
                yield
    except KeyboardInterrupt:
        echo(f"{id} goes on without you.\n{step}", error=True)
        raise


@contextmanager
def _redrawn(client: Client, id: str, wait_s: float, stream: TextIO) -> Iterator[None]:
    line, began, over = ProgressLine(stream), time.monotonic(), threading.Event()

    def look_and_draw() -> None:
        while not over.wait(LOOK_S):
            text = look_up(client, id) if client.connected(0) else AWAY
            line.draw(f"{text} ({time.monotonic() - began:.0f} of {seconds_text(wait_s)})")

    # A daemon: its question may hang at a broker that is frozen, and nobody waits for that.
    threading.Thread(target=look_and_draw, name="wakebus progress", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        line.take_away()


def look_up(client: Client, id: str) -> str:
    """Return in words how far message `id` is."""
    try:
        row = next(one for one in client.trace(id) if one["id"] == id)
    except (WakebusError, StopIteration):
        return AWAY
    return progress_text(row, time.time())


class ProgressLine:
    """The line of a terminal on which something is redrawn until `take_away`; any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._drawn, self._ended = 0, False

    def draw(self, text: str) -> None:
        """Show `text` in the place of what was there."""
        with self._lock:
            if not self._ended and self._in_foreground():
                shown = cut_to_width(one_line(text), self._columns() - MARGIN)
                width, self._drawn = self._drawn, display_width(shown)
                self._write(f"\r{shown}{' ' * (width - self._drawn)}")

    def take_away(self) -> None:
        """Take it away, and what the terminal wrote behind it (`^C`)."""
        with self._lock:
            if self._drawn and not self._ended and self._in_foreground():
                self._write(f"\r{' ' * (self._columns() - 1)}\r")
            self._ended = True

    def _in_foreground(self) -> bool:
        """Whether the terminal is ours now: a job in the background would write into others."""
        try:
            return os.tcgetpgrp(self._stream.fileno()) in (os.getpgrp(), 0)
        except (OSError, ValueError):
            return True  # it is not our session's: nobody else writes there

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, text: str) -> None:
        try:
            self._stream.write(encodable(text, self._stream))
            self._stream.flush()
        except (OSError, ValueError, LookupError):
            self._ended = True


def cut_to_width(text: str, columns: int) -> str:
    """Return `text`, or as much of it as `columns` hold, with `…` behind it."""
    if display_width(text) <= columns:
        return text
    while text and display_width(text) > columns - 1:
        text = text[:-1]
    return f"{text}…"


def progress_text(row: Mapping[str, Any], now: float) -> str:
    """
    Return in words how far a message is, by its row of a trace. `now`: Unix seconds.

    What it waits for is the broker's and its receiver's word.
    """
    to, state = row.get("to"), row.get("state")
    why = row.get("why") or row.get("behind_why") or row.get("put_off") or ""
    if state == "delivered" and (since := _started(row)) is not None:
        what = "sending" if row.get("type") == "say" else "its turn"
        return f"{to}: {what} has begun, {max(0.0, now - since):.0f} s ago"
    if state == "delivered":
        return f"held by {to}: {why or 'its turn has not begun yet'}"
    if state == "queued" and (row.get("not_before") or 0.0) > now:
        return f"for {to}: goes out {goes_out_text(row['not_before'], now)}"
    if state == "queued":
        return f"queued for {to}{': ' if why else ''}{why}"
    if state == "handled" and awaits_reply(row.get("outcome")):
        return f"shown at {to}: no person has replied yet"
    return f"{state}: its answer is not here yet"


def _started(row: Mapping[str, Any]) -> float | None:
    """Return when work on it began, None where it has not (again)."""
    ways = [step for step in row.get("steps", ()) if step.get("what") in ("held", "started")]
    last = ways[-1] if ways else {}
    return float(last["t"]) if last.get("what") == "started" else None
