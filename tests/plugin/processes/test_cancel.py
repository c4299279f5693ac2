"""Ending from another thread."""

import os
import selectors
import subprocess
import sys
import threading
from pathlib import Path

from fakes.broker import until
from fakes.desk import running
from wakebus.plugin.processes.cancel import Cancel, Running, Waker


def _readable(waker: Waker, seconds: float = 0.0) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(waker.fd, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def test_cancel_wakes_all_that_wait() -> None:
    """From another thread, every one of them; who was removed is left alone."""
    cancel = Cancel()
    wakers = [Waker() for _ in range(3)]
    for waker in wakers:
        cancel.add(waker)
    cancel.remove(wakers[2])
    thread = threading.Thread(target=cancel.cancel)
    thread.start()
    assert all(_readable(waker, 5) for waker in wakers[:2])
    thread.join()
    assert cancel.asked and not _readable(wakers[2])
    for waker in wakers:
        waker.close()


def test_a_waker_never_blocks_and_takes_late_wakes() -> None:
    """A full pipe is awake enough; a closed one does nothing."""
    waker = Waker()
    for _ in range(100_000):
        waker.wake()
    assert len(os.read(waker.fd, 1 << 20)) > 0
    waker.close()
    waker.wake()


PROGRAM = """\
import os, sys, threading, time
from pathlib import Path
from wakebus.plugin.processes.run import _running, end_all, run_process
file = Path(sys.argv[1])
script = f"trap '' TERM; echo $$ > {file}.new; mv {file}.new {file}; sleep 300; sleep 300"
call = lambda: run_process(["/bin/sh", "-c", script], env=dict(os.environb), timeout=300)
threading.Thread(target=call, daemon=True).start()
# A child may write its file before our own thread has taken note of it.
while not file.exists() or not _running._groups:
    time.sleep(0.01)
end_all(0.1)
print(file.read_text().strip(), call().cancelled)
"""


def test_the_end_of_a_program_leaves_no_run_behind(tmp_path: Path) -> None:
    """A daemon thread would die without ending its child; none starts afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "pid")],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    pid, cancelled = done.stdout.split()
    assert cancelled == "True"
    until(lambda: not running(int(pid)))


def test_a_run_that_starts_while_the_program_ends() -> None:
    """Between the look whether one may start and its start: it is killed at once."""
    runs = Running()
    runs.end_all(0)
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with runs.noted(child.pid):
        assert child.wait(30) == -9
