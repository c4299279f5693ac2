"""The plugin in a process of its own: what it registers, what its hooks tell, what /bus says."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.broker import Broker, until
from fakes.hermes_isolated import IsolatedCtx, source
from wakebus.plugin import hermes
from wakebus.plugin.hermes.isolated import process as own_process
from wakebus.plugin.hermes.isolated.process import IsolatedProcess
from wakebus.plugin.hermes.isolated_hooks import IsolatedHooks
from wakebus.plugin.hermes.runtime import Runtime
from wakebus.plugin.hermes.status import status, status_page


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[IsolatedProcess]:
    """This process is a plugin host."""
    found = IsolatedProcess(tmp_path, os.getppid())
    monkeypatch.setenv("HERMES_PLUGIN_HOST_PROCESS", "1")
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    monkeypatch.setattr(own_process, "this_process", lambda: found)
    yield found
    logging.getLogger("wakebus").setLevel(logging.NOTSET)


def test_all_parts_are_registered(
    process: IsolatedProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """HERMES-9.6: tools, /bus, the skill, the hooks; no name with an underscore is needed."""
    monkeypatch.setattr(Runtime, "start", lambda self: None)
    ctx = IsolatedCtx()
    hermes.register(ctx)
    assert not [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(ctx.tools) == 4 and list(ctx.commands) == ["bus"] and list(ctx.skills)
    assert {"post_gateway_admission", "pre_command"} <= set(ctx.hooks)
    assert [len(ctx.hooks[name]) for name in ("pre_llm_call", "on_session_end")] == [2, 2]
    hermes.register(second := IsolatedCtx())  # the folder beside the entry point
    assert not second.hooks and len(second.tools) == 4
    for unload in reversed(ctx.unloads):
        unload()
    hermes.register(third := IsolatedCtx())
    assert set(third.hooks) == set(ctx.hooks)


def test_what_hooks_tell(process: IsolatedProcess) -> None:
    """HERMES-9.2, HERMES-9.3: any field may be missing, or be of another kind."""
    hooks = IsolatedHooks(process)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (hooks.post_gateway_admission, {"session_key": "k", "source": source(), "new": 1}),
        (hooks.post_gateway_admission, {"session_key": "k", "source": None}),
        (hooks.post_gateway_admission, {"session_key": "", "source": source()}),
        (hooks.pre_command, {"command": "bus", "session_key": None, "args_raw": None}),
        (hooks.pre_llm_call, {"session_id": "s", "turn_id": "t", "new": 1}),
        (hooks.pre_llm_call, {"session_id": "c", "turn_id": "u", "platform": "cron"}),
        (hooks.on_session_end, {"turn_id": "none"}),
    ]
    for call, fields in calls:
        assert call() is None and call(**fields) is None
    assert process.told.has_admitted and list(process.told.running()) == ["t"]


@pytest.mark.parametrize("platform", ["cli", "tui"])
def test_a_terminal_is_told_why(
    process: IsolatedProcess, caplog: pytest.LogCaptureFixture, platform: str
) -> None:
    """HERMES-9.1: in the log, once; /bus and bus_info say the same."""
    caplog.set_level(logging.INFO, "wakebus")
    hooks = IsolatedHooks(process)
    for turn in ("t1", "t2"):
        hooks.pre_llm_call(session_id="s", turn_id=turn, user_message="x", platform=platform)
    (said,) = [record.message for record in caplog.records]
    assert "plugins.isolation: host" in said and "not for a terminal" in said
    facts = status(Runtime(lambda: None))
    assert "plugins.isolation: host" in facts["note"]
    page = status_page(facts)
    assert "does not listen" in page and "whether that is busy cannot be seen" in page


def test_a_gateways_child_is_on_the_bus(
    process: IsolatedProcess,
    monkeypatch: pytest.MonkeyPatch,
    shared_broker: Broker,
    tmp_path: Path,
    name: str,
) -> None:
    """HERMES-9.1: as the gateway; /bus says what differs. It leaves when it is unloaded."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_BUS_ROOT", str(shared_broker.root))
    monkeypatch.setenv("HERMES_BUS_ENDPOINT", name)
    runtime = Runtime()
    runtime.inject = IsolatedCtx().inject_message
    runtime.start()
    try:
        assert not runtime.listens
        process.told.has_admitted = True
        until(lambda: runtime.receiving)
        assert (runtime.mode, runtime.endpoint) == ("gateway", f"{name}-gateway")
        page = status_page(status(runtime))
        assert "plugins.isolation: host" in page and "prints are the courier's" in page
    finally:
        runtime.stop()
    assert not runtime.endpoint


def test_outside_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HERMES-9.1: 0.19, and 0.22 as it comes."""
    monkeypatch.setenv("HERMES_BUS_ROOT", str(tmp_path))
    assert "isolation" not in status(Runtime(lambda: None))
