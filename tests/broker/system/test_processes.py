"""Processes, told apart and found to be gone."""

import os
import subprocess
import sys

import psutil
import pytest

from fakes.broker import until
from wakebus.broker.system import processes
from wakebus.broker.system.processes import Process, has_ended, send_signal, start_of


@pytest.fixture
def child() -> "subprocess.Popen[bytes]":
    """A process that ends with its input."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_living_process_is_not_gone() -> None:
    """With its start and without."""
    assert not has_ended(Process(os.getpid(), start_of(os.getpid())))
    assert not has_ended(Process(os.getpid()))


def test_an_ended_process_is_gone(child: "subprocess.Popen[bytes]") -> None:
    """PROTOCOL-5.6: first as a zombie, then without a trace."""
    process = Process(child.pid, start_of(child.pid))
    assert not has_ended(process)
    child.kill()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert has_ended(process)
    child.communicate()
    assert has_ended(process) and start_of(child.pid) == 0.0


def test_another_process_with_the_same_pid(child: "subprocess.Popen[bytes]") -> None:
    """PROTOCOL-5.6: a pid that was used again is another process."""
    assert has_ended(Process(child.pid, start_of(child.pid) - 60))
    child.communicate()


@pytest.mark.parametrize("pid", [0, -1])
def test_an_unknown_process_is_never_gone(pid: int) -> None:
    """Another pid namespace: only silence tells."""
    assert not has_ended(Process(pid)) and start_of(pid) == 0.0


@pytest.mark.parametrize("proc", ["none", "another's"])
def test_without_a_proc_that_tells(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch, proc: str
) -> None:
    """PROTOCOL-1.19: who is there, the kernel says; what cannot be told counts as running."""
    process = Process(child.pid, start_of(child.pid))

    def readlink(path: str) -> str:
        if proc == "none":
            raise FileNotFoundError(path)
        return "1"

    monkeypatch.setattr(os, "readlink", readlink)
    if processes.ON_LINUX:
        assert start_of(child.pid) == 0.0
        assert not send_signal(process, 9)
    assert not has_ended(process)
    child.communicate()
    assert has_ended(process)


def test_a_start_does_not_move_with_the_wall_clock() -> None:
    """On Linux it counts from the boot: less than the uptime."""
    if sys.platform != "linux":
        pytest.skip("only /proc tells")
    with open("/proc/uptime") as file:  # noqa: PTH123
        assert 0 < start_of(os.getpid()) <= float(file.read().split()[0]) + 1
