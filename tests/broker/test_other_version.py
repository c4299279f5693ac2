"""What is said of a broker of another version than the command's."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fakes.desk import Desk
from wakebus.broker import other_version
from wakebus.broker.other_version import version_note


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ("0.1.0", ""),
        ("0.0.9", "is wakebus 0.0.9, older than this one (0.1.0); replace it: hermes-busd restart"),
        ("0.10", "is wakebus 0.10, newer than this one (0.1.0): install 0.10 here too"),
        ("0.1.0rc1", "is wakebus 0.1.0rc1, this one (0.1.0); replace it: hermes-busd restart"),
        (None, "tells no version, so it is older than this wakebus; replace it: hermes-busd"),
        ("", "is wakebus , older than this one"),
    ],
)
def test_older_newer_and_without_a_version(
    theirs: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL-1.21: one line, with the step that helps; nothing where it is the same."""
    monkeypatch.setattr(other_version, "__version__", "0.1.0")
    note = version_note({"pid": 7, "version": theirs} if theirs is not None else {"pid": 7})
    assert said in note and "\n" not in note
    assert bool(note) == bool(said) and note.startswith("note: the broker (pid 7) "[: len(note)])


# A broker of another release, as far as its address file and its answers tell.
OLD = "import wakebus.broker; wakebus.broker.__version__ = '0.0.1'"
MUTE = """\
from wakebus.broker.server import process
address = process._address
process._address = lambda *a: {k: v for k, v in address(*a).items() if k != 'version'}"""
MAIN = "from wakebus.broker.server.cli import main; raise SystemExit(main())"


def run_other(desk: Desk, change: str) -> "subprocess.Popen[bytes]":
    """Run a broker that was changed; return once it takes connections."""
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", f"{change}\n{MAIN}", "run", "--ready-fd", str(child_end)],
        env=desk.env,
        pass_fds=[child_end],
    )
    os.close(child_end)
    with os.fdopen(ready, "rb") as pipe:
        assert pipe.read() == b"ready"
    return process


@pytest.fixture(scope="module")
def old() -> Iterator[Desk]:
    """A desk whose broker is older than its commands."""
    desk = Desk()
    process = run_other(desk, OLD)
    desk.declare("worker")
    yield desk
    process.kill()
    process.wait()
    desk.close()


COMMANDS = (
    ("notify-hermes --to worker --queue hi", 0),
    ("notify-hermes --to nobody hi", 3),
    ("wakebus send console:team hi --wait 1", 1),
    ("wakebus ask worker --queue --wait 0.1 hi", 4),
    ("wakebus endpoints --json", 0),
    ("wakebus inbox worker --json", 0),
    ("wakebus dead list", 0),
    ("wakebus rules check", 0),
    ("hermes-busd status --json", 0),
    ("hermes-busd start", 0),
    ("wakebus broker status", 0),
    ("wakebus status", 0),
    ("wakebus version", 0),
    ("wakebus logs", 0),
)


@pytest.mark.parametrize(("line", "status"), COMMANDS)
def test_every_command_names_an_older_broker(old: Desk, line: str, status: int) -> None:
    """PROTOCOL-1.21: one line on standard error; output and exit status are as without it."""
    done = old.run(*line.split())
    note = f"note: the broker (pid {old.broker_pid}) is wakebus 0.0.1, older than this one "
    assert done.err.count(note) == 1 and done.err.startswith(note), done
    assert "hermes-busd restart" in done.err and note not in done.out
    assert done.status == status
    if "--json" in line:
        assert json.loads(done.out)


def test_the_step_that_is_named_helps() -> None:
    """PROTOCOL-1.21: after `hermes-busd restart` nothing is said any more."""
    desk = Desk()
    process = run_other(desk, OLD)
    assert desk.run("hermes-busd", "restart").status == 0
    assert process.wait(30) == 0
    assert "note:" not in desk.wakebus("endpoints").err
    desk.close()


def test_a_broker_that_tells_no_version(own_desk: Desk) -> None:
    """PROTOCOL-1.21: it is older; the message is sent."""
    process = run_other(own_desk, MUTE)
    done = own_desk.notify("--to", "worker", "--queue", "hi")
    assert done.status == 0 and "tells no version, so it is older" in done.err
    process.kill()
    process.wait()


def test_what_a_killed_broker_left_is_no_broker(own_desk: Desk) -> None:
    """PROTOCOL-1.21: its address file names a version, but nobody runs."""
    process = run_other(own_desk, OLD)
    process.kill()
    process.wait()
    assert own_desk.address["version"] == "0.0.1"
    done = own_desk.wakebus("endpoints")
    assert done.status == 1 and "0.0.1" not in done.both
