"""The file in `$HERMES_HOME/hooks`, loaded as the gateway loads it."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from wakebus.plugin.hermes import gateway_events, gateway_hook

FOLDER = Path(gateway_hook.__file__).parent
# The events of gateway/hooks.py and of agent/conversation_compression.py, hermes-agent 0.19.0.
KNOWN = {
    "gateway:startup",
    *("session:start", "session:end", "session:reset", "session:compress"),
    *("agent:start", "agent:step", "agent:end", "command:*"),
}


def load() -> Any:
    """Load it from its file, as gateway/hooks.py:117 of hermes-agent 0.19.0 does."""
    spec = importlib.util.spec_from_file_location("hermes_hook_wakebus", FOLDER / "handler.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_hands_on() -> None:
    """To the package, which may be newer than this file."""
    assert load().handle is gateway_events.handle


def test_without_wakebus(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does nothing, and the gateway starts."""
    monkeypatch.setitem(sys.modules, "wakebus.plugin.hermes.gateway_events", None)
    assert load().handle("gateway:startup", {}) is None


def test_manifest() -> None:
    """Name, and events that this Hermes has; a gateway without `events` would skip the hook."""
    found = yaml.safe_load((FOLDER / "HOOK.yaml").read_text(encoding="utf-8"))
    assert found["name"] == "wakebus" and found["description"]
    assert set(found["events"]) <= KNOWN and {"gateway:startup", "command:*"} <= set(
        found["events"]
    )
