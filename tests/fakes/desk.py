"""
A person's desk: a folder of its own, a broker, and the real commands as real processes.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from fakes.broker import until
from wakebus.broker import Client

BIN = Path(sys.executable).parent
Env = Mapping[str, str]
NONE: Env = {}


class Done(NamedTuple):
    """How a command ended; `both` is what a person saw."""

    status: int
    out: str
    err: str

    @property
    def both(self) -> str:
        """Standard output and standard error."""
        return self.out + self.err

    @property
    def json(self) -> Any:
        """Standard output, which must be exactly one JSON value on a line of its own."""
        assert self.out.endswith("\n"), self
        return json.loads(self.out)


class Desk:
    """`root`: HERMES_BUS_ROOT and HERMES_HOME of all that is run here."""

    def __init__(self, **settings: object) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="wb"))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("WAKEBUS_", "HERMES_"))}
        for name in ("TMUX", "TMUX_PANE", "NO_COLOR", "COLUMNS"):
            clean.pop(name, None)
        self.env = {
            **clean,
            "HERMES_BUS_ROOT": str(self.root),
            "HERMES_HOME": str(self.root),
            "PATH": f"{BIN}{os.pathsep}{clean['PATH']}",
            "WAKEBUS_SERVICES": "false",
            **{f"WAKEBUS_{k.upper()}": str(v).lower() for k, v in settings.items()},
        }

    # --- commands -------------------------------------------------------------------------

    def run(
        self, *words: str | bytes, stdin: bytes = b"", timeout: float = 60, env: Env = NONE
    ) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            [str(BIN / os.fsdecode(words[0])), *words[1:]],
            input=stdin,
            capture_output=True,
            env={**self.env, **env},
            cwd=self.root,
            timeout=timeout,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def notify(self, *words: str | bytes, stdin: bytes = b"", env: Env = NONE) -> Done:
        """Run `notify-hermes`."""
        return self.run("notify-hermes", *words, stdin=stdin, env=env)

    def wakebus(self, *words: str | bytes, stdin: bytes = b"", env: Env = NONE) -> Done:
        """Run `wakebus`."""
        return self.run("wakebus", *words, stdin=stdin, env=env)

    def sent(self, *words: str | bytes, stdin: bytes = b"", env: Env = NONE) -> Any:
        """Send with `notify-hermes --json`; return the receipt of what was accepted."""
        done = self.notify("--json", *words, stdin=stdin, env=env)
        assert done.status == 0, done
        return done.json

    # Asked by a client in this process: a command for each look would be most of a test's time.

    def client(self) -> Client:
        """Return a client of this desk's broker."""
        return Client(self.address["router"], timeout=30)

    def declare(self, name: str) -> None:
        """Make a name known."""
        with self.client() as bus:
            bus.declare(name)

    def related(self, id: str) -> list[dict[str, Any]]:
        """Return what the broker knows of a message and all that hangs together with it."""
        with self.client() as bus:
            return list(bus.trace(id))

    def traced(self, id: str) -> dict[str, Any]:
        """Return what the broker knows of one message."""
        return next(message for message in self.related(id) if message["id"] == id)

    def handled(self, id: str) -> dict[str, Any]:
        """Wait until a message is handled or dead; return what the broker knows of it."""
        with self.client() as bus:
            bus.wait(id, 60)
        return self.traced(id)

    # --- the broker and its listeners -----------------------------------------------------

    def start(self) -> int:
        """Start the broker; return its pid."""
        done = self.run("hermes-busd", "start")
        assert done.status == 0, done
        return self.broker_pid

    @property
    def address(self) -> dict[str, Any]:
        """What the broker wrote of itself."""
        found: dict[str, Any] = json.loads((self.root / "bus" / "address.json").read_text())
        return found

    @property
    def broker_pid(self) -> int:
        """The broker that runs here."""
        return int(self.address["pid"])

    def kill_broker(self) -> int:
        """SIGKILL the broker, wait until it is gone; return its pid."""
        pid = self.broker_pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not running(pid))
        return pid

    def listen(self, *words: str, ready: bool = True, env: Env = NONE) -> "Listener":
        """Start `wakebus listen`; with `ready` wait until it listens."""
        found = Listener(self, words, env)
        if ready:
            until(lambda: "listening as" in found.err or found.ended, 30)
            assert not found.ended, found.err
        return found

    def script(self, name: str, text: str) -> str:
        """Write an executable script; return its path."""
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
        return str(path)

    def rules(self, text: str, name: str = "bus-rules.yaml") -> str:
        """Write a rules file in one step, as editors do; return its path."""
        draft, path = self.root / f".{name}", self.root / name
        draft.write_text(text)
        draft.chmod(0o600)
        draft.replace(path)
        return str(path)

    def left(self) -> list[str]:
        """Return the command lines of all processes of this desk."""
        return [" ".join(process.info["cmdline"]) for process in self._mine()]

    def _mine(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter(["cmdline", "environ", "status"]):
            environ = process.info["environ"] or {}
            if environ.get("HERMES_BUS_ROOT") == str(self.root):
                yield process

    def close(self) -> None:
        """Stop the broker, end what is left, remove the folder."""
        for process in self._mine():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        shutil.rmtree(self.root, ignore_errors=True)


class Listener:
    """A running `wakebus listen`; what it says is kept in files."""

    def __init__(self, desk: Desk, words: tuple[str, ...], env: Env) -> None:
        number = len(list(desk.root.glob("listener*.out")))
        self._out = desk.root / f"listener{number}.out"
        self._err = desk.root / f"listener{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [str(BIN / "wakebus"), "listen", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**desk.env, **env},
                cwd=desk.root,
            )

    @property
    def out(self) -> str:
        """What it has printed."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it has said on standard error."""
        return self._err.read_text()

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def shows(self, text: str) -> None:
        """Wait until it has printed `text`."""
        until(lambda: text in self.out or self.ended, 30)
        assert text in self.out, (self.out, self.err)

    def says(self, text: str) -> None:
        """Wait until it has said `text` on standard error."""
        until(lambda: text in self.err or self.ended, 30)
        assert text in self.err, self.err

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal; return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(30)


def running(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
