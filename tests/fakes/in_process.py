"""
The commands in this process, at a desk of any kind: a new process costs more than most verbs do.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakes.desk import Done
from wakebus.plugin.cli import main, notify


class InProcess:
    """`root`: HERMES_BUS_ROOT and HERMES_HOME, and the current folder."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.root, self._capsys, self._patch = root, capsys, monkeypatch
        monkeypatch.setenv("HERMES_HOME", str(root))
        monkeypatch.setenv("HERMES_BUS_ROOT", str(root))
        monkeypatch.chdir(root)

    def wakebus(self, *words: str) -> Done:
        """Run `wakebus`."""
        return self._run(main.main, words)

    def notify(self, *words: str | bytes, stdin: bytes = b"") -> Done:
        """Run `notify-hermes`."""
        given = [os.fsdecode(word) for word in words]
        # A usage error is told as JSON where the command line says so.
        self._patch.setattr(sys, "argv", ["notify-hermes", *given])
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return self._run(notify.main, given)

    def _run(self, command: Callable[[list[str]], int], words: Sequence[str]) -> Done:
        self._capsys.readouterr()
        try:
            status = command([*words])
        except SystemExit as exc:
            status = int(exc.code or 0)
        return Done(status, *self._capsys.readouterr())
