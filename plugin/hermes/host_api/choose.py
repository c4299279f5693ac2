"""
Finds what makes a Hermes process one that listens, and the way to it that is there.

Rule 1: nothing of Hermes is imported: importing `gateway.run` marks the process as a gateway
(gateway/run.py:1408 of hermes-agent 0.19.0). Rule 2: argv and environment decide nothing: they tell
no process that listens from one that never does (`hermes chat -q`, cron, mcp serve, dashboard,
--tui, acp). Rule 3: anything may be missing or half built; then nothing is found yet. Rule 4: no
version is asked: a way is taken where what it needs is there. Rule 5: a way is loaded when it is
taken; this file is loaded in every process of Hermes.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wakebus.plugin.hermes.host_api.protocol import GatewayApi, LiveHost, TerminalApi
from wakebus.plugin.hermes.host_api.served_profiles import served_profile

Inject = Callable[..., Any]


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
    plugins = modules.get("hermes_cli.plugins")
    managers = getattr(plugins, "_plugin_managers_by_home", None)  # hermes_cli/plugins.py:1592
    if managers is None or home is None:
        manager = _called(getattr(plugins, "get_plugin_manager", None))
    else:
        manager = managers.get(home)
    cli = getattr(manager, "_cli_ref", None)
    ends = any(getattr(cli, name, False) is True for name in ("_should_exit", "_single_query_mode"))
    return None if ends else cli


def _called(function: Any) -> Any:
    return function() if callable(function) else None
