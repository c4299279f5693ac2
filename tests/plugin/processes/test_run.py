"""Child processes, real ones."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.run import CannotSpawn, Finished, run_process

ENV = {b"PATH": os.environb[b"PATH"]}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Rule 4: no thread, zombie or file descriptor is left by any test here."""
    run_process(
        ["/bin/sh", "-c", ":"], env=ENV, timeout=20
    )  # the watcher of orphan_guard.py stays, one for all
    me = psutil.Process()
    before, children = len(os.listdir("/dev/fd")), set(me.children())  # noqa: PTH208
    yield
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
    assert not [t for t in threading.enumerate() if t.name == "wakebus-wait"]
    # A broker that other tests share may be a child of this process too.
    assert not set(me.children()) - children


def sh(script: str, *, timeout: float = 20.0, **more: Any) -> Finished:
    return run_process(["/bin/sh", "-c", script], env=ENV, timeout=timeout, **more)


def _wait_for(path: Path) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return text.strip()
        time.sleep(0.005)
    raise AssertionError(f"{path} was never written")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return not sys.platform.startswith("linux")


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while _alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def test_output_status_and_input() -> None:
    """stdout and stderr apart, the exit status, the input to its end."""
    done = sh("cat; echo err >&2; exit 3", stdin=b"in")
    assert (done.stdout, done.stderr, done.status, done.signal) == (b"in", b"err\n", 3, "")
    assert not done.ok and not done.timed_out and not done.cancelled
    assert sh("true").ok


def test_merged_output_is_in_order_and_a_tail() -> None:
    """What a command printed last explains how it ended."""
    done = sh("echo a; echo b >&2; echo c", merged=True)
    assert (done.stdout, done.stderr, done.stderr_cut) == (b"", b"a\nb\nc\n", False)
    done = sh("head -c 100000 /dev/zero; echo end", merged=True, stderr_limit=10)
    assert (done.stderr, done.stderr_cut) == (b"\0" * 6 + b"end\n", True)


def test_stdout_keeps_its_head() -> None:
    """A flood is read to its end and cut; the child does not block."""
    done = sh("echo head; head -c 3000000 /dev/zero; echo done >&2", stdout_limit=6)
    assert (done.stdout, done.stdout_cut, done.stderr, done.ok) == (
        b"head\n\0",
        True,
        b"done\n",
        True,
    )


def test_a_large_input_and_output_at_once_do_not_block() -> None:
    """The classic deadlock of two full pipes."""
    data = b"x" * 3_000_000
    done = sh("cat", stdin=data, stdout_limit=len(data))
    assert done.stdout == data and done.ok


def test_a_child_that_does_not_read_its_input() -> None:
    """That is its right: no error, no wait."""
    assert sh("exit 0", stdin=b"x" * 3_000_000).ok
    assert sh("exec <&-; sleep 0.05; exit 0", stdin=b"x" * 3_000_000).ok


def test_a_signal_is_named() -> None:
    """`status` None, `signal` the name."""
    done = sh("kill -SEGV $$")
    assert (done.status, done.signal) == (None, "SIGSEGV")


def test_a_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    """TERM first: the child may say goodbye; its children end too."""
    pid = tmp_path / "pid"
    done = sh(f"trap 'echo bye; exit 0' TERM; sleep 60 & echo $! > {pid}; wait", timeout=0.3)
    assert done.timed_out and done.stdout == b"bye\n" and not done.ok
    _wait_gone(int(pid.read_text()))


def test_who_ignores_term_is_killed() -> None:
    """After 2 s."""
    done = sh("trap '' TERM; while :; do sleep 0.1; done", timeout=0.2)
    assert (done.signal, done.timed_out) == ("SIGKILL", True)
    assert 2.0 < done.seconds < 6


def test_cancel_from_another_thread() -> None:
    """The run returns soon, and says that it was cancelled; a later one does not start."""
    cancel = Cancel()
    timer = threading.Timer(0.2, cancel.cancel)
    timer.start()
    done = sh("sleep 60", cancel=cancel)
    timer.join()
    assert done.cancelled and not done.timed_out and done.seconds < 5
    assert cancel.asked and sh("echo never", cancel=cancel).stdout == b""


@pytest.mark.parametrize("end_group", [True, False])
def test_what_is_left_in_the_group(tmp_path: Path, end_group: bool) -> None:
    """It holds the pipes and does not hold us; `end_group` ends it, else it lives on."""
    pid_file = tmp_path / "pid"
    done = sh(f"sleep 60 & echo $! > {pid_file}; echo out", end_group=end_group)
    pid = int(pid_file.read_text())
    assert done.ok and done.stdout == b"out\n" and done.seconds < 3
    if end_group:
        _wait_gone(pid)
    else:
        assert _alive(pid)
        os.kill(pid, signal.SIGKILL)
        _wait_gone(pid)


def test_a_daemon_with_its_own_session_is_left_alone(tmp_path: Path) -> None:
    """Even with `end_group`: it left the group on purpose."""
    pid_file = tmp_path / "pid"
    daemon = (
        "import os, signal\n"
        "ready, tell = os.pipe()\n"
        "if os.fork(): os.read(ready, 1); os._exit(0)\n"
        "os.setsid()\n"
        f"open({str(pid_file)!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "os.write(tell, b'x')\n"
        "signal.pause()\n"
    )
    done = run_process([sys.executable, "-c", daemon], env=ENV, timeout=20, end_group=True)
    assert done.ok and done.seconds < 5
    pid = int(_wait_for(pid_file))
    assert _alive(pid)
    os.kill(pid, signal.SIGKILL)
    _wait_gone(pid)


def test_a_child_that_floods_after_its_parent_is_gone() -> None:
    """Reading stops a moment after the exit."""
    assert sh("yes & exit 0", end_group=True, stdout_limit=10).seconds < 3


def test_it_has_no_terminal_and_its_own_group() -> None:
    """It cannot be stopped by the terminal, nor take ours with it."""
    script = "import os; print(os.getpgrp() == os.getpid() == os.getsid(0))"
    assert run_process([sys.executable, "-c", script], env=ENV, timeout=20).stdout == b"True\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["/no/such/program"], "No such file"),
        ([__file__], "Permission denied"),
        (["a\0b"], "null"),
        (["/bin/true", "x" * 200_000], "too long"),
    ],
)
def test_what_cannot_start_says_why(argv: list[str], says: str) -> None:
    """One error class."""
    with pytest.raises(CannotSpawn, match=says):
        run_process(argv, env=ENV, timeout=5)


def test_the_environment_is_exactly_what_is_given() -> None:
    """Nothing is inherited."""
    done = run_process(["/usr/bin/env"], env={b"A": b"\xff"}, timeout=5)
    assert done.stdout == b"A=\xff\n"


def test_a_working_folder(tmp_path: Path) -> None:
    """`cwd`, or a clear error."""
    assert sh("pwd -P", cwd=tmp_path).stdout.decode().strip() == str(tmp_path.resolve())
    with pytest.raises(CannotSpawn):
        sh("pwd", cwd=tmp_path / "no")
