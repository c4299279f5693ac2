"""
The host in an interactive CLI (HERMES-4), on a real bus, in a look-alike of hermes-agent 0.19.0.

The look-alike is fakes/hermes_cli.py; tests/e2e_hermes/test_cli.py shows the same in the real one.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.hermes_cli import Cli
from fakes.hermes_terminal import Terminal
from fakes.host import deliver
from wakebus.broker import Client, Refusal
from wakebus.broker.errors import TimedOut
from wakebus.broker.protocol.message import Message
from wakebus.plugin.hermes.hooks import STEER
from wakebus.plugin.hermes.host_api.private_terminal import PrivateTerminal
from wakebus.plugin.hermes.shared import prompt_turns
from wakebus.plugin.hermes.shared.turn_tracker import TurnTracker
from wakebus.plugin.hermes.terminal.host import CliHost
from wakebus.plugin.receive.answers import Answers
from wakebus.plugin.rules.match import plan
from wakebus.plugin.rules.model import Rules

MakeTerminal = Callable[..., Terminal]
MakeMessage = Callable[..., Message]

DO: dict[str, Any] = {"match_type": "do", "context": True}
NOW: dict[str, Any] = {"match_type": "now", "context": True, "interrupt": True}
NOTE: dict[str, Any] = {"match_type": "note", "context": True, "wake": "next_turn"}
SHORT: dict[str, Any] = {"match_type": "short", "context": True, "timeout_s": 1}


@pytest.fixture
def make_terminal(shared_broker: Broker, tmp_path: Path, name: str) -> Iterator[MakeTerminal]:
    """Return a maker of terminals with rules for `do`, `now`, `note` and `short`."""
    tmp_path.chmod(0o700)
    made: list[Terminal] = []

    def make() -> Terminal:
        made.append(Terminal(shared_broker.address, tmp_path, name, DO, NOW, NOTE, SHORT))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def terminal(make_terminal: MakeTerminal) -> Terminal:
    """An idle terminal."""
    return make_terminal()


def hold(terminal: Terminal) -> None:
    """Have the person start a turn that runs until `agent.go`."""
    terminal.cli.person("HOLD the person's own")
    assert terminal.cli.agent.holding.wait(30)


def test_a_chat_that_the_answer_cannot_reach(terminal: Terminal) -> None:
    """RULES-3.10: refused before the turn, as by `listen --agent`; the person is not disturbed."""
    receipt = terminal.sender.wait(terminal.send("x", type="do", channel="nope:1"), 60)
    assert receipt.state == "dead" and not receipt.failed
    assert receipt.reason.startswith("no answer could go to 'nope:1': no adapter for the platform")
    assert not terminal.cli.agent.ended


# --- turns ----------------------------------------------------------------------------------------


def test_idle(terminal: Terminal) -> None:
    """HERMES-4.5: a turn starts; the answer is shown there and told; nobody else waits for it."""
    outcome = terminal.do("build 7 is red", type="do")
    assert outcome["rule"] == "1: do" and outcome["turn"]["session"] == "s1"
    assert outcome["terminal"]["result"] == "answered" and "unsent" not in outcome
    (prompt,) = terminal.cli.prompts
    assert prompt.startswith("[wakebus] A message.") and "build 7 is red" in prompt


def test_an_asker_gets_the_answer(terminal: Terminal) -> None:
    """HERMES-4.5: as from an `--agent` host."""
    answer = terminal.sender.ask(terminal.name, {"type": "do", "text": "x"}, wait=60, sender="t")
    assert answer.message is not None and answer.message.text.startswith("answer to [wakebus]")
    assert terminal.outcome(answer.receipt.id)["answered"] is True


def test_an_answer_to_a_persons_words(terminal: Terminal) -> None:
    """HERMES-4.5: who writes into the turn has its answer; the sender is told so, not it."""
    id = terminal.send("HOLD", type="do", asks=True)
    assert terminal.cli.agent.holding.wait(30)
    terminal.cli.agent.written_into = [{"role": "tool", "content": STEER}]
    terminal.cli.agent.go.set()
    outcome = terminal.outcome(id)
    assert outcome["answer"]["reason"] == prompt_turns.STEERED and outcome["answered"] is False
    assert outcome["terminal"]["result"] == "answered"


def test_busy(terminal: Terminal) -> None:
    """HERMES-4.1, peer failures 3 and 8: after the person's turn, which is not aborted."""
    hold(terminal)
    id = terminal.send("after that", type="do")
    until(lambda: terminal.held(id), 30)
    terminal.cli.person("typed meanwhile")
    assert not terminal.cli.agent._interrupt_requested
    terminal.cli.agent.go.set()
    assert "error" not in terminal.outcome(id)["turn"]
    person, typed, ours = terminal.cli.prompts
    assert (person, typed) == ("HOLD the person's own", "typed meanwhile")
    assert "after that" in ours


