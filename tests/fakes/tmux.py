"""A tmux server of a test's own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fakes.broker import until


class Tmux(NamedTuple):
    """A tmux server of this test's own; `env` is what a command inside it finds."""

    command: tuple[str, ...]
    env: dict[str, str]


def serve() -> Iterator[Tmux]:
    """Run a server whose session `my session` is asked for; `lead` is there to be confused with."""
    folder = Path(tempfile.mkdtemp(prefix="wb"))
    command = ("tmux", "-S", str(folder / "socket"), "-f", "/dev/null")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TMUX")}
    for name in ("lead", "my session", "last"):
        said = folder / name
        line = f'echo "$TMUX|$TMUX_PANE" > "{said}.new"; mv "{said}.new" "{said}"; exec cat'
        subprocess.run([*command, "new-session", "-d", "-s", name, line], env=clean, check=True)
    said = folder / "my session"
    until(said.exists, 30)
    server, pane = said.read_text().strip().split("|")
    yield Tmux(command, {"TMUX": server, "TMUX_PANE": pane})
    subprocess.run([*command, "kill-server"], env=clean, check=False)
    shutil.rmtree(folder, ignore_errors=True)
