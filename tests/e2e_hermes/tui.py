"""
The server of `hermes --tui` as a real process, spoken to as the Ink front end does.

JSON-RPC, one object a line (tui_gateway/entry.py of 0.22.2); readiness is read from its events.
"""

import json
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from fakes.broker import until

if TYPE_CHECKING:
    from e2e_hermes.world import World

# The wheel of 0.22.2 lacks an import, without which the server does not start.
MENDED = "import builtins, pathlib; builtins.Path = pathlib.Path"
START_S = 120.0
CALL_S = 60.0
END_S = 60.0


class Tui:
    """A front end and its server; `events`: what the server told of its sessions, oldest first."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.events: list[dict[str, Any]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._next = 0
        (mended := world.root / "mended").mkdir(exist_ok=True)
        (mended / "sitecustomize.py").write_text(MENDED)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tui_gateway.entry"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(world.root / "tui.err").open("ab"),
            env={**world.env, "PYTHONPATH": str(mended)},
            cwd=world.root,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.told("gateway.ready") or not self.alive, START_S)
        assert self.alive, self.errors

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)  # anything else on its wire is a fault
            if "method" in found:
                self.events.append(found.get("params") or {})
            elif isinstance(found.get("id"), int):
                self._answers[found["id"]] = found

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the server; return its result."""
        with self._lock:
            self._next += 1
            id = self._next
            request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        until(lambda: id in self._answers or not self.alive, CALL_S)
        assert "result" in self._answers.get(id, {}), (method, self._answers.get(id), self.errors)
        return dict(self._answers[id]["result"])

    def open(self) -> tuple[str, str]:
        """Open a session and wait until it can run turns; return its id here, and its key."""
        made = self.call("session.create", cols=100)
        id, key = str(made["session_id"]), str(made["stored_session_id"])
        until(lambda: self.told("session.info", id) or self.told("error", id), START_S)
        return id, key

    def say(self, id: str, text: str) -> None:
        """A person writes in a session."""
        self.call("prompt.submit", session_id=id, text=text)

    def told(self, type: str, id: str = "") -> list[dict[str, Any]]:
        """Return the events of a type, of one session or of all."""
        found = [one for one in list(self.events) if one.get("type") == type]
        return [one for one in found if not id or one.get("session_id") == id]

    def answers(self, id: str) -> list[str]:
        """Return what the turns of a session ended with."""
        found = self.told("message.complete", id)
        return [str((one.get("payload") or {}).get("text")) for one in found]

    @property
    def alive(self) -> bool:
        """Whether the server runs."""
        return self.process.poll() is None

    @property
    def errors(self) -> str:
        """What it printed beside its wire."""
        file = self._world.root / "tui.err"
        return file.read_text(errors="replace")[-4000:] if file.exists() else ""

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(END_S)

    def terminate(self) -> None:
        """SIGTERM, as a window that is closed."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(END_S)

    def close(self) -> None:
        """End it as the front end does: its input ends."""
        assert self.process.stdin is not None
        if self.alive:
            self.process.stdin.close()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reader.join(END_S)
