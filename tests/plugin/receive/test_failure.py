"""A1: what counts as failed, and the line that says it."""

from typing import Any

import pytest

from fakes.host import deliver
from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive import failure
from wakebus.plugin.receive.host import TurnResult
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Reply, Rule, Rules


def turn(error: str = "exit 1", *, cut_off: bool = False, mute: bool = False, **more: Any) -> str:
    """Return why a turn with this end failed, an answer being due."""
    result = TurnResult("", {"error": error, **more}, cut_off=cut_off, mute=mute)
    return failure.failure_of_turn(result, due=True)


def test_the_reason_is_one_short_line() -> None:
    """What ended it, and the last line that says something: of stderr, else of stdout."""
    assert turn(stderr="429") == "the turn failed: exit 1: 429"
    assert turn() == "the turn failed: exit 1"
    assert turn(stderr="a\n\nError: quota\n\n  \n***\n") == "the turn failed: exit 1: Error: quota"
    assert turn(stderr=" \n", stdout="Not logged in") == "the turn failed: exit 1: Not logged in"
    assert turn(stderr="seen", stdout="unseen").endswith(": seen")
    assert len(turn(stderr="x" * 5000)) < 300
    assert "\n" not in turn(stderr="one\u2028two") and "\x1b" not in turn(stderr="\x1b[31mred")


def test_frames_of_a_stack_say_nothing() -> None:
    """The line above them does."""
    node = "throw 1\n^\n\nError: 429\n    at f (file.js:1)\n    at g\n\nNode.js v22.1"
    python = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no key'
    assert turn(stderr=node) == "the turn failed: exit 1: Error: 429"
    assert turn(stderr=python) == "the turn failed: exit 1: ValueError: no key"


def test_what_did_not_fail() -> None:
    """RULES-8.4: what our stop or an interrupting message ended; silence where nothing is due."""
    assert turn(cut_off=True) == ""
    assert turn("no output", mute=True) == "the turn failed: no output"
    silent = TurnResult("", {"error": "no output"}, well=True, mute=True)
    assert failure.failure_of_turn(silent, due=False) == ""
    broken = TurnResult("", {"error": "exit 1"})
    assert failure.failure_of_turn(broken, due=False) == "the turn failed: exit 1"
    assert failure.failure_of_turn(TurnResult("ok", {"exit": 0}, well=True), due=True) == ""


@pytest.mark.parametrize(
    ("status", "ended_by", "text"),
    [
        (1, "", "exit 1"),
        (127, "", "exit 127"),
        (128, "", "exit 128"),
        (137, "", "exit 137 (SIGKILL)"),
        (255, "", "exit 255"),
        (None, "SIGTERM", "ended by SIGTERM"),
        (None, "", "ended by nobody knows what"),
    ],
)
def test_how_a_program_ended(status: int | None, ended_by: str, text: str) -> None:
    """A shell tells a signal by its status."""
    assert failure.how_ended(status, ended_by) == text


def test_whether_an_answer_is_due() -> None:
    """To a chat, a sender, or somebody who waits, whatever the rule says."""

    def due(reply: Reply, *, asks: bool = False) -> bool:
        message = Message("m1", 1.0, "a", "b", {"text": "x"})
        rules = Rules(callbacks=(Rule(match_type=("*",), context=True, reply=reply),))
        found = plan(rules, message, "agent")
        job = Job(deliver(message, asks=asks), found, PromptItem(message, "x"))
        return failure.is_due([job])

    assert [due("none"), due("channel"), due("sender")] == [False, True, True]
    assert due("none", asks=True)


def test_a_command_that_was_all_there_was_to_do() -> None:
    """Fails for its status, a signal, its time limit, or where it cannot start."""

    def why(*actions: dict[str, Any]) -> str:
        return failure.failure_of_actions([{"what": "command", **action} for action in actions])

    assert why({"status": 0}) == "" and why() == ""
    assert why({"status": 2, "tail": "no disk\n"}) == "the command failed: exit 2: no disk"
    assert why({"status": None, "signal": "SIGSEGV"}) == "the command failed: ended by SIGSEGV"
    late = {"status": None, "signal": "SIGTERM", "timed_out": True, "started": 1.0, "ended": 1.5}
    assert why(late) == "the command failed: ended after its time limit of 0.5 s"
    assert why({"error": "cannot start /bin/sh"}) == "the command failed: cannot start /bin/sh"
    assert why({"status": None, "cancelled": True, "error": "stopped"}) == ""
    lost = {"what": "print", "result": "not_sent", "to": "a:1", "reason": "no way"}
    assert failure.failure_of_actions([lost, {"what": "command", "status": 0}]) == ""
    both = "not shown in a:1: no way; the command failed: exit 1"
    assert failure.failure_of_actions([lost, {"what": "command", "status": 1}]) == both
    shown = {"what": "print", "to": "terminal"}
    assert failure.failure_of_actions([shown, {"what": "command", "status": 1}]) == ""
    assert failure.failure_of_actions([shown]) == ""


def test_a_print_that_was_all_there_was_to_do() -> None:
    """HERMES-3.8, HERMES-3.13: not where a chat has it, or may; where parts of it are missing."""

    def why(result: str, **more: Any) -> str:
        return failure.failure_of_actions([{"what": "print", "result": result, **more}])

    assert why("sent") == why("queued") == why("uncertain") == why("sent", parts=2, done=2) == ""
    assert why("rejected", to="a:1", reason="bad") == "not shown in a:1: bad"
    assert why("not_sent", reason="no way") == "not shown: no way"
    assert why("uncertain", parts=3, done=1, reason="half") == "not shown: half"
