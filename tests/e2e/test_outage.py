"""A bus that is not there, not awake or not whole: what the commands say, within seconds."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakes.desk import Desk
from fakes.silent_broker import SilentBroker

MakeSilentBroker = Callable[..., SilentBroker]
SEND = ("notify-hermes", "--to", "lead", "--from", "ci", "hi")
# Longer than any of these may take by design, so that a hang fails and a slow machine does not.
SECONDS = 30.0
EVERY: dict[str, tuple[str, ...]] = {
    "notify-hermes": SEND,
    "ask": ("wakebus", "ask", "lead", "--from", "ci", "hi"),
    "send": ("wakebus", "send", "console:demo", "--from", "ci", "hi"),
    "trace": ("wakebus", "trace", "some-id"),
    "endpoints": ("wakebus", "endpoints"),
    "endpoints add": ("wakebus", "endpoints", "add", "lead"),
}


@pytest.fixture
def make_silent(own_desk: Desk) -> Iterator[MakeSilentBroker]:
    """Return a maker of a stand-in that `own_desk` takes for its broker."""
    made: list[SilentBroker] = []

    def make(error: dict[str, Any] | None = None) -> SilentBroker:
        folder = own_desk.root / "bus"
        folder.mkdir()
        made.append(SilentBroker(folder / "broker.sock", error))
        address = {"router": made[-1].address, "pid": os.getpid()}
        (folder / "address.json").write_text(json.dumps(address))
        return made[-1]

    yield make
    for silent in made:
        silent.close()


@pytest.mark.parametrize("verb", EVERY)
def test_no_bus_has_started(own_desk: Desk, verb: str) -> None:
    """Exit 1 and how to start one; nobody starts it unasked."""
    done = own_desk.run(*EVERY[verb], timeout=SECONDS)
    assert (done.status, done.out) == (1, "")
    assert "no broker runs here" in done.err and "hermes-busd start" in done.err
    assert own_desk.left() == []


@pytest.mark.parametrize("verb", EVERY)
def test_an_address_that_a_cut_of_power_emptied(own_desk: Desk, verb: str) -> None:
    """PROTOCOL-1.14: the words of a bus that has not started, and the same next step."""
    (own_desk.root / "bus").mkdir(0o700)
    (own_desk.root / "bus" / "address.json").touch(0o600)
    done = own_desk.run(*EVERY[verb], timeout=SECONDS)
    assert (done.status, done.out) == (1, "")
    assert "no broker runs here" in done.err and "hermes-busd start" in done.err


def test_an_address_without_a_bus(own_desk: Desk) -> None:
    """SIGKILL leaves address.json behind: exit 1, one JSON object with --json, nothing sent."""
    own_desk.start()
    own_desk.kill_broker()
    assert (own_desk.root / "bus" / "address.json").exists()
    done = own_desk.run(*SEND, "--json", timeout=SECONDS)
    assert done.status == 1 and done.json["error"]["code"] == "not_running"
    assert "nothing was sent" in done.err and "hermes-busd start" in done.err
    for text in ("{", "[]", '{"router": 1}', '{"router": "nonsense"}'):
        (own_desk.root / "bus" / "address.json").write_text(text)
        done = own_desk.run(*SEND, timeout=SECONDS)
        assert done.status == 1 and "Traceback" not in done.err, done


def test_a_frozen_broker(own_desk: Desk) -> None:
    """SIGSTOP: exit 1, which process it is and how to go on; afterwards all is as before."""
    pid = own_desk.start()
    own_desk.wakebus("endpoints", "add", "lead")
    os.kill(pid, signal.SIGSTOP)
    try:
        done = own_desk.run(*SEND, timeout=SECONDS)
        assert done.status == 1 and "nothing was sent" in done.err
        assert f"kill -CONT {pid}" in done.err
    finally:
        os.kill(pid, signal.SIGCONT)
    assert own_desk.run(*SEND, timeout=SECONDS).status == 0


def test_no_receipt_is_unknown_and_the_resend_settles_it(
    own_desk: Desk, make_silent: MakeSilentBroker
) -> None:
    """Exit 5 names the id; the same command with --id is stored once, however often it is run."""
    silent = make_silent()
    done = own_desk.run(*SEND, "--json", timeout=SECONDS)
    assert done.status == 5 and done.json["error"]["code"] == "unknown"
    id = silent.heard[-1].payload["message"]["id"]
    assert f"--id {id}" in done.err and "it may have stored" in done.err
    assert done.json["error"]["id"] == id
    silent.close()
    own_desk.start()
    own_desk.wakebus("endpoints", "add", "lead")
    first = own_desk.run(*SEND, "--json", "--id", id)
    second = own_desk.run(*SEND, "--json", "--id", id)
    assert (first.status, first.json["id"], first.json["duplicate"]) == (0, id, False)
    assert (second.status, second.json["duplicate"]) == (0, True)


def test_a_question_without_an_answer(own_desk: Desk, make_silent: MakeSilentBroker) -> None:
    """Exit 1, not 4: no message is late; and no advice about a message."""
    make_silent()
    done = own_desk.run(*EVERY["trace"], "--json", timeout=SECONDS)
    assert done.status == 1 and done.json["error"]["code"] == "timeout"
    assert "did not answer" in done.err and "ID" not in done.err and "None" not in done.err


def test_a_broker_that_says_what_it_should_not(
    own_desk: Desk, make_silent: MakeSilentBroker
) -> None:
    """Its words are cleaned for the terminal; an unknown code is a failure like any other."""
    make_silent({"code": "brand_new", "text": "no\x1b[2J\x1b]0;evil\x07 way\x9b1m", "retry": False})
    done = own_desk.run(*SEND, timeout=SECONDS)
    assert done.status == 1 and done.err == "notify-hermes: no way\n"
    done = own_desk.run(*SEND, "--json", timeout=SECONDS)
    assert "\x1b" not in done.both and done.json["error"]["text"].startswith("no\x1b")


def test_the_broker_dies_while_somebody_waits(own_desk: Desk) -> None:
    """A wait outlives the broker: the listener starts it again, the answer comes all the same."""
    own_desk.start()
    agent = own_desk.script("agent.sh", "cat >/dev/null; echo begun >> began; sleep 2; echo done")
    listener = own_desk.listen("slow", "--agent", agent)
    began = own_desk.root / "began"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "ask = subprocess.Popen(['wakebus', 'ask', 'slow', '--from', 'ci', 'go'])\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "os.kill(int(sys.argv[2]), signal.SIGKILL)\n"
        "sys.exit(ask.wait())\n"
    )
    done = own_desk.run("python", "-c", code, str(began), str(own_desk.broker_pid), timeout=60)
    assert (done.status, done.out) == (0, "done\n"), (done, listener.err)
    assert began.read_text() == "begun\n"
    assert listener.end() == 0
