"""`{session_id}` in a command line: pure."""

import pytest

from wakebus.plugin.harness.agent_command import AgentCommand, AgentConversation

ID = "5ecfe49b-9494-4f80-a841-633362f9b46f"
NEW, BEGUN = AgentConversation(ID), AgentConversation(ID, begun=True)


@pytest.mark.parametrize(
    ("text", "first", "later"),
    [
        ("claude -p --resume {session_id}", "claude -p --session-id ID", "claude -p --resume ID"),
        ("claude --session-id {session_id}", "claude --session-id ID", "claude --resume ID"),
        ("X=1 claude -r '{session_id}'", "X=1 claude --session-id ID", "X=1 claude --resume ID"),
        ("claude --resume={session_id} -p", "claude --session-id ID -p", "claude --resume ID -p"),
        ("codex exec resume {session_id} -", "codex exec -", "codex exec resume ID -"),
        (
            "codex exec --json resume -m o3 {session_id} -",
            "codex exec --json -m o3 -",
            "codex exec --json resume -m o3 ID -",
        ),
        (
            "hermes chat -Q --resume {session_id} -q",
            "hermes chat -Q  -q",
            "hermes chat -Q --resume ID -q",
        ),
        ("./agent.sh {session_id}", "./agent.sh ID", "./agent.sh ID"),
        ("./claude.sh {session_id}", "./claude.sh ID", "./claude.sh ID"),
    ],
)
def test_first_turn_and_later_ones(text: str, first: str, later: str) -> None:
    """RULES-9.2: each program's own way; any other has the same line in each turn."""
    command = AgentCommand(text)
    assert command.keeps and not command.nearly
    new = AgentConversation.new(command.harness, ID)
    assert command.line(new) == first.replace("ID", ID)
    assert command.line(BEGUN) == later.replace("ID", ID)


def test_without_the_word_nothing_is_kept() -> None:
    """RULES-9.1: what is written stays; what looks like the word is told."""
    plain = AgentCommand("claude -p | awk '{print}' ${SESSION}")
    assert not plain.keeps and plain.line(NEW) == plain.text and plain.nearly == ""
    for slip in ("{session}", "{SESSION_ID}", "{ session-id }", "{sessionid}", "{thread_id}"):
        assert AgentCommand(f"claude -p --resume {slip}").nearly == slip


def test_the_id_that_a_program_tells() -> None:
    """RULES-9.3: the first one; Codex repeats the prompt, in which anything may stand."""
    codex = AgentCommand("codex exec resume {session_id} -")
    said = f"OpenAI Codex\nsession id: {ID}\n--------\nuser\nsession id: evil-evil\n"
    assert codex.after(AgentConversation(""), said, well=True) == BEGUN
    assert codex.after(AgentConversation(""), said, well=False) == BEGUN, "it is known all the same"
    assert codex.after(AgentConversation(""), "nothing", well=False) == AgentConversation("")
    assert codex.after(BEGUN, "nothing", well=False) == BEGUN
    for odd in (
        "session id: $(reboot)",
        "session id: a;b",
        "session id: x",
        " session id: abcdefgh",
    ):
        assert codex.after(AgentConversation(""), odd, well=True).id == ""
    hermes = AgentCommand("hermes chat -Q --resume {session_id} -q")
    found = hermes.after(AgentConversation(""), "\nsession_id: 20261129_0210_ab12cd\n", well=True)
    assert found == AgentConversation("20261129_0210_ab12cd", begun=True)


def test_an_id_of_ours_is_begun_when_a_turn_went_well() -> None:
    """RULES-9.3: else the program may or may not have it; it says so."""
    claude = AgentCommand("claude -p --resume {session_id}")
    assert claude.after(NEW, "", well=True) == BEGUN
    assert claude.after(NEW, f"session id: {ID}x", well=False) == NEW
    assert claude.instead(NEW, f"Error: Session ID {ID} is already in use.") == BEGUN
    assert claude.instead(NEW, f"No conversation found with session ID: {ID}") is None
    assert claude.instead(BEGUN, f"No conversation found with session ID: {ID}") == NEW
    assert claude.instead(BEGUN, "No conversation found with session ID: another") is None
    codex = AgentCommand("codex exec resume {session_id} -")
    assert codex.instead(BEGUN, f"no rollout found for thread id {ID} (code") == AgentConversation(
        ""
    )
    echoed = f"session id: {ID}\nuser\nno rollout found for thread id {ID}"
    assert codex.instead(BEGUN, echoed) is None, "it is a prompt's own words"
    hermes = AgentCommand("hermes chat -Q --resume {session_id} -q")
    assert hermes.instead(BEGUN, f"Sitzung nicht gefunden: {ID}\n") == AgentConversation("")
    assert hermes.instead(BEGUN, f"429\n\nsession_id: {ID}\n") is None
    assert AgentCommand("x {session_id}").instead(BEGUN, f"no session {ID}") is None
