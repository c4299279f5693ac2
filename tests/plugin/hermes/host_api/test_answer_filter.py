"""What no chat is to see."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from fakes import hermes
from wakebus.plugin.hermes.host_api.answer_filter import is_silence, withhold

RESULT = {"session_id": "s1", "final_response": "forty two"}


class Chat:
    """A host: is the chat to see what session `unseen` has answered?"""

    def __init__(self, unseen: str = "s1") -> None:
        self.unseen = unseen

    def is_unseen(self, session_id: str) -> bool:
        """Not in that session; a session that is called "slip" is a slip of ours."""
        if session_id == "slip":
            raise ValueError(session_id)
        return session_id == self.unseen


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Hermes's filters of answers."""
    hermes.modules(monkeypatch)
    return sys.modules["gateway.response_filters"]


def test_an_answer_is_withheld(filters: ModuleType) -> None:
    """HERMES-3.7: of the session that is asked for; what Hermes calls silence stays silence."""
    chat = Chat()
    assert withhold(chat.is_unseen)
    silent = filters.is_intentional_silence_agent_result
    assert silent(RESULT, "forty two")
    assert not silent({**RESULT, "session_id": "s2"}, "forty two")
    assert silent({**RESULT, "session_id": "s2"}, "NO_REPLY")
    assert not silent({**RESULT, "failed": True}, "the model is ill")
    assert not silent({**RESULT, "session_id": "slip"}, "forty two")


def test_several_ask(filters: ModuleType) -> None:
    """HERMES-3.16: one gateway has a host for each profile; who asks twice is asked once."""
    one, two = Chat("s1"), Chat("s2")
    assert withhold(one.is_unseen) and withhold(one.is_unseen) and withhold(two.is_unseen)
    silent = filters.is_intentional_silence_agent_result
    assert len(silent.wakebus_asked) == 2
    assert silent(RESULT, "x") and silent({**RESULT, "session_id": "s2"}, "x")
    del one
    assert not silent(RESULT, "x")


def test_a_hermes_that_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.7: then nothing is withheld, and that is known beforehand."""
    assert not withhold(Chat().is_unseen)  # no gateway
    monkeypatch.setitem(sys.modules, "gateway", ModuleType("gateway"))
    assert not withhold(Chat().is_unseen)
    monkeypatch.setitem(sys.modules, "gateway.response_filters", SimpleNamespace())
    assert not withhold(Chat().is_unseen)


def test_silence_is_what_hermes_calls_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.7: by its own filter where it is loaded."""
    assert is_silence(" no_reply ") and is_silence("[SILENT]")
    assert not is_silence("NO_REPLY, really")
    own = SimpleNamespace(is_intentional_silence_response=lambda text: text == "hush")
    monkeypatch.setitem(sys.modules, "gateway.response_filters", own)
    assert is_silence("hush") and not is_silence("NO_REPLY")
