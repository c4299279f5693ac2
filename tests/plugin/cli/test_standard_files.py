"""Commands that are started without standard input, output and error, or that nobody reads."""

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


SHOWN = [
    "wakebus",
    "wakebus --version",
    "wakebus endpoints",
    "wakebus endpoints --json",
    "wakebus dead list",
    "wakebus inbox {name}",
    "wakebus resume",
    "wakebus channels",
    "wakebus settings list",
    "wakebus rules check",
    "wakebus broker status",
    "wakebus broker status --json",
    "notify-hermes --to {name} hi",
    "notify-hermes --to nobody-here hi",
    "hermes-busd status",
    "hermes-busd start",
    "notify-hermes --help",
    "notify-agent --help",
    "hermes-busd --help",
    "wakebus dead list --help",
]


@pytest.mark.parametrize("line", SHOWN)
def test_nobody_reads(desk: Desk, name: str, line: str) -> None:
    """PROTOCOL-1.17: `… | head`: the status is the same, and there is no word about a pipe."""
    desk.declare(name)
    words = line.format(name=name).split()
    read = desk.run(*words)
    for unbuffered in ("", "1"):
        reader, writer = os.pipe()
        os.close(reader)
        env = {**desk.env, "PYTHONUNBUFFERED": unbuffered}
        run = subprocess.Popen(
            words, env=env, cwd=desk.root, stdout=writer, stderr=subprocess.PIPE, text=True
        )
        os.close(writer)
        assert (run.communicate(timeout=60)[1], run.returncode) == (read.err, read.status)


@pytest.mark.parametrize("command", ["wakebus", "notify-hermes", "notify-agent", "hermes-busd"])
def test_help_where_a_character_is_missing(desk: Desk, command: str) -> None:
    """PROTOCOL-1.17: it is shown as `?`."""
    done = desk.run(command, "--help", env={"PYTHONIOENCODING": "ascii"})
    assert done.status == 0 and done.out.startswith("usage:") and not done.err
