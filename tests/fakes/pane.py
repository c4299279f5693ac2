"""A tmux server of a test's own, and programs in its panes that record what they get."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fakes.broker import until

# Raw, as agents' TUIs are, and with bracketed paste, which a TUI asks its terminal for.
RECORDER: Final = """\
import os, sys, tty
tty.setraw(0)
os.write(1, b"\\x1b[?2004h" if sys.argv[2] == "brackets" else b"")
with open(sys.argv[1], "ab", 0) as file:
    os.write(1, b"recording")
    while data := os.read(0, 65536):
        file.write(data)
"""
START: Final = b"\x1b[200~"
END: Final = b"\x1b[201~"


class Recorder(NamedTuple):
    """A pane whose program records. `id`: tmux's `%3`."""

    id: str
    file: Path

    @property
    def got(self) -> bytes:
        """What the program has got so far."""
        return self.file.read_bytes()

    def line(self) -> bytes:
        """Wait for the first Enter that is no part of a paste; return what came before it."""
        until(lambda: self._end() >= 0, 60)
        return self.got[: self._end()]

    def _end(self) -> int:
        data = self.got
        start = data.find(START)
        behind = 0 if start < 0 else data.find(END, start)
        return -1 if behind < 0 else data.find(b"\r", behind)


class Server:
    """A tmux server that plain `tmux` finds by TMUX_TMPDIR; in `folder` nothing else lies."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wb"))
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TMUX")}
        self.env = {**clean, "TMUX_TMPDIR": str(self.folder)}
        (self.folder / "recorder.py").write_text(RECORDER)
        self._count = 0

    def tmux(self, *words: str) -> str:
        """Run a command of tmux; return what it printed."""
        command = ["tmux", "-u", "-f", "/dev/null", *words]
        done = subprocess.run(
            command, env=self.env, stdout=subprocess.PIPE, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    def session(self, name: str, *, brackets: bool = True) -> Recorder:
        """Start a session whose program records; wait until it does."""
        return self._record("new-session", "-d", "-s", name, brackets=brackets)

    def window(self, session: str, name: str) -> Recorder:
        """Open another window, not the current one."""
        return self._record("new-window", "-d", "-t", f"={session}:", "-n", name)

    def split(self, beside: Recorder) -> Recorder:
        """Open another pane, which becomes the active one of the window."""
        return self._record("split-window", "-t", beside.id)

    def program(self, name: str, *words: str) -> str:
        """Start a session with any program; return its pane's id."""
        return self.tmux("new-session", "-d", "-s", name, "-P", "-F", "#{pane_id}", *words)

    def draw(self, pane: Recorder, screen: str) -> None:
        """Show `screen` in a pane as its program would; wait until it stands there."""
        drawn = "\x1b[2J\x1b[H" + screen.replace("\n", "\r\n")
        Path(self.ask(pane, "pane_tty")).write_text(drawn)
        last = screen.strip().splitlines()[-1].strip()
        until(lambda: last in self.tmux("capture-pane", "-p", "-t", pane.id), 60)

    def _record(self, *words: str, brackets: bool = True) -> Recorder:
        self._count += 1
        file = self.folder / f"got{self._count}"
        file.touch()
        program = [sys.executable, str(self.folder / "recorder.py"), str(file)]
        how = "brackets" if brackets else "plain"
        id = self.tmux(*words, "-P", "-F", "#{pane_id}", *program, how)
        until(lambda: "recording" in self.tmux("capture-pane", "-p", "-t", id), 60)
        return Recorder(id, file)

    def ask(self, pane: Recorder, what: str) -> str:
        """Return a format variable of a pane."""
        return self.tmux("display-message", "-p", "-t", pane.id, f"#{{{what}}}")

    @property
    def pid(self) -> int:
        """The server's process."""
        return int(self.tmux("display-message", "-p", "#{pid}"))

    def close(self) -> None:
        """End it and all its programs."""
        command = ["tmux", "kill-server"]
        subprocess.run(command, env=self.env, stderr=subprocess.DEVNULL, timeout=60, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def serve_panes() -> Iterator[Server]:
    """Run a server."""
    found = Server()
    yield found
    found.close()
