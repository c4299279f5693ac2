"""`hermes-busd`, as the command that people run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.peer import MakePeer
from wakebus.broker import __version__
from wakebus.broker.system.lock_file import lock_holder


@pytest.fixture
def bus(bus_root: Path) -> Iterator[Broker]:
    """A folder for `hermes-busd start`; what was started ends with the test."""
    yield Broker(bus_root)
    if pid := lock_holder(bus_root / "bus"):
        os.kill(pid, signal.SIGKILL)


def status(bus: Broker) -> dict[str, Any]:
    """Return what `status --json` says."""
    found: dict[str, Any] = json.loads(bus.command("status", "--json").stdout)
    return found


def test_start_status_stop(bus: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.2, PROTOCOL-1.5: start returns when clients can connect; twice is harmless."""
    first = bus.command("start")
    assert first.returncode == 0, first.stderr
    assert "endpoints" in peers(bus).ask("list")
    again = bus.command("start")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    found = status(bus)
    assert found["running"] is True and f"pid {found['pid']}" in first.stdout
    stopped = bus.command("stop")
    assert stopped.returncode == 0 and str(found["pid"]) in stopped.stdout
    assert not (bus.folder / "address.json").exists() and not (bus.folder / "broker.sock").exists()
    assert bus.command("stop").returncode == 0


def test_status_tells_everything(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-10.5: pid, versions, uptime, address, endpoints, dead letters, store size."""
    peer = peers(broker)
    peer.register("worker-alpha")
    peer.send("worker-alpha", sender="worker-alpha")
    found = status(broker)
    assert (found["pid"], found["version"], found["protocol"]) == (broker.pid, __version__, 1)
    assert found["router"] == broker.address and found["folder"] == str(broker.folder)
    assert found.keys() >= {"uptime_s", "dead_letters", "store_bytes", "messages", "accepted"}
    (row,) = found["endpoints"]
    assert row.keys() >= {"name", "state", "pid", "epoch", "beat_age_s", "queued", "in_hand"}
    page = broker.command("status").stdout
    for word in ("worker-alpha", "live", str(os.getpid()), __version__, broker.address, "KiB"):
        assert word in page


def test_status_of_a_stopped_broker(bus: Broker) -> None:
    """Exit 3, and what to do; `--json` stays JSON. Nothing is made on disk."""
    result = bus.command("status")
    assert result.returncode == 3 and "hermes-busd start" in result.stdout
    result = bus.command("status", "--json")
    assert result.returncode == 3 and json.loads(result.stdout)["running"] is False
    assert not bus.folder.exists()


def test_a_broker_whose_words_nobody_reads(bus: Broker) -> None:
    """PROTOCOL-1.17: it runs, and ends when it is told to."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-P", "-m", "wakebus.broker", "run"]
    run = subprocess.Popen(command, env=bus.env, stdout=writer, stderr=writer)
    os.close(writer)
    until(lambda: run.poll() is not None or bus.command("status").returncode == 0)
    assert bus.command("stop").returncode == 0 and run.wait(30) == 0


def test_a_terminal_that_has_not_every_character(bus: Broker) -> None:
    """PROTOCOL-1.17: it shows `?`."""
    root = f"{bus.root}/\N{RIGHTWARDS ARROW}"
    done = bus.command("status", HERMES_BUS_ROOT=root, PYTHONIOENCODING="latin-1")
    assert done.returncode == 3 and f"{bus.root}/?/bus" in done.stdout and not done.stderr


