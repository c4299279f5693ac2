"""A1: what counts as failed, and the line that says it."""

from collections.abc import Callable
from typing import Any

import pytest

from fakes.host import deliver
from wakebus.broker import Later
from wakebus.broker.protocol.dead_letter import next_steps
from wakebus.broker.protocol.message import Message
from wakebus.plugin.prompt.label import PromptItem
from wakebus.plugin.receive import failure
from wakebus.plugin.receive.host import TurnResult
from wakebus.plugin.receive.turn_queue import Job
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import OnFailure, Reply, Rule, Rules


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


def test_the_next_step_of_our_own_commands_says_nothing() -> None:
    """An agent that hands work on and dies of its failure: why, not where to look."""
    for doubt in (False, True):
        step = next_steps("1a22", "the turn failed", in_doubt=doubt)
        failed = f"dead 1a22: the turn failed: exit 1: 429\n{step}"
        assert turn(stderr=failed).endswith("exit 1: dead 1a22: the turn failed: exit 1: 429")
    usage = "usage: wakebus ask\nwakebus ask: no TEXT\nMore: wakebus ask --help\n"
    assert turn(stderr=usage) == "the turn failed: exit 1: wakebus ask: no TEXT"


@pytest.mark.parametrize(
    ("stderr", "stdout", "said"),
    [
        ("loading\nKilled\n", "", "loading"),
        ("loading\nSegmentation fault (core dumped)", "", "loading"),
        ("loading\n./a.sh: line 3: 4711 Terminated              sleep 9", "", "loading"),
        ("sh: line 1:  4711 Killed                  ./agent --quick\n", "step 3", "step 3"),
        ("Killed", "", "Killed"),
        ("Killed the wrong process", "", "Killed the wrong process"),
    ],
)
def test_a_shells_word_for_a_signal_is_not_the_agents(stderr: str, stdout: str, said: str) -> None:
    """RULES-8.1: what the agent wrote last is more telling, if it wrote anything."""
    assert turn("exit 137 (SIGKILL)", stderr=stderr, stdout=stdout).endswith(f"): {said}")


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
    late = {"status": None, "timed_out": True, "error": "ended after its time limit of 0.5 s"}
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


MakeMessage = Callable[..., Message]


@pytest.mark.parametrize(
    ("fields", "reason", "line"),
    [
        (
            {"type": "directive", "sender": "ci"},
            "the turn failed: exit 1: 429",
            'w could not do "directive" from ci: exit 1: 429 (wakebus trace m1)',
        ),
        (
            {"sender": "ci"},
            "the command failed: exit 3: no disk",
            "w could not do a message from ci: exit 3: no disk (wakebus trace m1)",
        ),
        (
            {"type": "[a](http://x)", "sender": "ci"},
            "the turn failed: exit 1: @all `see` [a](http://x)\n\x1b[31m**now**",
            "w could not do a message from ci: `exit 1: @all 'see' [a](http://x) **now**`"
            " (wakebus trace m1)",
        ),
    ],
)
def test_the_line_for_the_chat(
    make: MakeMessage, fields: dict[str, Any], reason: str, line: str
) -> None:
    """RULES-8.5: who, what, from whom, why, and where to see more; one line, nothing is markup."""
    assert failure.failure_line(make(**fields), "w", reason) == line


def test_the_line_is_bounded(make: MakeMessage) -> None:
    """RULES-8.5: whatever the agent wrote."""
    line = failure.failure_line(make(type="x" * 128), "w", f"the turn failed: {'y' * 5000}")
    assert len(line) < 500 and "\n" not in line and line.endswith("(wakebus trace m1)")


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        ("console:team", True),
        ("telegram:1?thread=2", True),
        ("console", False),
        ("telegram?thread=2", False),
        ("", False),
        ("a b", False),
        (":x", False),
    ],
)
def test_which_chat_is_told(make: MakeMessage, channel: str, told: bool) -> None:
    """RULES-8.5: the one that the channel names; a home is nobody's chat."""
    message = make(**({"channel": channel} if channel else {}))
    assert failure.tells_chat(message, plan(Rules(), message, "agent")) is told
    quiet = Rules(callbacks=(Rule(match_type=("*",), on_failure=OnFailure(chat=False)),))
    assert not failure.tells_chat(message, plan(quiet, message, "agent"))


def test_a_failure_over_a_notice_is_told_to_no_chat(make: MakeMessage) -> None:
    """RULES-8.5: a line that nobody could deliver would be followed by the next one."""
    message = make(sender="bus", type="notice", channel="console:team")
    assert not failure.tells_chat(message, plan(Rules(), message, "agent"))