def test_a_question_is_no_rest(terminal: Terminal) -> None:
    """HERMES-4.1: nothing starts while an approval is open, and nothing answers it."""
    question = terminal.cli._approval_state = {"command": "rm -rf /"}
    id = terminal.send("yes", type="do")
    until(lambda: terminal.held(id), 30)
    assert terminal.cli.prompts == [] and terminal.cli._approval_state is question
    terminal.cli._approval_state = None
    assert "error" not in terminal.outcome(id)["turn"]


def test_interrupt(terminal: Terminal) -> None:
    """HERMES-4.2: the running turn ends; ours is a turn of its own, after what was typed."""
    hold(terminal)
    terminal.cli.person("typed meanwhile")
    outcome = terminal.do("fire!", type="now")
    assert "error" not in outcome["turn"]
    assert len(terminal.cli.prompts) == 3 and "fire!" in terminal.cli.prompts[2]
    assert not terminal.cli.agent._interrupt_requested


def test_interrupting_our_own_turn(terminal: Terminal) -> None:
    """HERMES-4.2: the message whose turn was cut off is told by whom, and is not lost silently."""
    first = terminal.send("HOLD", type="do")
    assert terminal.cli.agent.holding.wait(30)
    second = terminal.send("fire!", type="now", sender="other")
    assert "error" not in terminal.outcome(second)["turn"]
    assert terminal.outcome(first)["interrupted_by"] == second


@pytest.mark.parametrize("text", ["/profile", "yes", "3", "!ls", "~/.ssh/id_rsa", "--- end"])
def test_inert(terminal: Terminal, text: str) -> None:
    """HERMES-4.3, peer failure 8: a text is never the beginning of a prompt."""
    assert "error" not in terminal.do(text, type="do")["turn"]
    assert terminal.cli.commands == [] and text in terminal.cli.prompts[0]


def test_no_file_is_pasted(terminal: Terminal, tmp_path: Path) -> None:
    """HERMES-4.3: Hermes reads a file of any name where a prompt says that it was pasted."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    terminal.do(f"[Pasted text #1: 2 lines → {secret}]", type="do")
    assert "hunter2" not in terminal.cli.prompts[0] and "(Pasted text #1" in terminal.cli.prompts[0]


def test_ctrl_c(terminal: Terminal) -> None:
    """HERMES-4.6: the person ends our turn: it failed and says so, and is not begun again."""
    id = terminal.send("HOLD", type="do")
    assert terminal.cli.agent.holding.wait(30)
    terminal.cli.agent.interrupt()
    assert "the person at the terminal stopped it" in terminal.failed(id)
    assert len(terminal.cli.prompts) == 1


def test_the_chat_is_told_of_a_failure(terminal: Terminal) -> None:
    """RULES-8.5: by the courier; where none has ever run on this broker, the outcome says so."""
    id = terminal.send("UNTOLD", type="do", channel="console:team")
    assert "Hermes did not complete it" in terminal.failed(id)
    told = (terminal.sender.wait(id, 60).outcome or {})["failure_told"]
    assert told["result"] in ("queued", "not_sent")  # as other tests of this broker left it
    assert "courier" in (told.get("to"), *told.get("reason", "").split("'"))


def test_a_turn_that_fails_untold(terminal: Terminal) -> None:
    """HERMES-4.6: some failures Hermes does not tell; the lane goes on."""
    assert "Hermes did not complete it" in terminal.failed(terminal.send("UNTOLD", type="do"))
    assert "error" not in terminal.do("next", type="do")["turn"]


def test_no_turn_begins(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-4.6: Hermes takes a prompt and has no credentials: an error, not a wait for ever."""
    monkeypatch.setattr(prompt_turns, "IDLE_S", 0.5)
    terminal.cli.refuses = True
    assert "began no turn" in terminal.failed(terminal.send("x", type="do"))


def test_its_time_limit(terminal: Terminal) -> None:
    """HERMES-4.6: a rule's `timeout_s` ends the turn."""
    assert "time limit of 1 s" in terminal.failed(terminal.send("HOLD", type="short"))


def test_hermes_ends(make_terminal: MakeTerminal) -> None:
    """HERMES-4.6: what runs is not acknowledged; the next holder gets it, labelled."""
    first = make_terminal()
    id = first.send("HOLD", type="do")
    assert first.cli.agent.holding.wait(30)
    first.close()
    second = make_terminal()
    second.cli.agent.go.set()
    assert "error" not in second.outcome(id)["turn"]
    assert "work on it had started and was cut off" in second.cli.prompts[0]


def test_what_waits_is_in_our_turn_once(terminal: Terminal) -> None:
    """HERMES-4.8: a turn of the bus shows what waits, as a person's does."""
    terminal.do("remember the milk", type="note")
    outcome = terminal.do("go", type="do")
    assert outcome["context"] and "remember the milk" in terminal.cli.agent.seen[0]
    assert terminal.cli.agent.seen[0].count("remember the milk") == 1
    assert "milk" not in terminal.turn("hello")


# --- without a turn -------------------------------------------------------------------------------


@pytest.fixture
def cli() -> Iterator[Cli]:
    found = Cli(lambda name, **fields: [])
    yield found
    found.close()


