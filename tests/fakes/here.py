"""`wakebus` in this process, at a desk of any kind: a new process costs more than most verbs do."""

from pathlib import Path

import pytest

from fakes.desk import Done
from wakebus.plugin.cli.main import main


class Here:
    """`root`: HERMES_BUS_ROOT and HERMES_HOME, and the current folder."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.root, self._capsys = root, capsys
        monkeypatch.setenv("HERMES_HOME", str(root))
        monkeypatch.setenv("HERMES_BUS_ROOT", str(root))
        monkeypatch.chdir(root)

    def wakebus(self, *words: str) -> Done:
        """Run `wakebus`."""
        self._capsys.readouterr()
        try:
            status = main([*words])
        except SystemExit as exc:
            status = int(exc.code or 0)
        return Done(status, *self._capsys.readouterr())
