"""Child services, found by entry point, as children of a real broker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fakes.broker import Broker, until
from wakebus.broker import Client
from wakebus.broker.errors import UnknownTarget

SERVICE = """
import os, pathlib, sys
HERE = pathlib.Path(__file__).parent

def serve(stop):
    with (HERE / "started").open("a") as file:
        home = os.environ.get("HERMES_HOME")
        file.write(f"{os.getpid()} {os.environ['HERMES_BUS_ROOT']} {home}\\n")
    while not stop.wait(0.02):
        if (HERE / "fall").exists():
            (HERE / "fall").unlink()
            raise SystemExit(3)
    (HERE / "ended").write_text("in peace")
    return 0
"""


class Service:
    """A service `probe` that is installed where only this test's broker finds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "probe_service.py").write_text(SERVICE)
        info = folder / "probe-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[wakebus.services]\nprobe = probe_service:serve\n")

    @property
    def pids(self) -> list[int]:
        """The processes that ran it, oldest first."""
        file = self.folder / "started"
        return (
            [int(line.split()[0]) for line in file.read_text().splitlines()]
            if file.exists()
            else []
        )


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The probe, on the path of every process that the test starts."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Service(tmp_path)


def serving(root: Path) -> Broker:
    """Start a broker with its services."""
    broker = Broker(root, services=True).start()
    assert broker.word == "ready", broker.word
    return broker


def ended(pid: int) -> bool:
    """Whether a process is there no more."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_service_is_known_before_it_comes(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.9: what is sent to it at once waits for it; not where services do not run."""
    broker = serving(bus_root)
    with Client(broker.address) as client:
        assert client.send("probe", "early", sender="ci").state == "queued"
    assert broker.stop() == 0
    (bus_root / "none").mkdir()
    other = Broker(bus_root / "none", services=False).start()
    with Client(other.address) as client, pytest.raises(UnknownTarget):
        client.send("probe", "early", sender="ci")
    assert other.stop() == 0


def test_a_service_lives_and_ends_with_the_broker(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.9: it knows its bus, and is asked to end."""
    broker = serving(bus_root)
    (pid,) = until(lambda: service.pids)
    assert str(bus_root) in (service.folder / "started").read_text()
    assert broker.stop() == 0
    assert ended(pid) and (service.folder / "ended").read_text() == "in peace"


def test_a_service_that_falls_is_started_again(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.9: and the log says so."""
    broker = serving(bus_root)
    try:
        until(lambda: service.pids)
        (service.folder / "fall").touch()
        until(lambda: len(service.pids) == 2)
        assert "service probe ended" in broker.log
    finally:
        broker.stop()


def test_a_killed_broker_leaves_no_service_behind(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.9: the pipe closes, and it ends by itself."""
    broker = serving(bus_root)
    (pid,) = until(lambda: service.pids)
    broker.kill()
    until(lambda: ended(pid))
    assert (service.folder / "ended").read_text() == "in peace"


def test_a_service_that_does_not_end_is_killed(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.9, PROTOCOL-1.6: a stopped one does not hold the broker's exit."""
    broker = serving(bus_root)
    (pid,) = until(lambda: service.pids)
    os.kill(pid, signal.SIGSTOP)
    assert broker.stop() == 0
    assert ended(pid)


def test_a_service_knows_its_folders(
    bus_root: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.9: it runs elsewhere, so a relative one is made absolute."""
    broker = Broker(bus_root, services=True)
    env = {**broker.env, "HERMES_BUS_ROOT": bus_root.name, "HERMES_HOME": "h"}
    command = [sys.executable, "-P", "-m", "wakebus.broker", "run"]
    run = subprocess.Popen(command, env=env, cwd=bus_root.parent, stdout=-3, stderr=-3)
    try:
        until(lambda: service.pids)
    finally:
        run.terminate()
        run.wait(30)
    _, root, home = (service.folder / "started").read_text().split()
    assert (root, home) == (str(bus_root), str(bus_root.parent / "h"))


def test_a_planted_service_log(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.8: the service waits, the broker's log says why, nothing is written through."""
    (bus_root / "mine").write_text("mine")
    (bus_root / "bus").mkdir(mode=0o700)
    (bus_root / "bus" / "probe.log").symlink_to(bus_root / "mine")
    broker = serving(bus_root)
    try:
        until(lambda: "probe.log cannot be opened" in broker.log)
    finally:
        broker.stop()
    assert (bus_root / "mine").read_text() == "mine" and service.pids == []


def test_many_signals_at_once(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.9: a signal that falls into the service's own look at `stop` ends it too."""
    with (bus_root / "out").open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "wakebus.broker.server.supervisor", "probe"],
            stdin=subprocess.PIPE,
            stderr=output,
        )
        until(lambda: service.pids)
        for _ in range(200):
            child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
        assert child.stdin is not None
        child.stdin.close()
    assert (bus_root / "out").read_bytes() == b""


def test_services_can_be_off(broker: Broker, service: Service) -> None:
    """PROTOCOL-1.9: `services = false`."""
    assert broker.word == "ready"
    assert psutil.Process(broker.pid).children() == [] and service.pids == []


TALKS = """
import sys
def serve(stop):
    number = 0
    while not stop.wait(0.001):
        number += 1
        print(f"line {number}", file=sys.stderr, flush=True)
    return 0
"""


def test_the_log_of_a_service_rotates(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.8: by the broker's settings, and without losing a line."""
    (service.folder / "probe_service.py").write_text(TALKS)
    broker = Broker(bus_root, services=True, log_bytes=1000, log_files=2)
    broker.start()
    logs = [broker.folder / f"probe.log{end}" for end in (".2", ".1", "")]
    try:
        until(logs[0].exists, 60)
    finally:
        broker.stop()
    lines = "".join(log.read_text() for log in logs).splitlines()
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert not Path(f"{broker.folder}/probe.log.3").exists()
    assert {log.stat().st_mode & 0o777 for log in logs} == {0o600}


def _text(log: Path) -> str:
    """Return what a log holds; while it is rotated there is none of that name for a moment."""
    try:
        return log.read_text()
    except FileNotFoundError:
        return ""


def test_a_planted_name_of_an_old_log(bus_root: Path, service: Service) -> None:
    """PROTOCOL-1.8: what is in the way is left alone, and said once."""
    (service.folder / "probe_service.py").write_text(TALKS)
    (bus_root / "bus" / "probe.log.1").mkdir(parents=True, mode=0o700)
    broker = Broker(bus_root, services=True, log_bytes=2000)
    broker.start()
    log = broker.folder / "probe.log"
    try:
        until(lambda: "cannot be rotated" in _text(log), 60)
        until(lambda: log.stat().st_size > 6_000, 60)
    finally:
        broker.stop()
    assert log.read_text().count("cannot be rotated") == 1
