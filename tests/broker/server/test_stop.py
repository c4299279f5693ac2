"""Stopping a broker: by its socket, and by a signal only where the process is proven to be it."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.broker import Broker, until
from fakes.hub import Bench
from fakes.peer import MakePeer
from wakebus.broker import Client, paths
from wakebus.broker.errors import BadMessage, Refused, WakebusError
from wakebus.broker.server import cli
from wakebus.broker.system.lock_file import lock_folder, lock_holder, proven_holder, take_lock
from wakebus.broker.system.processes import has_ended, process_of, send_signal, start_of
from wakebus.broker.verbs import VERBS

BUSD = [sys.executable, "-P", "-m", "wakebus.broker"]


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of this user that is no broker."""
    found = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield found
    found.communicate()


def boot(broker: Broker) -> str:
    """Return what names this broker."""
    return str(json.loads((broker.folder / "address.json").read_text())["boot"])


# --- by the socket --------------------------------------------------------------------------


def test_stop_ends_in_order(broker: Broker, peers: MakePeer) -> None:
    """PROTOCOL-1.15, PROTOCOL-1.10: answered, holders are told, exit 0, and it stays stopped."""
    holder = peers(broker)
    holder.register("held")
    assert peers(broker).ask("stop", boot=boot(broker)) == {"pid": broker.pid}
    holder.next("going")
    assert broker.process is not None and broker.process.wait(30) == 0
    assert paths.stop_mark(broker.folder).exists()
    assert not (broker.folder / "address.json").exists()
    broker.start()
    assert not paths.stop_mark(broker.folder).exists()


def test_only_the_one_that_is_meant_ends(broker: Broker) -> None:
    """PROTOCOL-1.15: not the one that was started meanwhile."""
    old = boot(broker)
    broker.restart()
    with Client() as client:
        with pytest.raises(BadMessage, match="boot"):
            client.stop_broker(old)
        assert client.status()["pid"] == broker.pid
        client.stop_broker(boot(broker))
    assert broker.process is not None and broker.process.wait(30) == 0


@pytest.mark.parametrize(("uid", "good"), [(os.getuid(), True), (0, True), (12345, False)])
def test_another_user_stops_nothing(tmp_path: Path, uid: int, good: bool) -> None:
    """PROTOCOL-1.15: also one to whom somebody opened the folder."""
    bench = Bench(tmp_path)
    request = bench.request({"boot": bench.hub.boot})._replace(uid=uid)
    if good:
        VERBS["stop"](bench.hub, request)
    else:
        with pytest.raises(Refused, match="user 12345"):
            VERBS["stop"](bench.hub, request)
    assert bench.stopped == good
    bench.close()


def test_process_and_lock_are_gone_when_it_returns(broker: Broker) -> None:
    """PROTOCOL-1.16: not a moment before."""
    for _ in range(3):
        process = proven_holder(broker.folder)
        assert process is not None and process.pid == broker.pid
        assert broker.command("stop").returncode == 0
        assert has_ended(process) and lock_holder(broker.folder) is None
        assert broker.process is not None and broker.process.wait() == 0
        broker.start()


def test_a_lock_file_that_says_nonsense(
    broker: Broker, stranger: "subprocess.Popen[bytes]"
) -> None:
    """PROTOCOL-1.16: nobody needs its number to stop the broker; the kernel knows who it is."""
    for text in ("", "x\n", "-1 5\n", f"{stranger.pid} {start_of(stranger.pid)}\n", "9" * 63):
        (broker.folder / "broker.lock").write_text(text)
        assert proven_holder(broker.folder) == process_of(broker.pid)
    done = broker.command("stop")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"broker stopped (pid {broker.pid})\n"
    assert stranger.poll() is None
    assert broker.process is not None and broker.process.wait() == 0


# --- by a signal ----------------------------------------------------------------------------


def test_a_frozen_broker_is_signalled(broker: Broker) -> None:
    """PROTOCOL-1.16: it is proven, made to run again, and ends; no listener restarts it."""
    os.kill(broker.pid, signal.SIGSTOP)
    done = broker.command("stop")
    assert done.returncode == 0 and str(broker.pid) in done.stdout, done
    assert broker.process is not None and broker.process.wait() == 0
    assert paths.stop_mark(broker.folder).exists()


