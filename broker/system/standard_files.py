"""
The descriptors 0, 1 and 2 of a command, whoever started it and however (`<&- >&- 2>&-`, `| head`).

Rule 1: before anything else is opened: a socket or a store that became descriptor 1 would get what
is printed. Rule 2: `sys.stdin`, `sys.stdout`, `sys.stderr` stay None: nobody reads or hears there.
Rule 3: whether anybody reads what is printed changes nothing of what is done,
nor the status; that a full disk did not take it is told once.
"""

import errno
import os
import sys
from typing import TextIO


def open_missing_files() -> None:
    """Open the null device in the place of each that is closed, for children too."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free one
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def takes_color(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that knows colour, and its user has nothing against."""
    try:
        is_terminal = stream is not None and stream.isatty()
    except (OSError, ValueError):  # closed
        return False
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_line(text: str, *, error: bool = False) -> None:
    """Print to standard output or error, what it cannot encode as `?`, if anybody reads there."""
    stream = sys.stderr if error else sys.stdout
    if stream is None:
        return
    try:
        print(encodable(text, stream), file=stream, flush=True)
    except ValueError:
        drop_unwritten()
    except OSError as exc:
        drop_unwritten()  # so this comes once
        if not error and exc.errno not in (errno.EPIPE, errno.EBADF):
            print_line(f"not all that was printed is written: {exc.strerror}", error=True)


def encodable(text: str, stream: TextIO) -> str:
    """Return `text` with `?` for what the stream's encoding has not. Raises LookupError."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def drop_unwritten() -> None:
    """Leave nothing in a buffer that the interpreter would complain about at its end."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
