"""
The server of the TUI and the desktop as a real process, spoken to as their front ends do.

JSON-RPC: `hermes --tui` by pipes (tui_gateway/entry.py of 0.22.2), `hermes serve` by a WebSocket
(hermes_cli/web_routers/chat_ws.py). Readiness is read from its events.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fakes.broker import until

if TYPE_CHECKING:
    from e2e_hermes.world import World

# The wheel of 0.22.2 lacks an import, without which the server does not start.
MENDED = "import builtins, pathlib; builtins.Path = pathlib.Path"
TOKEN = "a-token-of-the-desktop-0123456789"
START_S = 120.0
CALL_S = 60.0
END_S = 60.0


class FrontEnd:
    """A front end and its server; `events`: what the server told of its sessions, oldest first."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.events: list[dict[str, Any]] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._next = 0
        (mended := world.root / "mended").mkdir(exist_ok=True)
        (mended / "sitecustomize.py").write_text(MENDED)
        self._errors = (world.root / "tui.err").open("ab")
        self.process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if self.piped else self._errors,
            stderr=self._errors,
            env={
                **world.env,
                "PYTHONPATH": str(mended),
                "HERMES_DASHBOARD_SESSION_TOKEN": TOKEN,
            },
            cwd=world.root,
        )
        self._reader: threading.Thread | None = None

    piped = True

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _lines(self) -> Iterator[str]:
        raise NotImplementedError

    def _write(self, text: str) -> None:
        raise NotImplementedError

    def _begin(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.told("gateway.ready") or not self.alive, START_S)
        assert self.alive, self.errors

    def _read(self) -> None:
        for line in self._lines():
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
            self._write(json.dumps(request))
        until(lambda: id in self._answers or not self.alive, CALL_S)
        assert "result" in self._answers.get(id, {}), (method, self._answers.get(id), self.errors)
        return dict(self._answers[id]["result"])

    def open(self, **params: Any) -> tuple[str, str]:
        """Open a session and wait until it can run turns; return its id here, and its key."""
        made = self.call("session.create", cols=100, **params)
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
        return (self._world.root / "tui.err").read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(END_S)

    def terminate(self) -> None:
        """SIGTERM, as a window that is closed."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(END_S)

    def close(self) -> None:
        """End it as the front end does."""
        self._hang_up()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._errors.close()
        if self._reader is not None:
            self._reader.join(END_S)

    def _hang_up(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()


class Tui(FrontEnd):
    """`hermes --tui`: its end is the end of the front end's pipe."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._begin()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "tui_gateway.entry"]

    def _lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                yield line.decode()

    def _write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()


class Desktop(FrontEnd):
    """`hermes serve`, with no window until `connect`."""

    piped = False

    def __init__(self, world: "World") -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = int(found.getsockname()[1])
        self._window: Any = None
        super().__init__(world)
        until(self._answers_calls, START_S)

    def _command(self) -> list[str]:
        words = ("serve", "--port", str(self._port), "--skip-build")
        return [sys.executable, "-m", "hermes_cli.main", *words]

    def _answers_calls(self) -> bool:
        assert self.alive, self.errors
        with socket.socket() as found:
            return found.connect_ex(("127.0.0.1", self._port)) == 0

    def connect(self) -> "Desktop":
        """Open a window."""
        url = f"ws://127.0.0.1:{self._port}/api/ws?token={TOKEN}"
        origin = f"http://127.0.0.1:{self._port}"
        client = import_module("websockets.sync.client")  # Hermes has it
        self._window = client.connect(url, origin=origin, max_size=None)
        self._begin()
        return self

    def disconnect(self) -> None:
        """Close the window."""
        self._window.close()

    def _lines(self) -> Iterator[str]:
        with suppress(import_module("websockets").ConnectionClosed):
            yield from self._window

    def _write(self, text: str) -> None:
        self._window.send(text)

    def _hang_up(self) -> None:
        if self._window is not None:
            self._window.close()
        super()._hang_up()
        if self.alive:
            self.process.terminate()
