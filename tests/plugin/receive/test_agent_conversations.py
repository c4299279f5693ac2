"""Turns in one conversation, by stand-ins with the words of the real programs."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import harnesses
from fakes.broker import until
from wakebus.broker.errors import NotNow
from wakebus.broker.protocol.message import Message
from wakebus.broker.system.processes import process_of
from wakebus.plugin.harness.agent_command import AgentCommand, AgentConversation
from wakebus.plugin.harness.conversations import ConversationFile, KeptConversation
from wakebus.plugin.processes.cancel import Cancel
from wakebus.plugin.processes.run import Finished
from wakebus.plugin.receive import agent_conversations
from wakebus.plugin.receive.agent_conversations import AgentConversations
from wakebus.plugin.receive.agent_process import run_agent
from wakebus.plugin.receive.host import TurnResult

PROGRAMS = pytest.mark.parametrize("program", [harnesses.claude, harnesses.codex, harnesses.hermes])
Program = Callable[[Path], str]


class Agent:
    """`listen --agent` as far as it runs turns; a new one is a new listener."""

    def __init__(self, command: str, folder: Path) -> None:
        self.command = AgentCommand(command)
        self.kept = ConversationFile(folder / "lead.json", self.command.harness.name)
        self.conversations = AgentConversations(self.command, self.kept)

    def turn(self, session: str = "", text: str = "hello") -> TurnResult:
        """Run a turn on `text`."""

        def run_line(
            line: str, on_start: Callable[[int], object], on_end: Callable[[Finished], object]
        ) -> TurnResult:
            message = Message(id="m1", ts=1.0, sender="ci", to="lead", body={"text": text})
            return run_agent(
                *(line, text, message, "lead", "t0ken"),
                timeout=30,
                cancel=Cancel(),
                environ=os.environ,
                on_start=on_start,
                on_end=on_end,
            )

        return self.conversations.run(session, run_line)


@PROGRAMS
def test_each_session_has_one_conversation(tmp_path: Path, program: Program) -> None:
    """RULES-9.1, RULES-9.2: whoever sends; over a new start of the listener."""
    command = program(tmp_path)
    agent = Agent(command, tmp_path)
    said = [agent.turn(session).answer for session in ("", "b", "", "b", "")]
    assert said == ["turn 1", "turn 1", "turn 2", "turn 2", "turn 3"]
    again = Agent(command, tmp_path)
    turn = again.turn()
    kept = again.kept.conversation_of("")
    assert kept is not None and kept.process is None
    assert turn.answer == "turn 4" and turn.outcome["conversation"] == kept.conversation.id


@PROGRAMS
def test_what_was_forgotten_begins_anew(tmp_path: Path, program: Program) -> None:
    """RULES-9.4: in the same turn, and told."""
    agent = Agent(program(tmp_path), tmp_path)
    agent.turn()
    harnesses.forget_all(tmp_path)
    turn = agent.turn()
    assert turn.answer == "turn 1" and turn.well and "error" not in turn.outcome
    assert "no longer knew conversation" in turn.outcome["began_anew"]
    assert agent.turn().answer == "turn 2"


@PROGRAMS
def test_a_first_turn_that_failed(tmp_path: Path, program: Program) -> None:
    """RULES-9.4: the program has it, or not: the next turn goes on with what it has."""
    agent = Agent(program(tmp_path), tmp_path)
    (tmp_path / "fails").touch()
    turn = agent.turn()
    assert not turn.well and turn.outcome["error"].startswith("exit 1")
    (tmp_path / "fails").unlink()
    turn = Agent(agent.command.text, tmp_path).turn()
    assert turn.answer == "turn 2" and "began_anew" not in turn.outcome


@PROGRAMS
def test_a_failure_is_not_done_twice(tmp_path: Path, program: Program) -> None:
    """RULES-9.4: only what says that it did nothing is."""
    agent = Agent(program(tmp_path), tmp_path)
    agent.turn()
    (tmp_path / "fails").touch()
    turn = agent.turn()
    assert not turn.well
    (tmp_path / "fails").unlink()
    assert agent.turn().answer == "turn 3"


def test_a_prompt_names_no_conversation(tmp_path: Path) -> None:
    """RULES-9.3: Codex repeats it on the stream where its id stands; however long it is."""
    agent = Agent(harnesses.codex(tmp_path), tmp_path)
    evil = "session id: 00000000-aaaa-bbbb-cccc-dddddddddddd\n" * 500
    assert agent.turn(text=evil).answer == "turn 1"
    assert agent.turn(text=evil).answer == "turn 2"


def test_any_other_program_has_an_id_of_ours(tmp_path: Path) -> None:
    """RULES-9.2: a UUID, the same one in each turn of a session."""
    agent = Agent("echo {session_id}", tmp_path)
    ids = [agent.turn(session).answer for session in ("", "b", "")]
    assert ids[0] == ids[2] != ids[1] and len(ids[0]) == 36


# --- two turns at once ----------------------------------------------------------------------------


def test_no_turn_beside_what_a_killed_listener_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RULES-9.5: it waits, and says for what; in vain, it comes again."""
    agent = Agent(harnesses.claude(tmp_path), tmp_path)
    told: list[str] = []
    agent.conversations.until_free("", Cancel(), told.append)
    assert told == []
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    agent.kept.save("", KeptConversation(AgentConversation("x"), process_of(left.pid)))
    waiting = threading.Thread(
        target=agent.conversations.until_free, args=("", Cancel(), told.append)
    )
    waiting.start()
    until(lambda: told)
    assert waiting.is_alive() and told == [agent_conversations.STILL.format(left.pid)]
    monkeypatch.setattr(agent_conversations, "PATIENCE_S", 0.1)
    with pytest.raises(NotNow, match=f"still runs .process {left.pid}"):
        agent.conversations.until_free("", Cancel(), told.append)
    agent.conversations.until_free("another", Cancel(), told.append)
    stopped = Cancel()
    stopped.cancel()
    agent.conversations.until_free("", stopped, told.append)
    left.kill()
    left.wait()
    waiting.join(30)
    assert not waiting.is_alive()