def test_ten_starts_at_once_make_one_broker(bus: Broker) -> None:
    """PROTOCOL-1.2: all of them succeed and name the same process."""
    command = [sys.executable, "-P", "-m", "wakebus.broker", "start"]
    starts = [
        subprocess.Popen(command, env=bus.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(10)
    ]
    said = {(*start.communicate(timeout=60), start.returncode) for start in starts}
    assert len(said) == 1, said
    ((_, errors, code),) = said
    assert (errors, code) == (b"", 0)
    assert (bus.folder / "broker.log").read_text().count("started: pid") == 1


def test_a_start_while_another_one_stops(bus: Broker) -> None:
    """PROTOCOL-1.2, PROTOCOL-1.6: it waits for the old one to go, then makes a new one."""
    bus.command("start")
    old = status(bus)["pid"]
    os.kill(old, signal.SIGTERM)
    assert bus.command("start").returncode == 0
    assert status(bus)["pid"] != old


def test_a_start_after_a_kill(bus: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.3: the left socket and address are no obstacle."""
    bus.command("start")
    old = status(bus)["pid"]
    os.kill(old, signal.SIGKILL)
    until(lambda: lock_holder(bus.folder) is None)
    assert bus.command("status").returncode == 3
    assert bus.command("start").returncode == 0
    assert status(bus)["pid"] != old and "endpoints" in peers(bus).ask("list")


def test_a_relative_root(bus: Broker) -> None:
    """PROTOCOL-1.1, PROTOCOL-1.2: the one who asked and the broker mean the same folder."""
    env = {**bus.env, "HERMES_BUS_ROOT": bus.root.name}
    command = [sys.executable, "-P", "-m", "wakebus.broker", "start"]
    done = subprocess.run(
        command, env=env, cwd=bus.root.parent, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert status(bus)["running"] is True and str(bus.folder) in done.stdout
    assert not list(bus.folder.rglob("bus"))


def test_a_root_that_is_no_text(bus: Broker) -> None:
    """PROTOCOL-1.1: one sentence by every verb and the next step, no traceback."""
    for verb in ("start", "run", "status", "stop"):
        result = bus.command(verb, HERMES_BUS_ROOT=f"{bus.root}/\udcff")
        assert result.returncode == 1 and "not UTF-8" in result.stderr
        assert result.stderr.splitlines()[1:] == ["Set HERMES_BUS_ROOT to another folder"]


def test_a_restart_with_wrong_settings_stops_nothing(bus: Broker) -> None:
    """What is wrong is told first; the old broker goes on."""
    assert bus.command("start").returncode == 0
    (bus.folder / "wakebus.toml").write_text("mailbox = 3\n")
    done = bus.command("restart")
    assert done.returncode == 1 and "mailbox" in done.stderr
    assert bus.command("status").returncode == 0
    assert bus.command("stop").returncode == 0


def test_restart(bus: Broker) -> None:
    """Also of a broker that does not run."""
    assert bus.command("restart").returncode == 0
    old = status(bus)["pid"]
    assert bus.command("restart").returncode == 0
    assert status(bus)["pid"] != old


def test_a_frozen_broker_holds_no_status(bus: Broker) -> None:
    """SIGSTOP: an error that says so within the timeout, no hang, no traceback."""
    bus.command("start")
    pid = status(bus)["pid"]
    os.kill(pid, signal.SIGSTOP)
    result = bus.command("status")
    os.kill(pid, signal.SIGCONT)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "did not answer" in result.stderr or "no broker answers" in result.stderr


def problem(bus: Broker, *words: str) -> str:
    """Run a start that must fail; return its one line."""
    result = bus.command(*(words or ("start",)))
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("hermes-busd: ") and "Traceback" not in result.stderr
    return result.stderr


def test_bad_settings(bus: Broker) -> None:
    """PROTOCOL-1.7: file and key, or variable, by `start` and by `run`."""
    bus.folder.mkdir()
    (bus.folder / "wakebus.toml").write_text("atempts = 3\n")
    for verb in ("start", "run"):
        said = problem(bus, verb)
        assert "wakebus.toml:1: atempts" in said and "did you mean attempts" in said
    (bus.folder / "wakebus.toml").unlink()
    bad = bus.command("start", WAKEBUS_ATTEMPTS="many")
    assert bad.returncode == 1 and "WAKEBUS_ATTEMPTS" in bad.stderr


@pytest.mark.parametrize("name", ["broker.lock", "broker.log", "bus.db", "wakebus.toml"])
def test_a_folder_where_a_file_belongs(bus: Broker, name: str) -> None:
    """One line that names it; nothing is removed."""
    (bus.folder / name).mkdir(parents=True)
    assert name in problem(bus)
    assert (bus.folder / name).is_dir()


def test_a_planted_log(bus: Broker) -> None:
    """PROTOCOL-1.8: it is named by `start` and `run`, and not written through."""
    (bus.root / "mine").write_text("mine")
    bus.folder.mkdir(mode=0o700)
    (bus.folder / "broker.log").symlink_to(bus.root / "mine")
    for verb in ("start", "run"):
        assert "broker.log" in problem(bus, verb)
    assert (bus.root / "mine").read_text() == "mine"


def test_a_file_where_the_folder_belongs(bus: Broker) -> None:
    """PROTOCOL-1.1: it is named and survives."""
    bus.folder.write_text("mine")
    assert str(bus.folder) in problem(bus)
    assert bus.folder.read_text() == "mine"


def test_a_file_at_the_socket(bus: Broker) -> None:
    """PROTOCOL-1.3: the command names it too."""
    bus.folder.mkdir()
    (bus.folder / "broker.sock").write_text("mine")
    assert "broker.sock" in problem(bus)


def test_run_in_the_foreground(bus: Broker) -> None:
    """It says where it is; Ctrl-C ends it with 0; the log is on the terminal too."""
    command = [sys.executable, "-P", "-m", "wakebus.broker", "run"]
    run = subprocess.Popen(
        command, env=bus.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert f"pid {run.pid}" in run.stdout.readline()
    assert "already" in (said := problem(bus, "run")) or "is running" in said
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=30)
    assert run.returncode == 0 and "started: pid" in errors and "Traceback" not in errors


@pytest.mark.parametrize("words", [(), ("dance",), ("start", "now")])
def test_wrong_usage(bus: Broker, words: tuple[str, ...]) -> None:
    """Exit 2, with the verbs."""
    result = bus.command(*words)
    assert result.returncode == 2 and "usage: hermes-busd" in result.stderr
