"""
What a fork means for a client: it stays the parent's, and the child has one of its own.

Rule 1: the parent notices nothing; nothing of it is said, closed or taken from the child. Rule 2:
in the child the same object is a new client. It connects at its first use, under a new instance,
with no names, no subscriptions and nothing in flight; what is still the parent's (a delivery, a
request on its way) raises NotRunning there. Rule 3: nothing of libzmq that was inherited is used in
the child, not even to close it: its descriptors are shared, and its threads are not there. They
stay open until the child ends or executes another program. Rule 4: no lock of the parent is taken
in the child: who holds it may not be there. Rule 5: a fork alone opens nothing in the child and
costs the parent nothing. Rule 6: a child that was forked in a handler ends with that handler, and
with its SystemExit or error: nothing else would end it.
"""

import os
import sys
from typing import Any, Final, NoReturn, Protocol
from weakref import WeakSet

FORKED: Final = (
    "this belongs to the parent process, which goes on with it; a forked child has no part in it"
)


class Forks(Protocol):
    """What must be made anew in the child of a fork."""

    def after_fork(self) -> None:
        """Let go of what is the parent's; must neither wait nor take a lock."""


_living: "WeakSet[Forks]" = WeakSet()


def call_after_fork(part: Forks) -> None:
    """Have `part.after_fork()` called in each forked child, as long as it lives."""
    _living.add(part)


def detach(context: Any) -> None:
    """Have pyzmq take a context and its sockets for closed: no call gets through, no destructor."""
    for socket in list(context._sockets):
        socket._closed = True
    context.closed = True


def exit_child(error: BaseException | None = None) -> NoReturn:
    """End this process, the child of a fork in a handler, which has returned or raised `error`."""
    status = 1
    if error is None or (isinstance(error, SystemExit) and error.code is None):
        status = 0
    elif isinstance(error, SystemExit) and isinstance(error.code, int):
        status = error.code & 0xFF
    else:
        sys.excepthook(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # it has none, or nobody reads it
    os._exit(status)


def _in_child() -> None:
    for part in list(_living):
        part.after_fork()


os.register_at_fork(after_in_child=_in_child)
