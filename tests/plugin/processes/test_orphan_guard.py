"""Children end with their program: real programs, really killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from fakes.broker import until
from fakes.desk import running
from wakebus.plugin.processes.orphan_guard import OrphanGuard

# A program with two children by run_process; `pid` files name them.
HOST = """
import os, signal, sys, threading, time
from wakebus.plugin.processes.orphan_guard import _guard
from wakebus.plugin.processes.run import end_all, run_process
folder = sys.argv[1]
env = {b"PATH": os.environb[b"PATH"]}
def run(name, script):
    line = f"echo $$ > {folder}/{name}.new; mv {folder}/{name}.new {folder}/{name}; {script}"
    run_process(["/bin/sh", "-c", line], env=env, timeout=60)
run("left", "sleep 60 >/dev/null 2>&1 & echo $! > " + folder + "/background")
threads = [
    threading.Thread(target=run, args=args, daemon=True)
    for args in (("meek", "sleep 60"), ("deaf", "trap '' TERM INT; sleep 60; sleep 60"))
]
for thread in threads:
    thread.start()
while not all(os.path.exists(f"{folder}/{name}") for name in ("meek", "deaf")):
    time.sleep(0.01)
"""
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a starter of programs that go on with some lines of their own."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(then: str) -> "subprocess.Popen[bytes]":
        source = f"{HOST}\n{then}\nprint(_guard.pid, flush=True)\nsignal.pause()"
        command = [sys.executable, "-c", source, str(tmp_path)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield begin
    for host in started:
        host.kill()
        host.communicate()
    os.kill(number(tmp_path, "background"), signal.SIGKILL)


def number(folder: Path, name: str) -> int:
    return int((folder / name).read_text())


def watcher_of(host: "subprocess.Popen[bytes]") -> int:
    assert host.stdout is not None
    return int(host.stdout.readline())


@pytest.mark.parametrize(
    "then",
    [
        "",
        "os.kill(_guard.pid, 9); run('again', ':')",  # it is started anew, and knows both
        "os.kill(_guard.pid, 19)\nfor n in range(70000): _guard._say('- 0\\n')",
    ],
    ids=["killed", "its watcher killed", "its watcher frozen"],
)
def test_sigkill_leaves_nothing_running(start: Start, tmp_path: Path, then: str) -> None:
    """Also what heeds no SIGTERM; what a finished child left behind is not touched."""
    host = start(then)
    watcher = watcher_of(host)
    children = [number(tmp_path, name) for name in ("meek", "deaf")]
    assert all(map(running, children))
    host.kill()
    until(lambda: not any(map(running, [*children, watcher])), 30)
    assert running(number(tmp_path, "background"))


def test_ctrl_c_in_a_terminal_does_not_end_the_watcher_first(start: Start, tmp_path: Path) -> None:
    """The signal goes to the whole group of the program."""
    host = start("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    watcher = watcher_of(host)
    os.killpg(host.pid, signal.SIGINT)
    os.kill(watcher, signal.SIGTERM)
    assert running(host.pid) and running(watcher)
    host.kill()
    until(lambda: not running(number(tmp_path, "deaf")) and not running(watcher), 30)


def test_the_watcher_ends_with_its_program(start: Start) -> None:
    """A normal end: nothing stays, and it is quick where nothing is left to end."""
    host = start("end_all(5); print(_guard.pid, flush=True); sys.exit(0)")
    watcher = watcher_of(host)
    assert host.wait(30) == 0
    until(lambda: not running(watcher), 30)


def test_one_watcher_that_holds_nothing_of_ours() -> None:
    """Started with the first child; no descriptor, thread or zombie is left when it is closed."""
    me, guard = psutil.Process(), OrphanGuard()
    before = me.num_fds(), threading.active_count(), len(me.children())
    assert guard.pid == 0
    with guard.watched(2**22 + 1):
        first = guard.pid
        assert psutil.Process(first).cwd() == "/"
        with guard.watched(2**22 + 2):
            assert guard.pid == first
    with guard.watched(2**22 + 3):
        assert guard.pid == first
    guard.close()
    assert guard.pid == 0 and not psutil.pid_exists(first)
    assert (me.num_fds(), threading.active_count(), len(me.children())) == before
    guard.close()


def test_no_descriptor_for_a_watcher_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child runs unguarded; the next one tries again."""

    def none_left() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    guard = OrphanGuard()
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", none_left)
        with guard.watched(2**22 + 1):
            assert guard.pid == 0
    with guard.watched(2**22 + 1):
        assert guard.pid
    guard.close()
