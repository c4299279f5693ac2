"""
Child services of the broker, found by entry point `wakebus.services`: `serve(stop) -> int`.

Rule 1: the broker imports none of them; each runs in its own process. Rule 2: a child ends when
the broker's end of its pipe closes, so a SIGKILL leaves none behind. Rule 3: a child that ends is
started again, 1 s later, then 2, 4 … 30. Rule 4: a child rotates its own log, which is its standard
output: only the process that writes to a file can change to the next one without losing a line.
"""

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from wakebus.broker import paths, settings
from wakebus.broker.errors import WakebusError
from wakebus.broker.system.log_file import OutputLog
from wakebus.broker.system.private_files import CannotStart, append_to

log = logging.getLogger("wakebus.supervisor")

GROUP: Final = "wakebus.services"
LONGEST_PAUSE_S: Final = 30.0
LOOK_S: Final = 0.5  # between looks at the size of a log
STEADY_S: Final = 60.0  # a child that ran this long starts over at the shortest pause


def installed_services() -> frozenset[str]:
    """Return the services that are installed; the endpoint that one holds has its name."""
    return frozenset(entry.name for entry in entry_points(group=GROUP))


class Supervisor:
    """Runs every service in a child and keeps it running until `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._keep_running, args=(name,), name=f"service {name}", daemon=True
            )
            for name in sorted(installed_services())
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the children (2 s to finish, then SIGKILL) and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(5)

    def _keep_running(self, name: str) -> None:
        pause = 1.0
        while not self._stop.is_set():
            try:
                lived = self._run_once(name)
            except (CannotStart, OSError) as exc:  # no process, no file: as if it had ended
                lived = 0.0
                log.error("service %s cannot be started: %s", name, exc)
            if self._stop.is_set():
                return
            pause = 1.0 if lived > STEADY_S else pause
            log.warning("service %s ended after %.0f s; again in %.0f s", name, lived, pause)
            self._stop.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _run_once(self, name: str) -> float:
        # -P: no module of the folder that the broker was started in may shadow a library.
        command = [sys.executable, "-P", "-m", "wakebus.broker.server.supervisor", name]
        environ = {**paths.child_environ(), "HERMES_BUS_ROOT": str(self._folder.parent)}
        started = time.monotonic()
        with os.fdopen(append_to(self._folder / f"{name}.log"), "ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environ,
                cwd=self._folder,
                start_new_session=True,
            )
        assert child.stdin is not None
        while child.poll() is None and not self._stop.wait(0.2):
            pass
        child.stdin.close()
        try:
            child.wait(2)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return time.monotonic() - started


def main(name: str) -> int:
    """Run one service in this process until its standard input closes or SIGTERM comes."""
    stop = threading.Event()
    # The handler may run while this thread holds the event's own lock: another one sets it.
    told, tell = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: _write_byte(tell))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker in the foreground
    output = OutputLog(paths.bus_dir() / f"{name}.log", _chosen())
    threading.Thread(target=_until_closed, args=(stop, told, output), daemon=True).start()
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        print(f"no service {name!r} is installed", file=sys.stderr)
        return 2
    status = int(found[0].load()(stop))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the interpreter's end takes handlers away
    return status


def _write_byte(tell: int) -> None:
    os.set_blocking(tell, False)
    try:
        os.write(tell, b"x")
    except BlockingIOError:
        pass  # it has been told often enough


def _until_closed(stop: threading.Event, told: int, output: OutputLog) -> None:
    while True:
        output.rotate()
        ready, _, _ = select.select([0, told], [], [], LOOK_S)
        if told in ready or (ready and not os.read(0, 4096)):
            stop.set()
            return


def _chosen() -> settings.Settings:
    try:
        return settings.load(paths.bus_dir() / "wakebus.toml", os.environ)
    except WakebusError:  # edited since the broker read it, which tells at its next start
        return settings.Settings()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
