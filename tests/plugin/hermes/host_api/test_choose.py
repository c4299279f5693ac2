"""What makes a process of Hermes one that listens (HERMES-2.3)."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fakes.hermes_ctx import Ctx, Manager
from fakes.hermes_process import Loop, Process
from fakes.hermes_tui import DEAD, TuiServer
from wakebus.plugin.hermes.host_api.choose import (
    NO_SESSION,
    NO_WAY_IN,
    absence,
    find_live,
    gateway_api,
    hook_callbacks,
)
from wakebus.plugin.hermes.host_api.private_gateway import PrivateGateway
from wakebus.plugin.hermes.host_api.protocol import LiveHost
from wakebus.plugin.hermes.host_api.public_gateway import PublicGateway


def test_a_process_that_ends_is_nothing() -> None:
    """HERMES-2.3: no module of Hermes, or modules without anything alive."""
    assert find_live({}) is None
    plugins = SimpleNamespace(get_plugin_manager=Manager)
    gateway = SimpleNamespace(_gateway_runner_ref=lambda: None)
    assert find_live({"hermes_cli.plugins": plugins, "gateway.run": gateway}) is None


def test_a_gateway_is_its_runner_with_a_loop() -> None:
    """HERMES-2.3: mode `gateway`."""
    process = Process()
    runner = process.gateway()
    assert find_live(process.modules) == LiveHost("gateway", runner)


def test_a_terminal_is_what_the_manager_refers_to() -> None:
    """HERMES-2.3: mode `cli`."""
    process = Process()
    cli = process.cli()
    assert find_live(process.modules) == LiveHost("cli", cli)


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
    assert find_live({"gateway.run": half}) is None
    assert find_live({"hermes_cli.plugins": half}) is None


def test_a_gateway_that_has_stopped_is_gone() -> None:
    """HERMES-2.11: its event is set, its loop is closed, or the weakref is dead."""
    process = Process()
    runner = process.gateway()
    found = find_live(process.modules)
    assert found is not None and found.object is runner
    runner._shutdown_event.set()
    assert find_live(process.modules) is None
    runner._shutdown_event.clear()
    runner._gateway_loop.closed = True
    assert find_live(process.modules) is None
    runner._gateway_loop = Loop()
    process.modules["gateway.run"]._gateway_runner_ref = lambda: None
    assert find_live(process.modules) is None


def test_a_terminal_that_is_left_is_gone() -> None:
    """HERMES-2.11: it is about to exit, or another has taken its place."""
    process = Process()
    cli = process.cli()
    assert find_live(process.modules) == LiveHost("cli", cli)
    cli._should_exit = True
    assert find_live(process.modules) is None
    other = process.cli()
    assert find_live(process.modules) == LiveHost("cli", other) and other is not cli


def test_a_one_shot_that_publishes_itself_never_listens() -> None:
    """HERMES-2.3: `hermes chat -q` of 0.22 does, and ends after its one answer."""
    process = Process()
    cli = process.cli()
    cli._single_query_mode = True
    assert find_live(process.modules) is None
    cli._single_query_mode = False  # `-q` on a terminal may open an interactive session instead
    assert find_live(process.modules) == LiveHost("cli", cli)


def test_a_tui_is_its_server_with_a_session() -> None:
    """HERMES-8.1: mode `tui`; a `hermes serve` without a session takes nothing: it runs no turn."""
    process, server = Process(), TuiServer(lambda name, **fields: [])
    process.tui(server)
    own, work = Path("/homes/own"), Path("/homes/work")
    assert find_live(process.modules, own) is None
    server.open("opening", agent=None)
    server.open("its window has gone", transport=DEAD)
    server.open("b", profile_home=str(work))
    assert find_live(process.modules, own) is None
    assert find_live(process.modules, work) == find_live(process.modules) == LiveHost("tui", server)
    id = server.open("a")
    assert find_live(process.modules, own) == LiveHost("tui", server)
    server.close(id)
    assert find_live(process.modules, own) is None


def test_a_server_that_takes_no_messages_is_nothing() -> None:
    """HERMES-8.1: 0.19 has no way in; in 0.22 there is none before it serves, nor at its end."""
    process, server = Process(), TuiServer(lambda name, **fields: [])
    manager = process.tui(server)
    server.open("a")
    manager.has_tui_message_injector = False
    assert find_live(process.modules) is None
    del manager.has_tui_message_injector
    assert find_live(process.modules) is None
    assert find_live({"tui_gateway.server": server}) is None


def test_why_a_tui_does_not_listen() -> None:
    """HERMES-8.1: of 0.19 there is no way in; else there is no session."""
    process, server = Process(), TuiServer(lambda name, **fields: [])
    assert absence(process.modules) == absence() == ""
    manager = process.tui(server)
    assert absence(process.modules) == NO_SESSION
    del manager.has_tui_message_injector
    assert absence(process.modules) == NO_WAY_IN


def test_argv_and_environment_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """HERMES-2.3, peer failure 9: they look the same in processes that never listen."""
    monkeypatch.setattr(sys, "argv", ["hermes", "gateway", "run"])
    monkeypatch.setitem(os.environ, "_HERMES_GATEWAY", "1")
    assert find_live({}) is None
    assert find_live() is None and "gateway.run" not in sys.modules


@pytest.mark.parametrize("inject", [None, 1, lambda content, role="user": True, print])
def test_the_way_to_a_gateway(inject: Any) -> None:
    """HERMES-2.15, HERMES-3.6: by looking inside, unless Hermes offers to reach a session."""

    def newer(content: str, role: str = "user", *, session_key: str | None = None) -> bool:
        return True

    assert type(gateway_api(object(), inject)) is PrivateGateway
    assert type(gateway_api(object(), newer)) is PublicGateway


def test_callbacks_of_all_plugins() -> None:
    """HERMES-4.11: those of Hermes's manager; none where it shows none."""
    ctx = Ctx()
    ctx.register_hook("pre_llm_call", print)
    ctx.register_hook("on_session_end", repr)
    assert hook_callbacks(ctx) == [print, repr]
    assert hook_callbacks(object()) == [] and hook_callbacks(SimpleNamespace(_manager=None)) == []


def test_a_way_is_loaded_when_it_is_taken() -> None:
    """The runtime is in every process of Hermes; asyncio and the ways are for those that listen."""
    code = "import sys, wakebus.plugin.hermes.runtime; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert "wakebus.plugin.hermes.host_api.choose" in loaded
    room = "wakebus.plugin.hermes.host_api"
    ways = {
        f"{room}.private_gateway",
        f"{room}.private_terminal",
        f"{room}.public_gateway",
        f"{room}.private_tui",
    }
    assert not loaded & {*ways, "asyncio", "msgspec", "zmq"}
