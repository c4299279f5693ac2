"""`hermes gateway run` as a real process; readiness is read from facts, never slept for."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fakes.broker import until
from fakes.desk import BIN

if TYPE_CHECKING:
    from e2e_hermes.world import World

# A quiet machine needs 3 to 5 s; one that builds and tests at once needed 25.
START_S = 120.0
END_S = 60.0


class Gateway:
    """
    The gateway of a world; what it says is in `output`, what it logs in `log`.

    `home`: of a profile that it is launched for, else the world's; `heard`: whether people are.
    """

    def __init__(
        self,
        world: "World",
        home: Path | None = None,
        heard: Callable[[], bool] | None = None,
    ) -> None:
        self._world, self._home = world, home or world.root
        self._env = {"HERMES_HOME": str(home)} if home else {}
        self._heard = heard or (lambda: world.mattermost.connected)
        self._output = self._home / "gateway.out"
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> "Gateway":
        """Start it; wait for nothing."""
        assert not self.alive, "it runs already"
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [str(BIN / "hermes"), "gateway", "run"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**self._world.env, **self._env},
                cwd=self._home,
            )
        return self

    def start(self) -> "Gateway":
        """Start it and wait until it hears what people say."""
        return self.launch().ready()

    def ready(self) -> "Gateway":
        """Wait until it says that it runs and its platform listens."""
        until(lambda: self._up or not self.alive, START_S)
        assert self.alive, self._world.story()
        return self

    @property
    def _up(self) -> bool:
        state = self.state
        ours = state.get("pid") == self.pid and state.get("gateway_state") == "running"
        return ours and self._heard()

    @property
    def state(self) -> dict[str, Any]:
        """What it last wrote of itself: pid, gateway_state, platforms."""
        file = self._home / "gateway_state.json"
        try:
            found: dict[str, Any] = json.loads(file.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found

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
    def output(self) -> str:
        """What it printed."""
        return _read(self._output)

    @property
    def log(self) -> str:
        """What Hermes logged, gateway and agent."""
        folder = self._home / "logs"
        return "".join(_read(folder / name) for name in ("gateway.log", "agent.log"))

    def stop(self) -> int:
        """SIGTERM; return the exit status (1 by design of Hermes)."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def restart(self) -> "Gateway":
        """Stop it and start it again."""
        self.stop()
        return self.start()

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.alive:
            self.process.send_signal(number)
        status = self.process.wait(END_S)
        until(lambda: not self._world.mattermost.connected, END_S)
        return status


def _read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
