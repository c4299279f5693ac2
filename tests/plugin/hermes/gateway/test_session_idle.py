"""Whether a session of the gateway is idle."""

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.hermes import Town, dm
from wakebus.plugin.hermes.gateway.session_idle import away, busy, keys

KEY = "agent:main:mattermost:dm:dm1"


def test_an_idle_session(town: Town) -> None:
    """HERMES-3.4: nothing goes on in it."""
    assert busy(town.runner, town.adapter, (KEY,)) == ""


@pytest.mark.parametrize(
    ("of", "name", "value", "word"),
    [
        ("adapter", "_active_sessions", {KEY: object()}, "turn"),
        ("adapter", "_pending_messages", {KEY: object()}, "message"),
        ("adapter", "_text_debounce", {KEY: object()}, "message"),
        ("runner", "_running_agents", {KEY: object()}, "turn"),
        ("runner", "_queued_events", {KEY: [object()]}, "message"),
        ("runner", "_update_prompt_pending", {KEY: True}, "update"),
    ],
)
def test_what_is_going_on(of: str, name: str, value: Any, word: str) -> None:
    """HERMES-3.4: each thing that a text would interrupt, be merged with, or answer."""
    parts = {"adapter": SimpleNamespace(), "runner": SimpleNamespace()}
    setattr(parts[of], name, value)
    assert word in busy(parts["runner"], parts["adapter"], ("other", KEY))
    assert busy(parts["runner"], parts["adapter"], ("other",)) == ""


@pytest.mark.parametrize(
    ("module", "name", "answer", "word"),
    [
        ("tools.clarify_gateway", "has_pending", True, "question"),
        ("tools.approval", "has_blocking_approval", True, "approval"),
        ("tools.slash_confirm", "get_pending", {"age": 0}, "confirmation"),
        ("tools.slash_confirm", "get_pending", {"age": 301}, ""),
        ("tools.approval", "has_blocking_approval", RuntimeError(), ""),
    ],
)
def test_what_waits_for_an_answer(
    town: Town, monkeypatch: pytest.MonkeyPatch, module: str, name: str, answer: Any, word: str
) -> None:
    """HERMES-3.4: the next text would be taken for it."""

    def look(key: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):  # a moment of the collection may be long ago
            return {"created_at": time.time() - answer["age"]} if key == KEY else None
        return answer if key == KEY else None

    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: look}))
    found = busy(town.runner, town.adapter, (KEY,))
    assert word in found and bool(found) == bool(word)


def test_a_lock_whose_turn_has_ended() -> None:
    """HERMES-3.4: is none; Hermes clears it itself."""
    task = SimpleNamespace(done=lambda: True)
    adapter = SimpleNamespace(_active_sessions={KEY: object()}, _session_tasks={KEY: task})
    assert busy(object(), adapter, (KEY,)) == ""


def test_a_session_has_two_names(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-3.4: the adapter's own has no profile."""
    found = keys(town.adapter, dm(profile="work"), "agent:work:mattermost:dm:dm1")
    assert found == ("agent:work:mattermost:dm:dm1", KEY)
    assert keys(town.adapter, dm(), KEY) == (KEY,)
    monkeypatch.delitem(sys.modules, "gateway.session")
    assert keys(town.adapter, dm(), KEY) == (KEY,)


def test_a_gateway_that_is_away(town: Town) -> None:
    """HERMES-3.9: half built, starting, restoring, stopping."""
    assert away(town.runner) == ""
    assert away(object()) == "the gateway is starting"
    town.runner._startup_restore_in_progress = True  # type: ignore[attr-defined]
    assert away(town.runner) == "the gateway is starting"
    town.runner._draining = True
    assert away(town.runner) == "the gateway is stopping"
