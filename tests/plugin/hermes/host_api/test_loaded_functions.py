"""Functions that Hermes has loaded, or has not."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from wakebus.plugin.hermes.host_api.loaded_functions import (
    LIMIT,
    MAX_LIMIT,
    context_limit,
    has_hook,
    paused,
    session_env,
)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"enabled": True, "max_chars": 3000}, 3000),
        ({"enabled": True, "max_chars": 10**9}, MAX_LIMIT),
        ({"enabled": False, "max_chars": 3000}, MAX_LIMIT),
        ({}, LIMIT),
    ],
)
def test_how_much_hermes_passes_on(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, object], limit: int
) -> None:
    """HERMES-4.8: as its configuration says (tools/hook_output_spill.py:81)."""
    assert context_limit() == LIMIT
    spill = ModuleType("tools.hook_output_spill")
    spill.get_spill_config = lambda: config  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tools", ModuleType("tools"))
    monkeypatch.setitem(sys.modules, "tools.hook_output_spill", spill)
    assert context_limit() == limit


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (SimpleNamespace(is_engaged=lambda: True), True),
        (SimpleNamespace(is_engaged=lambda: False), False),
        (SimpleNamespace(is_engaged=lambda: 1 / 0), False),
        (SimpleNamespace(), False),
        (None, False),
    ],
)
def test_an_emergency_stop(monkeypatch: pytest.MonkeyPatch, module: Any, found: bool) -> None:
    """HERMES-3.19: asked where Hermes has it; a Hermes without it is never paused."""
    monkeypatch.setitem(sys.modules, "agent.estop", module)
    assert paused() == ""
    monkeypatch.setitem(sys.modules, "agent", ModuleType("agent"))
    assert bool(paused()) is found


def test_a_hook_that_hermes_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-2.15: it would warn of it in its log."""
    assert not has_hook("pre_llm_call")
    plugins = SimpleNamespace(VALID_HOOKS={"pre_llm_call"})
    monkeypatch.setitem(sys.modules, "hermes_cli.plugins", plugins)
    assert has_hook("pre_llm_call") and not has_hook("post_gateway_admission")


def test_the_session_that_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-2.15: by the function that is there, else nobody's."""
    assert session_env("KEY") == ""
    context = SimpleNamespace(get_session_env=lambda name, default: f"{name}!")
    monkeypatch.setitem(sys.modules, "gateway.session_context", context)
    assert session_env("KEY") == "HERMES_SESSION_KEY!"
