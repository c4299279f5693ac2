"""
What the scripts of broker/system/test_fork_safety.py share: children that tell how they fared.

The process that forks is one of its own; neither it nor a child of it outlives LIMIT_S.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

LIMIT_S: Final = 60


def guard() -> None:
    """End this process with a traceback when it hangs; a fork inherits no alarm."""
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
    signal.alarm(LIMIT_S)


def said(work: Callable[[], Any]) -> Any:
    """Return what `work` returns, or the name and text of what it raises."""
    try:
        return work()
    except Exception as exc:
        return [type(exc).__name__, str(exc)]


class Child:
    """A fork that does `work` and ends, by default without Python's own end."""

    def __init__(self, work: Callable[[], Any], end: Callable[[int], Any] = os._exit) -> None:
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            guard()
            os.write(write, json.dumps(said(work)).encode())
            end(0)
        os.close(write)

    def words(self) -> Any:
        """Return what it said, once it has ended well."""
        with os.fdopen(self._read) as pipe:
            text = pipe.read()
        status = self.status()
        assert status == 0, (status, text)
        return json.loads(text)

    def status(self) -> int:
        """Wait for its end; return its exit status, or minus its signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def child(work: Callable[[], Any]) -> Any:
    """Return what `work` says in a child."""
    return Child(work).words()


def until(condition: Callable[[], Any]) -> Any:
    """Return what `condition` returns once it is true; the alarm ends a wait for ever."""
    while not (found := condition()):
        time.sleep(0.01)
    return found


def thread(work: Callable[[], Any]) -> threading.Thread:
    """Have `work` done beside."""
    found = threading.Thread(target=work, daemon=True)
    found.start()
    return found


def tell(**words: Any) -> None:
    """Say something to the test."""
    print(json.dumps(words), flush=True)


name = sys.argv[1] if len(sys.argv) > 1 else ""
