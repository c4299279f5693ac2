"""A program of a test: a script in a process of its own, told to end by the end of its input."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fakes.broker import Broker


class Program:
    """A script that talks to a broker, running."""

    def __init__(self, broker: Broker, script: Path, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(script), *map(str, args)], env=broker.env, stdin=subprocess.PIPE
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def finish(self, timeout: float = 60.0) -> int:
        """Close its input, which asks it to end; return its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout)

    def close(self) -> None:
        """Be sure that it is gone."""
        if self.alive:
            self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


Run = Callable[..., Program]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return what a program has recorded so far, one JSON object a line."""
    text = path.read_text() if path.exists() else ""
    # The last line may be on its way just now.
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """SIGSTOP: the process takes no step inside."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
