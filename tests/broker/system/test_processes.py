"""Who holds a name: processes, told apart and found to be gone."""

import os
import subprocess
import sys

import psutil
import pytest

from fakes.broker import until
from wakebus.broker.errors import NameTaken
from wakebus.broker.system.processes import Holder, Process, check_claim, gone, start_of


@pytest.fixture
def child() -> "subprocess.Popen[bytes]":
    """A process that ends with its input."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_living_process_is_not_gone() -> None:
    """With its start and without."""
    assert not gone(Process(os.getpid(), start_of(os.getpid())))
    assert not gone(Process(os.getpid()))


def test_an_ended_process_is_gone(child: "subprocess.Popen[bytes]") -> None:
    """PROTOCOL-5.6: first as a zombie, then without a trace."""
    process = Process(child.pid, start_of(child.pid))
    assert not gone(process)
    child.kill()
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert gone(process)
    child.communicate()
    assert gone(process) and start_of(child.pid) == 0.0


def test_another_process_with_the_same_pid(child: "subprocess.Popen[bytes]") -> None:
    """PROTOCOL-5.6: a pid that was used again is another process."""
    assert gone(Process(child.pid, start_of(child.pid) - 60))
    child.communicate()


@pytest.mark.parametrize("pid", [0, -1])
def test_an_unknown_process_is_never_gone(pid: int) -> None:
    """Another pid namespace: only silence tells."""
    assert not gone(Process(pid)) and start_of(pid) == 0.0


def test_a_start_does_not_move_with_the_wall_clock() -> None:
    """On Linux it counts from the boot: less than the uptime."""
    if sys.platform != "linux":
        pytest.skip("only /proc tells")
    with open("/proc/uptime") as file:  # noqa: PTH123
        assert 0 < start_of(os.getpid()) <= float(file.read().split()[0]) + 1


def test_silence_is_counted_from_the_last_beat() -> None:
    """PROTOCOL-5.7: exactly `stale_s` is not yet silent."""
    holder = Holder("a", Process(1), 1, b"c")
    holder.beat = 100.0
    assert not holder.silent(110.0, 10.0) and holder.silent(110.1, 10.0)


def test_who_may_have_a_name() -> None:
    """PROTOCOL-5.4, PROTOCOL-5.5: the same instance, a free name, a takeover; nobody else."""
    holder = Holder("a", Process(77), 3, b"c")
    check_claim("e", holder, "a", takeover=False, free=False)
    check_claim("e", holder, "b", takeover=True, free=False)
    check_claim("e", holder, "b", takeover=False, free=True)
    with pytest.raises(NameTaken, match="77") as caught:
        check_claim("e", holder, "b", takeover=False, free=False)
    assert caught.value.data == {"pid": 77, "epoch": 3}
