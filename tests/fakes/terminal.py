"""A real terminal (pty) around a command."""

import os
import pty
import signal
import subprocess
import threading

from fakes.broker import until
from fakes.desk import BIN, NONE, Desk, Env


class Terminal:
    """A command whose standard input, output and error are a terminal of its own."""

    def __init__(self, desk: Desk, *words: str, env: Env = NONE) -> None:
        self._main, inner = pty.openpty()
        self.process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**desk.env, "TERM": "xterm", **env},
            cwd=desk.root,
            start_new_session=True,
        )
        os.close(inner)
        self._read = b""
        self._thread = threading.Thread(target=self._keep_reading, daemon=True)
        self._thread.start()

    def _keep_reading(self) -> None:
        while True:
            try:
                data = os.read(self._main, 65536)
            except OSError:  # Linux: EIO when the last one has closed its end
                return
            if not data:
                return
            self._read += data

    @property
    def shown(self) -> str:
        """What it has shown until now."""
        return self._read.decode(errors="replace")

    def shows(self, text: str) -> None:
        """Wait until it shows `text`."""
        until(lambda: text in self.shown or self.process.poll() is not None, 30)
        assert text in self.shown, self.shown

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal to the command; return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; return the exit status."""
        status = self.process.wait(30)
        self._thread.join(30)
        os.close(self._main)
        return status


def in_terminal(desk: Desk, *words: str, env: Env = NONE) -> str:
    """Return what a command shows in a terminal until its end."""
    terminal = Terminal(desk, *words, env=env)
    terminal.wait()
    return terminal.shown
