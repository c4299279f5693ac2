"""Which conversation belongs to which session: a real file."""

import stat
from pathlib import Path

import pytest

from wakebus.broker.system.processes import Process
from wakebus.plugin.harness.agent_command import AgentConversation
from wakebus.plugin.harness.conversations import (
    ConversationFile,
    KeptConversation,
    conversations_file,
)

ONE = KeptConversation(AgentConversation("id-of-one", begun=True), Process(7, 2.5))
TWO = KeptConversation(AgentConversation("id-of-two"))


def test_it_outlives_its_listener(tmp_path: Path) -> None:
    """RULES-9.3: each session's, by whoever listens as this endpoint next."""
    file = conversations_file(tmp_path, "lead")
    first = ConversationFile(file, "claude")
    assert first.conversation_of("") is None
    assert first.save("", ONE) == first.save("console:群\n", TWO) == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = ConversationFile(file, "claude")
    assert (
        again.conversation_of(""),
        again.conversation_of("console:群\n"),
        again.conversation_of("x"),
    ) == (ONE, TWO, None)
    assert ConversationFile(file, "codex").conversation_of("") is None, (
        "another program's ids are of no use"
    )
    assert (
        ConversationFile(conversations_file(tmp_path, "other"), "claude").conversation_of("")
        is None
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"harness": "claude", "sessions": {"": 3}}', "\0"]
)
def test_what_is_no_such_file_is_begun_anew(tmp_path: Path, text: str) -> None:
    """RULES-9.3: and said in the log; no listener ends by it."""
    file = tmp_path / "lead.json"
    file.write_text(text)
    kept = ConversationFile(file, "claude")
    assert kept.conversation_of("") is None and kept.save("", ONE) == ""
    assert ConversationFile(file, "claude").conversation_of("") == ONE


def test_what_the_disk_does_not_take_is_told(tmp_path: Path) -> None:
    """RULES-9.3: it is known until this process ends."""
    (tmp_path / "file").write_text("no folder")
    kept = ConversationFile(tmp_path / "file" / "lead.json", "claude")
    assert "file/lead.json" in kept.save("", ONE) and kept.conversation_of("") == ONE


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that had a turn last are kept."""
    monkeypatch.setattr("wakebus.plugin.harness.conversations.MAX_KEPT", 3)
    kept = ConversationFile(tmp_path / "lead.json", "claude")
    for session in ("a", "b", "a", "c", "d"):
        kept.save(session, ONE)
    assert [kept.conversation_of(session) for session in "abcd"] == [ONE, None, ONE, ONE]
