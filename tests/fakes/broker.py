"""A real broker process in a folder of its own, with short timers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Patient with slow machines: a raw peer of these tests does not beat.
CALM = {"WAKEBUS_SERVICES": "false", "WAKEBUS_STALE_S": "60"}


class Broker:
    """`python -m wakebus.broker run` in `root`; `settings` become WAKEBUS_<NAME>."""

    program: tuple[str, ...] = ("-m", "wakebus.broker")

    def __init__(self, root: Path, **settings: object) -> None:
        self.root = root
        self.folder = root / "bus"
        self._env = {"WAKEBUS_" + k.upper(): str(v).lower() for k, v in settings.items()}
        self.process: subprocess.Popen[bytes] | None = None
        self.word = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment for commands that talk to this broker."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WAKEBUS_", "HERMES_"))}
        return {**clean, **CALM, **self._env, "HERMES_BUS_ROOT": str(self.root)}

    def start(self) -> "Broker":
        """Start it and wait until it is ready; what it said instead is in `word`."""
        assert not self.alive, "it runs already"
        ready, child_end = os.pipe()
        command = [sys.executable, "-P", *self.program, "run", "--ready-fd"]
        with (self.root / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [*command, str(child_end)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.env,
                pass_fds=[child_end],
            )
        os.close(child_end)
        with os.fdopen(ready, encoding="utf-8") as pipe:
            self.word = pipe.read()
        if self.word != "ready":
            self.process.wait(30)
        return self

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    @property
    def address(self) -> str:
        """Where its ROUTER is, as address.json says."""
        return str(json.loads((self.folder / "address.json").read_text())["router"])

    @property
    def log(self) -> str:
        """What it logged."""
        return "".join(p.read_text() for p in self.folder.glob("broker.log*"))

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        return self._end(signal.SIGTERM)

    def restart(self) -> "Broker":
        """Kill it and start it again."""
        self.kill()
        return self.start()

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.alive:
            self.process.send_signal(number)
        return self.process.wait(30)

    def command(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run `hermes-busd` with this folder."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "wakebus.broker", *words],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=60,
        )


MakeBroker = Callable[..., Broker]


def until(condition: Callable[[], Any], timeout: float = 30.0) -> Any:
    """Return what `condition` returns once it is true; fail after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found