def jobs_in(make: MakeMessage, *channels: str) -> list[Job]:
    """Return jobs that are done together, of messages m0, m1 … with these channels."""
    made = []
    for number, channel in enumerate(channels):
        message = make(id=f"m{number}", **({"channel": channel} if channel else {}))
        chosen = plan(Rules(), message, "agent")
        made.append(Job(deliver(message), chosen, PromptItem(message, "text")))
    return made


def test_one_line_for_a_chat(make: MakeMessage) -> None:
    """RULES-8.5: of messages that were done together the newest of each channel tells it."""
    jobs = jobs_in(make, "console:a", "console:b", "console:a", "console:a")
    failure.mark_failed(jobs, "the turn failed: x", None)
    assert [job.failed for job in jobs] == ["the turn failed: x"] * 4
    together = {"together_with": "m3"}
    assert [job.failure_told for job in jobs] == [together, None, together, None]


@pytest.mark.parametrize(
    ("shown", "channel", "knows"),
    [
        ("telegram:-100?thread=17", "telegram:-100?thread=17", True),
        ("telegram:-100?thread=17", "telegram:-100:17", True),
        ("telegram:-100", "Telegram:-100", True),
        ("telegram:-100", "telegram:-1001", False),
        ("telegram:-100", "slack:-100", False),
        ("telegram:-100", "", False),
    ],
)
def test_what_the_host_has_shown_there_itself(
    make: MakeMessage, shown: str, channel: str, knows: bool
) -> None:
    """RULES-8.5: no second line in the chat in which Hermes has told it; in another one it is."""
    (job,) = jobs_in(make, channel)
    there = {"result": "answered", "to": shown}
    failure.mark_failed([job], "the turn failed: x", there)
    assert (job.failure_told == there) is knows
    (other,) = jobs_in(make, channel)
    failure.mark_failed([other], "the turn failed: x", {**there, "result": "uncertain"})
    assert other.failure_told is None


@pytest.mark.parametrize(
    ("reason", "was"),
    [
        ("the turn failed: exit 1", True),
        ("the command failed: exit 2: x", True),
        ("no answer could go to 'telegram:1': not set up", False),
        ("expired", False),
        ("", False),
    ],
)
def test_was_failure(reason: str, was: bool) -> None:
    """RULES-8.5: what was refused before any work is no failure; its first one is told."""
    assert failure.was_failure(reason) is was


def test_an_answer_that_nobody_takes(make: Callable[..., Message]) -> None:
    """RULES-8.8: the courier does not accept it: a failure; not where no chat was to have it."""
    lost = {"channel": {"result": "not_sent", "reason": "the mailbox is full"}}
    message = make(channel="console:team")
    why = failure.failure_of_answer(message, lost)
    assert why == "the answer was not sent to console:team: the mailbox is full"
    for told in ({}, {"channel": {"result": "queued"}}, {"channel": {"result": "uncertain"}}):
        assert failure.failure_of_answer(message, told) == ""
    assert failure.failure_of_answer(make(), lost) == ""


MESSAGE = Message("m1", 1.0, "a", "b", {"text": "x"})


def word(failures: int = 0, retries: int = 2, **turn: Any) -> Later | None:
    """Return the word on a failed turn; its rule tries again 10 s after the first failure."""
    rule = Rule(match_type=("*",), context=True, retries=retries, retry_after=10)
    found = plan(Rules(callbacks=(rule,)), MESSAGE, "agent")
    outcome = {"turn": {"error": "exit 1"} | turn, "actions": []}
    delivery = deliver(MESSAGE, failures=failures)
    return failure.retry_later("exit 1", outcome, found, delivery, 0.0)


def test_how_often_it_is_tried_again() -> None:
    """RULES-8.9: as the rule says, each time later; then never. Not what a person stopped."""
    assert [word(n) for n in range(2)] == [Later(s, failed="exit 1") for s in (10, 20)]
    assert word(2) is word(retries=0) is word(interrupted=True) is None
    chosen = plan(Rules(callbacks=(Rule(match_type=("*",), retries=2),)), MESSAGE, "agent")
    unsent = {"turn": {"exit": 0}, "actions": []}
    assert failure.retry_later("no way", unsent, chosen, deliver(MESSAGE), 0.0) is None


def test_a_time_that_the_harness_names() -> None:
    """RULES-8.10: in its last output."""
    assert word(stderr="retry-after: 60") == Later(62, failed="exit 1")
