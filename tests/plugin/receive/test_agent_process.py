"""Agents of the command line, real ones."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from fakes.broker import until
from wakebus.broker.protocol.message import Message
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.receive import agent_process
from wakebus.plugin.receive.agent_process import MAX_ANSWER
from wakebus.plugin.receive.host import TurnResult

MESSAGE = Message(
    id="m1",
    ts=1.0,
    sender="alpha",
    to="lead",
    body={"type": "directive", "channel": "feishu:群"},
    session="s1",
)


def run(command: str, prompt: str = "hello", timeout: float = 30, **environ: str) -> TurnResult:
    return agent_process.run_agent(
        *(command, prompt, MESSAGE, "lead", "t0ken"),
        timeout=timeout,
        cancel=Cancel(),
        environ={**os.environ, **environ},
    )


def test_the_prompt_goes_in_and_the_answer_comes_out() -> None:
    """Whole, whatever characters it has; times and size are told."""
    text = "one\ntwo ✓ $(date) `x` '\"\\"
    turn = run("cat", text)
    assert turn.answer == text
    assert turn.outcome["exit"] == 0 and turn.outcome["characters"] == len(text)
    assert turn.outcome["started"] <= turn.outcome["ended"]
    assert turn.began and turn.well and not turn.cut_off


def test_it_knows_its_message_and_keeps_its_environment() -> None:
    """Design 6: WAKEBUS_ENDPOINT, _ID, _TYPE, _FROM, _CHANNEL, _SESSION, _TOKEN; its own keys."""
    found = dict(
        line.split("=", 1)
        for line in run("env", ANTHROPIC_API_KEY="k", WAKEBUS_TOKEN="old").answer.splitlines()
        if line.startswith(("WAKEBUS_", "ANTHROPIC"))
    )
    assert found == {
        "WAKEBUS_ENDPOINT": "lead",
        "WAKEBUS_ID": "m1",
        "WAKEBUS_TYPE": "directive",
        "WAKEBUS_FROM": "alpha",
        "WAKEBUS_CHANNEL": "feishu:群",
        "WAKEBUS_SESSION": "s1",
        "WAKEBUS_TOKEN": "t0ken",
        "ANTHROPIC_API_KEY": "k",
    }


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo so far; echo why >&2; exit 3", "exit 3"),
        ("no-such-agent-here", "exit 127"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("true", "no output"),
        ("printf ' \\n\\t\\n'", "no output"),
        ("printf '\\033[2J\\033]0;x\\007'", "no output"),
    ],
)
def test_what_is_no_answer_is_an_outcome(command: str, error: str) -> None:
    """Non-zero exit, a signal, nothing said: told, with the end of what was printed."""
    turn = run(command)
    assert turn.answer == "" and turn.outcome["error"] == error
    assert turn.began is not error.endswith("127") and turn.well is (error == "no output")
    assert turn.mute is turn.well
    assert json.dumps(turn.outcome)


def test_the_tails_are_told_and_short() -> None:
    """What a failing agent said last, on both channels."""
    turn = run("yes out | head -n 9999; yes err | head -n 9999 >&2; echo last >&2; exit 1")
    assert turn.outcome["stderr"].endswith("err\nlast") and "out" in turn.outcome["stdout"]
    assert all(len(turn.outcome[name]) <= 1500 for name in ("stdout", "stderr"))
    assert "not found" in run("no-such-agent-here").outcome["stderr"]


def test_the_time_limit() -> None:
    """It and all it started end; what it had said is told."""
    turn = run("echo begun; sleep 60 & sleep 60", timeout=0.3)
    assert turn.outcome["error"] == "ended after its time limit of 0.3 s"
    assert turn.outcome["stdout"] == "begun" and not turn.cut_off
    assert turn.outcome["ended"] - turn.outcome["started"] < 10


def test_an_agent_that_forks_and_stays() -> None:
    """The turn is over when it has exited; who holds its pipe holds nobody up."""
    turn = run("sleep 60 & echo $!")
    assert turn.outcome["ended"] - turn.outcome["started"] < 10
    os.kill(int(turn.answer), signal.SIGKILL)


def test_escapes_are_not_passed_on() -> None:
    """An answer goes to chats, terminals and other models."""
    assert run("printf '\\033[31mred\\033[0m\\r\\nx\\377'").answer == "red\nx\ufffd"


def test_an_agent_that_floods() -> None:
    """10 MB: the beginning, and that there was more."""
    turn = run("yes 0123456789 | head -c 10000000")
    assert MAX_ANSWER - 20 < len(turn.answer) < MAX_ANSWER + 100
    assert turn.answer.endswith("\n[cut: the agent wrote more]")


def test_an_agent_that_does_not_read() -> None:
    """A prompt larger than a pipe is no reason to wait."""
    assert run("echo done", "x" * 1_000_000).answer == "done"


@pytest.mark.parametrize("end", ["sleep 60", "trap '' TERM; sleep 60"])
def test_cut_off_from_outside(end: str, tmp_path: Path) -> None:
    """Nothing of it runs on; the outcome says it."""
    cancel, turns = Cancel(), []
    command = f"echo $$ > {tmp_path}/pid; {end}"

    def work() -> None:
        environ, prompt = dict(os.environ), "x"
        turns.append(
            agent_process.run_agent(
                *(command, prompt, MESSAGE, "lead", "t"), timeout=60, cancel=cancel, environ=environ
            )
        )

    thread = threading.Thread(target=work)
    thread.start()
    pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    cancel.cancel()
    thread.join(20)
    assert turns[0].cut_off and turns[0].answer == ""
    assert turns[0].outcome["error"] == "ended before it was done"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_start_that_the_kernel_refuses() -> None:
    """Told, and the prompt was not seen."""
    turn = run("true", HUGE="x" * 3_000_000)
    assert "cannot start /bin/sh" in turn.outcome["error"] and not turn.began
    assert turn.outcome["started"] <= turn.outcome["ended"] <= time.time()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("hermes chat -Q -q", 'hermes chat -Q -q "$(cat)"'),
        ("claude -p", "claude -p"),
        ("codex exec -", "codex exec -"),
        ("hermes chat -q | tee log", "hermes chat -q | tee log"),
    ],
)
def test_agents_that_take_their_prompt_as_an_argument(command: str, line: str) -> None:
    """RULES-7.5: it gets there as one word, and only where there is no other way."""
    assert agent_process.shell_line(command) == line


def test_tokens_are_long_and_new() -> None:
    """PROTOCOL-6.4: 16 to 128 characters."""
    assert (
        16 <= len(agent_process.new_token()) <= 128
        and agent_process.new_token() != agent_process.new_token()
    )
