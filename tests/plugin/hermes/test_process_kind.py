"""What makes a process of Hermes one that listens (HERMES-2.3)."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from fakes.hermes_ctx import Manager
from fakes.hermes_process import Loop, Process
from wakebus.plugin.hermes import process_kind as live


def test_a_process_that_ends_is_nothing() -> None:
    """HERMES-2.3: no module of Hermes, or modules without anything alive."""
    assert live.find({}) is None
    plugins = SimpleNamespace(get_plugin_manager=Manager)
    gateway = SimpleNamespace(_gateway_runner_ref=lambda: None)
    assert live.find({"hermes_cli.plugins": plugins, "gateway.run": gateway}) is None


def test_a_gateway_is_its_runner_with_a_loop() -> None:
    """HERMES-2.3: mode `gateway`."""
    process = Process()
    runner = process.gateway()
    assert live.find(process.modules) == ("gateway", runner)


def test_a_terminal_is_what_the_manager_refers_to() -> None:
    """HERMES-2.3: mode `cli`."""
    process = Process()
    cli = process.cli()
    assert live.find(process.modules) == ("cli", cli)


@pytest.mark.parametrize(
    "half",
    [
        ModuleType("gateway.run"),
        None,
        SimpleNamespace(_gateway_runner_ref=None),
        SimpleNamespace(_gateway_runner_ref=lambda: SimpleNamespace()),
        SimpleNamespace(_gateway_runner_ref=lambda: SimpleNamespace(_gateway_loop=None)),
    ],
)
def test_half_built_is_nothing_yet(half: object) -> None:
    """HERMES-2.3: a module that is being imported, a runner at the top of its __init__."""
    assert live.find({"gateway.run": half}) is None
    assert live.find({"hermes_cli.plugins": half}) is None


def test_a_gateway_that_has_stopped_is_gone() -> None:
    """HERMES-2.11: its event is set, its loop is closed, or the weakref is dead."""
    process = Process()
    runner = process.gateway()
    found = live.find(process.modules)
    assert found is not None and not live.gone(found, process.modules)
    runner._shutdown_event.set()
    assert live.gone(found, process.modules)
    runner._shutdown_event.clear()
    runner._gateway_loop.closed = True
    assert live.gone(found, process.modules)
    runner._gateway_loop = Loop()
    process.modules["gateway.run"]._gateway_runner_ref = lambda: None
    assert live.gone(found, process.modules)


def test_a_terminal_that_is_left_is_gone() -> None:
    """HERMES-2.11: it is about to exit, or another has taken its place."""
    process = Process()
    cli = process.cli()
    found = live.find(process.modules)
    assert found is not None
    cli._should_exit = True
    assert live.gone(found, process.modules)
    process.cli()
    assert live.gone(found, process.modules)


def test_argv_and_environment_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-2.3, peer failure 9: they look the same in processes that never listen."""
    monkeypatch.setattr(sys, "argv", ["hermes", "gateway", "run"])
    monkeypatch.setitem(os.environ, "_HERMES_GATEWAY", "1")
    assert live.find({}) is None
    assert live.find() is None and "gateway.run" not in sys.modules