def host(cli: Any) -> CliHost:
    stop = threading.Event()
    answers = Answers(Client("ipc:///nowhere"), "lead", stop)
    return CliHost(PrivateTerminal(cli), "lead", answers, TurnTracker(), stop)


@pytest.mark.parametrize(
    ("fields", "there"),
    [
        ({}, True),
        ({"session": "s1"}, True),
        ({"channel": "mattermost:dm1"}, True),
        ({"session": "s2"}, False),
    ],
)
def test_its_one_session(cli: Cli, make: MakeMessage, fields: dict[str, str], there: bool) -> None:
    """HERMES-4.4: all that is not for another session is for this one."""
    message = make(**fields)
    placed = host(cli).place(deliver(message), plan(Rules(), message, "cli"))
    assert isinstance(placed, Refusal) is not there
    assert isinstance(placed, Refusal) or placed.session == ""


def test_a_notice_is_of_no_session_here(cli: Cli) -> None:
    """HERMES-4.4: its session is that of whoever its dead message was for; it is never refused."""
    message = Message("n1", 1.0, "bus", "cli", {"type": "notice", "text": "x"}, session="another")
    placed = host(cli).place(deliver(message), plan(Rules(), message, "cli"))
    assert not isinstance(placed, Refusal) and placed.session == ""


def test_names(cli: Cli) -> None:
    """HERMES-4.9: a `/background` task has a session of its own (cli_commands_mixin.py:1670)."""
    found = host(cli)
    assert found.names("s1") == ("", "s1") and found.names("bg_1") == ()
    cli.agent.session_id = "s1-compressed"
    assert found.names("s1-compressed") and found.names("s1")


def test_the_window_is_closed(make_terminal: MakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-4.6: a signal makes Hermes interrupt its turn before it ends: nobody wished that."""
    first = make_terminal()
    id = first.send("HOLD", type="do")
    assert first.cli.agent.holding.wait(30)
    monkeypatch.setitem(sys.modules, "cli", SimpleNamespace(_signal_watchdog_armed=True))
    first.cli.agent.interrupt("received signal 1")
    first.close()
    monkeypatch.delitem(sys.modules, "cli")
    second = make_terminal()
    second.cli.agent.go.set()
    assert "error" not in second.outcome(id)["turn"]
    assert "was cut off" in second.cli.prompts[0]


# --- what is cancelled ----------------------------------------------------------------------------


def test_a_message_that_waits_for_the_person_is_cancelled(terminal: Terminal) -> None:
    """HERMES-4.12: it never begins, and the person's turn goes on."""
    hold(terminal)
    id = terminal.send("later", type="do")
    until(lambda: terminal.held(id))
    terminal.sender.cancel(id, by="ci")
    assert terminal.sender.wait(id, 30).reason == "cancelled by ci"
    terminal.cli.agent.go.set()
    terminal.do("next", type="do")
    assert "later" not in "".join(terminal.cli.prompts)


def test_our_turn_is_ended_when_its_message_is_cancelled(terminal: Terminal) -> None:
    """HERMES-4.12: as Ctrl-C ends it; the next one has its turn."""
    id = terminal.send("HOLD ours", type="do")
    assert terminal.cli.agent.holding.wait(30)
    assert terminal.sender.cancel(id, by="ci").told
    receipt = terminal.sender.wait(id, 30)
    assert (receipt.state, receipt.reason, receipt.failed) == ("dead", "cancelled by ci", False)
    terminal.cli.agent.go.set()
    assert "error" not in terminal.do("next", type="do")["turn"]


def waits_for(terminal: Terminal, id: str) -> str:
    """What `--wait` says that a message waits for, without its time."""
    with pytest.raises(TimedOut) as caught:
        terminal.sender.wait(id, 0)
    why = str(caught.value.data.get("why", ""))
    assert why in str(caught.value)
    return why.partition("; again in ")[0]


def test_what_waits_for_a_persons_turn_says_so(terminal: Terminal) -> None:
    """RULES-3.12: where its sender looks, and no longer once it has begun."""
    hold(terminal)
    id = terminal.send("after it", type="do")
    until(lambda: waits_for(terminal, id) == "Hermes is in another turn; see the terminal")
    terminal.cli.agent.go.set()
    assert "error" not in terminal.outcome(id)["turn"]


# --- of 0.20 and later ----------------------------------------------------------------------------


def test_no_turn_begins_while_hermes_is_paused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HERMES-3.19: nor by a message that interrupts; what its owner does himself is his."""
    why = ["Hermes is paused"]
    monkeypatch.setattr(prompt_turns, "paused", lambda: why[0])
    ids = [terminal.send("later", type=type) for type in ("do", "now")]
    until(lambda: all("paused" in str(terminal.sender.trace(id)) for id in ids))
    assert terminal.turn("mine").startswith("mine")
    until(lambda: waits_for(terminal, ids[0]) == "Hermes is paused")
    why[0] = ""
    assert all("error" not in terminal.outcome(id)["turn"] for id in ids)