def test_a_frozen_broker_without_its_lock_file(broker: Broker) -> None:
    """PROTOCOL-1.20: the folder's lock tells: every verb says the same, and a way out is one."""
    os.kill(broker.pid, signal.SIGSTOP)
    (broker.folder / "broker.lock").unlink()
    assert lock_holder(broker.folder) == broker.pid
    for verb in ("status", "start", "run"):
        done = broker.command(verb)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done
        assert f"Process {broker.pid} is the broker and does not answer" in done.stderr
        assert f"kill -CONT {broker.pid}" in done.stderr and "hermes-busd restart" in done.stderr
    assert not (broker.folder / "broker.lock").exists()  # in nobody's name
    done = broker.command("stop")
    assert (done.returncode, done.stdout) == (0, f"broker stopped (pid {broker.pid})\n")
    assert broker.process is not None and broker.process.wait() == 0


def test_who_only_locks_the_folder_is_no_broker(bus_root: Path) -> None:
    """PROTOCOL-1.20: it is not signalled, and nothing is said to be stopped."""
    (folder := bus_root / "bus").mkdir()
    guard = lock_folder(folder)
    assert lock_holder(folder) == 0 and proven_holder(folder) is None
    os.close(guard)
    assert lock_holder(folder) is None


def test_one_that_nothing_names_is_waited_for(
    bus_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.16: its lock file is gone, and its process is not seen from here (macOS, too)."""
    monkeypatch.setattr(cli, "STOP_S", 0.05)
    monkeypatch.setattr(cli, "_ask_to_stop", lambda folder: 7)  # it has answered
    (folder := bus_root / "bus").mkdir()
    guard = lock_folder(folder)
    with pytest.raises(WakebusError, match="has not ended"):
        cli.stop(cli._parser().parse_args(["stop"]))
    os.close(guard)


@pytest.mark.parametrize("text", ["{pid} {start}", "{pid} 0.0", "{pid}", "{pid} 12.5", "x", ""])
def test_a_stranger_is_not_signalled(
    bus_root: Path,
    stranger: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    """PROTOCOL-1.16: not though the file names it: the lock is another's. It is said why."""
    monkeypatch.setattr(cli, "ASK_S", 0.05)
    folder = bus_root / "bus"
    folder.mkdir()
    lock = take_lock(folder)
    name = text.format(pid=stranger.pid, start=start_of(stranger.pid))
    (folder / "broker.lock").write_text(f"{name}\n")
    with pytest.raises(WakebusError, match="nothing was signalled") as caught:
        cli.stop(cli._parser().parse_args(["stop"]))
    assert "kill" not in caught.value.text and str(folder / "broker.lock") in caught.value.text
    assert stranger.poll() is None and not paths.stop_mark(folder).exists()
    os.close(lock)


def test_a_proof_needs_lock_and_start(tmp_path: Path) -> None:
    """PROTOCOL-1.16: each alone is none."""
    assert proven_holder(tmp_path) is None
    lock = take_lock(tmp_path)
    me = proven_holder(tmp_path)
    assert me is not None and me == (os.getpid(), start_of(os.getpid()))
    (tmp_path / "broker.lock").write_text(f"{me.pid} {me.start - 1}\n")
    assert proven_holder(tmp_path) is None
    (tmp_path / "broker.lock").write_text(f"{me.pid} {me.start}\n")
    assert proven_holder(tmp_path) == me
    os.close(lock)
    assert proven_holder(tmp_path) is None


def test_a_signal_to_a_later_process(stranger: "subprocess.Popen[bytes]") -> None:
    """PROTOCOL-1.16: its pid was used again: it gets none."""
    from wakebus.broker.system.processes import Process

    for start in (0.0, start_of(stranger.pid) - 60):
        assert not send_signal(Process(stranger.pid, start), signal.SIGKILL)
    assert not send_signal(Process(2**22 + 1, 5.0), signal.SIGKILL)
    assert stranger.poll() is None


# --- from elsewhere -------------------------------------------------------------------------


def unshared(*words: str) -> list[str]:
    """Return a command in namespaces of its own; skip where this system allows none."""
    command = ["unshare", "--kill-child", *words]
    if os.getuid() or not shutil.which("unshare"):
        pytest.skip("only root makes namespaces")
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("this system allows no namespaces")
    return command


PID_SPACE = ("--pid", "--fork", "--mount-proc")


def test_stop_from_another_pid_namespace(broker: Broker) -> None:
    """PROTOCOL-1.16: by the socket."""
    command = [*unshared(*PID_SPACE), *BUSD, "stop"]
    done = subprocess.run(command, env=broker.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert broker.process is not None and broker.process.wait(30) == 0


@pytest.mark.parametrize("space", [PID_SPACE, PID_SPACE[:2]])
def test_a_frozen_broker_of_another_pid_namespace(broker: Broker, space: tuple[str, ...]) -> None:
    """PROTOCOL-1.16: whoever has its number there is left alone, also with the old /proc."""
    (broker.folder / "broker.lock").write_text(f"1 {start_of(1)}\n")  # it is 1 where it runs
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        command = [*unshared(*space), *BUSD, "stop"]
        done = subprocess.run(command, env=broker.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "nothing was signalled" in done.stderr, done
        notify = [sys.executable, "-P", "-m", "wakebus.plugin.cli.main", "endpoints"]
        command = [*unshared(*space), *notify]
        done = subprocess.run(command, env=broker.env, capture_output=True, text=True, timeout=60)
        assert "kill" not in done.stdout + done.stderr
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert broker.alive


def test_on_a_read_only_file_system(broker: Broker, tmp_path: Path) -> None:
    """PROTOCOL-1.16: status, senders and stop need to write nothing; restart stops nothing."""
    (seen := tmp_path / "seen").mkdir()
    root = broker.root
    script = f"mount --bind {root} {seen} && mount -o remount,bind,ro {seen} && "
    env = {**broker.env, "HERMES_BUS_ROOT": str(seen), "HERMES_HOME": str(seen)}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        line = f"{script} ! touch {seen}/bus/x 2>/dev/null && exec {' '.join(words)}"
        command = [*unshared("--mount"), "sh", "-c", line]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    with Client() as client:
        client.declare("worker")
    busd = " ".join(BUSD)
    notify = f"{sys.executable} -P -c 'from wakebus.plugin.cli.notify import main; main()'"
    assert run(busd, "status").returncode == 0
    assert "queued" in run(notify, "--to", "worker", "hi").stdout
    assert run(busd, "start").returncode == 0
    done = run(busd, "restart")
    assert done.returncode == 1 and "nothing was stopped" in done.stderr and broker.alive
    done = run(busd, "stop")
    assert done.returncode == 0, done
    assert broker.process is not None and broker.process.wait(30) == 0
    done = run(busd, "start")
    assert done.returncode == 1 and "Read-only" in done.stderr and "Traceback" not in done.stderr


# --- closed standard streams ----------------------------------------------------------------

CLOSED = [
    " ".join(some)
    for count in (1, 2, 3)
    for some in itertools.combinations(("<&-", ">&-", "2>&-"), count)
]


@pytest.mark.parametrize("closed", CLOSED)
def test_start_without_standard_streams(bus_root: Path, closed: str) -> None:
    """PROTOCOL-1.17: it does not hang, and the broker's descriptors are what they should be."""
    bus = Broker(bus_root)
    line = f"{' '.join(BUSD)} start {closed}"
    done = subprocess.run(line, shell=True, env=bus.env, capture_output=True, timeout=60)
    try:
        assert done.returncode == 0, done
        assert bus.command("status").returncode == 0
    finally:
        assert bus.command("stop").returncode == 0


@pytest.mark.parametrize("closed", CLOSED)
def test_run_without_standard_streams(bus_root: Path, closed: str) -> None:
    """PROTOCOL-1.17: in the foreground, too: nothing that it opens is 0, 1 or 2."""
    bus = Broker(bus_root)
    line = f"exec {' '.join(BUSD)} run {closed}"
    run = subprocess.Popen(
        line, shell=True, env=bus.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: lock_holder(bus.folder) == run.pid and bus.command("status").returncode == 0)
        if Path("/proc/self/fd").exists():
            files = [os.readlink(f"/proc/{run.pid}/fd/{number}") for number in range(3)]  # noqa: PTH115
            assert all(file.startswith(("/dev/", "pipe:")) for file in files), files
    finally:
        assert bus.command("stop").returncode == 0
    assert run.wait(30) == 0
