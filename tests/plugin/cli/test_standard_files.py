"""Commands that are started without standard input, output and error."""

import itertools
import os
import signal
import subprocess

import pytest

from fakes.desk import Desk

CLOSED = [
    " ".join(some)
    for count in (1, 2, 3)
    for some in itertools.combinations(("<&-", ">&-", "2>&-"), count)
]


def shell(desk: Desk, line: str) -> "subprocess.Popen[bytes]":
    """Begin a command line whose streams, where they are not closed, are pipes."""
    return subprocess.Popen(
        ["/bin/sh", "-c", line],
        env=desk.env,
        cwd=desk.root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("closed", CLOSED)
def test_senders(desk: Desk, name: str, closed: str) -> None:
    """PROTOCOL-1.17: they send, and hang nowhere; the status says what became of it."""
    desk.declare(name)
    for line, status in (
        (f"notify-hermes --to {name} hi", 0),
        ("notify-hermes --to nobody-here hi", 3),
        ("notify-agent no-such-session hi", 1),
        ("wakebus send console:closed hi --dry-run", 0),
    ):
        run = shell(desk, f"exec {line} {closed}")
        said = b"".join(run.communicate(timeout=60))
        assert run.returncode == status and b"Traceback" not in said, (line, run.returncode, said)


@pytest.mark.parametrize("closed", CLOSED)
def test_a_listener(desk: Desk, name: str, closed: str) -> None:
    """PROTOCOL-1.17: nothing that it opens is 0, 1 or 2, and it receives."""
    listener = shell(desk, f"exec wakebus listen {name} {closed}")
    sent = desk.notify("--to", name, "--from", "ci", "--queue", "--wait", "30", "x")
    assert sent.status == 0, sent
    if os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        files = [os.readlink(f"/proc/{listener.pid}/fd/{number}") for number in range(3)]  # noqa: PTH115
        assert all(file.startswith(("/dev/null", "pipe:")) for file in files), files
    listener.send_signal(signal.SIGTERM)
    _, err = listener.communicate(timeout=30)
    assert b"Traceback" not in err and b"Exception" not in err, err
