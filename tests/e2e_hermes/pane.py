"""An interactive `hermes` in a tmux server of its own: keys in, screen out."""

import subprocess
import time
from typing import TYPE_CHECKING

from fakes.broker import until
from fakes.desk import BIN, running

if TYPE_CHECKING:
    from e2e_hermes.world import World

START_S = 120.0
PROMPT = "❯"
AT_A_PERSONS_PACE_S = 0.2


class Pane:
    """`hermes` (with more words if given) in a pane of 140 × 45 with a history of 5,000 lines."""

    def __init__(self, world: "World", *words: str) -> None:
        self._world = world
        self._command = ["tmux", "-u", "-S", str(world.root / world.new("t")), "-f", "/dev/null"]
        self._tmux(
            "start-server", ";", "set", "-g", "history-limit", "5000", ";", *self._new(words)
        )
        self.pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def _new(self, words: tuple[str, ...]) -> list[str]:
        size = ["-x", "140", "-y", "45"]
        return ["new-session", "-d", "-s", "h", *size, str(BIN / "hermes"), *words]

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            [*self._command, *words],
            env={**self._world.env, "TERM": "xterm-256color"},
            cwd=self._world.root,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, (words, done.stderr, self._world.story())
        return done.stdout

    def ready(self) -> "Pane":
        """Wait until it asks for input."""
        return self.shows(PROMPT, START_S)

    @property
    def screen(self) -> str:
        """All that it has shown, with what has scrolled away."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self.keys(text)
        # Enter in the same burst would be taken as part of a paste; 0.22 takes one within 50 ms of
        # the text for a line break of it (hermes_cli/cli_tui_mixin.py:1449).
        until(lambda: text[-30:] in self.screen, 30)
        time.sleep(AT_A_PERSONS_PACE_S)
        self.press("Enter")

    def keys(self, text: str) -> None:
        """Type without Enter."""
        self._tmux("send-keys", "-t", "h", "-l", text)

    def press(self, *names: str) -> None:
        """Press keys by tmux's names: Enter, C-c, Up."""
        self._tmux("send-keys", "-t", "h", *names)

    def shows(self, text: str, timeout: float = 60.0) -> "Pane":
        """Wait until it shows `text`."""
        until(lambda: not self.alive or text in self.screen, timeout)
        assert self.alive, f"it ended before it showed {text!r}"
        return self

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return running(self.pid)

    def close(self) -> None:
        """End it and its tmux."""
        subprocess.run([*self._command, "kill-server"], capture_output=True, timeout=60)
        until(lambda: not self.alive, 60)
