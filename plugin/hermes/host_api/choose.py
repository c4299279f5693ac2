"""
Finds what makes a Hermes process one that listens, and the way to it that is there.

Rule 1: nothing of Hermes is imported: importing `gateway.run` marks the process as a gateway
(gateway/run.py:1408 of hermes-agent 0.19.0). Rule 2: argv and environment decide nothing: they tell
no process that listens from one that never does (`hermes chat -q`, cron, mcp serve, acp). Rule 3:
anything may be missing or half built; then nothing is found yet. Rule 4: no version is asked: a way
is taken where what it needs is there. Rule 5: a way is loaded when it is taken; this file is loaded
in every process of Hermes.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from wakebus.plugin.hermes.host_api.protocol import GatewayApi, LiveHost, TerminalApi, TuiApi
from wakebus.plugin.hermes.host_api.served_profiles import served_profile

Inject = Callable[..., Any]

NO_WAY_IN: Final = "this Hermes lets no plugin start turns in the TUI; 0.22 does"
NO_SESSION: Final = "the TUI listens while a session is open in it"


def find_live(
    modules: Mapping[str, Any] | None = None, home: Path | None = None
) -> LiveHost | None:
    """
    Return what is alive in this process now for the profile of `home`, or None.

    `modules`: default `sys.modules`; `home`: resolved, None for whatever the process has.
    """
    loaded = sys.modules if modules is None else modules
    if (runner := _runner(loaded)) is not None:
        profile = served_profile(runner, home)
        return None if profile is None else LiveHost("gateway", runner, profile)
    if (cli := _cli(loaded, home)) is not None:
        return LiveHost("cli", cli)
    if (server := _tui(loaded, home)) is not None:
        return LiveHost("tui", server)
    return None


def home_of(ctx: Any) -> Path | None:
    """Return the home of the profile that a plugin is registered for; None: the process's own."""
    found = getattr(getattr(ctx, "_manager", None), "home_path", None)  # hermes_cli/plugins.py:1162
    return Path(found) if found else None


def home_now(modules: Mapping[str, Any] | None = None) -> Path | None:
    """Return the home of the profile for which the task at hand runs; None where nobody says."""
    loaded = sys.modules if modules is None else modules
    home = _called(getattr(loaded.get("hermes_constants"), "get_hermes_home", None))
    return Path(home).resolve() if home else None


def gateway_api(
    runner: Any, inject: Inject | None = None, profile: str = "", home: Path | None = None
) -> GatewayApi:
    """
    Return the way to a gateway. `inject`: `ctx.inject_message`, where there is one.

    `profile`, `home`: whose part of it, "" for all that it has (LiveHost).
    """
    from wakebus.plugin.hermes.host_api.profile_part import ProfilePart

    part = ProfilePart(runner, profile, home)
    if inject is not None and _takes_session(inject):
        from wakebus.plugin.hermes.host_api.public_gateway import PublicGateway

        return PublicGateway(runner, inject, part)
    from wakebus.plugin.hermes.host_api.private_gateway import PrivateGateway

    return PrivateGateway(runner, part)


def terminal_api(cli: Any) -> TerminalApi:
    """Return the way to an interactive CLI."""
    from wakebus.plugin.hermes.host_api.private_terminal import PrivateTerminal

    return PrivateTerminal(cli)


def tui_api(server: Any, inject: Inject | None, home: Path | None) -> TuiApi:
    """Return the way to the TUI's server. `inject`: `ctx.inject_message`; `home`: whose part."""
    from wakebus.plugin.hermes.host_api.private_tui import PrivateTui

    return PrivateTui(server, inject or _reaches_nothing, home)


def _reaches_nothing(content: str, **_: Any) -> bool:
    return False


def hook_callbacks(ctx: Any) -> list[Any]:
    """Return the callbacks of all plugins' hooks; none where Hermes does not show them."""
    found = getattr(getattr(ctx, "_manager", None), "_hooks", None) or {}
    return [callback for several in found.values() for callback in several]


def _takes_session(inject: Inject) -> bool:
    """`session_key` came with Hermes 0.21.3; before, it reaches a terminal alone."""
    try:
        return "session_key" in inspect.signature(inject).parameters
    except (TypeError, ValueError):
        return False


def _runner(modules: Mapping[str, Any]) -> Any:
    """The weakref is published before the runner has a loop (gateway/run.py:3095, 7294)."""
    runner = _called(getattr(modules.get("gateway.run"), "_gateway_runner_ref", None))
    loop = getattr(runner, "_gateway_loop", None)
    if loop is None or _called(getattr(loop, "is_closed", None)):
        return None
    shutdown = getattr(runner, "_shutdown_event", None)  # set when it has stopped (9157)
    return None if _called(getattr(shutdown, "is_set", None)) else runner


def _cli(modules: Mapping[str, Any], home: Path | None) -> Any:
    """
    `HermesCLI.run()` publishes itself to its profile's manager (cli.py:13098); since 0.20 so does
    the one-shot `hermes chat -q` (hermes_cli/cli_single_query.py:505), which answers nobody else.
    """
    cli = getattr(_manager(modules, home), "_cli_ref", None)
    ends = any(getattr(cli, name, False) is True for name in ("_should_exit", "_single_query_mode"))
    return None if ends else cli


def _tui(modules: Mapping[str, Any], home: Path | None) -> Any:
    """
    The server takes plugins' messages once it serves (tui_gateway/entry.py:297 of 0.22.2,
    hermes_cli/web_server.py:241); a `hermes serve` without a session runs no turn.
    """
    if getattr(_manager(modules, home), "has_tui_message_injector", False) is not True:
        return None
    from wakebus.plugin.hermes.host_api.private_tui import away, live_sessions

    server = modules.get("tui_gateway.server")
    ready = any(not away(server, session) for _, session in live_sessions(server, home))
    return server if ready else None


def absence(modules: Mapping[str, Any] | None = None, home: Path | None = None) -> str:
    """Return why a process that serves the TUI does not listen, "" for any other process."""
    loaded = sys.modules if modules is None else modules
    if "tui_gateway.server" not in loaded:
        return ""
    if not hasattr(_manager(loaded, home), "has_tui_message_injector"):
        return NO_WAY_IN
    return NO_SESSION


def _manager(modules: Mapping[str, Any], home: Path | None) -> Any:
    """Return the plugin manager of the profile of `home` (hermes_cli/plugins.py:1592)."""
    plugins = modules.get("hermes_cli.plugins")
    managers = getattr(plugins, "_plugin_managers_by_home", None)
    if managers is None or home is None:
        return _called(getattr(plugins, "get_plugin_manager", None))
    return managers.get(home)


def _called(function: Any) -> Any:
    return function() if callable(function) else None
